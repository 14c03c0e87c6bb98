// SPDX-License-Identifier: Apache-2.0

// Package journal is what a process of the harness writes into the history of its run.
package journal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A Journal is what a worker process writes into the history of the run. A nil journal
// writes nothing.
type Journal struct {
	writer  *history.Writer
	process int
	failed  func(error)   // is told that an event could not be written
	ahead   int64         // of this process's clock, in nanoseconds
	ops     atomic.Uint64 // the number of the latest acquisition

	watching sync.WaitGroup // goroutines that watch holds
}

// Open opens the journal of a process, or returns nil if the run has no history.
func Open(s wire.Settings, failed func(error)) (*Journal, error) {
	if s.History == "" {
		return nil, nil
	}
	w, err := history.Create(s.History, s.Process, s.Incarnation)
	if err != nil {
		return nil, err
	}
	j := New(w, s.Process, failed)
	j.ahead = s.ClockAhead.Nanoseconds()
	return j, nil
}

// New returns the journal of a process that writes by w, and tells failed why an event
// could not be written.
func New(w *history.Writer, process int, failed func(error)) *Journal {
	return &Journal{writer: w, process: process, failed: failed}
}

// Now returns the time of the history. A process in a time namespace has a clock of its own.
func (j *Journal) Now() int64 { return history.Now() - j.ahead }

// Write writes e, which is of now unless it has a time.
func (j *Journal) Write(e history.Event) {
	if j == nil {
		return
	}
	if e.At == 0 {
		e.At = j.Now()
	}
	if err := j.writer.Write(e); err != nil {
		j.failed(fmt.Errorf("writing the history: %w", err))
	}
}

// check asks whether something is so, and writes e with the time before the answer if it
// is.
func (j *Journal) check(e history.Event, is func() bool) bool {
	e.At = j.Now()
	if !is() {
		return false
	}
	j.Write(e)
	return true
}

// Saw writes what a referee has seen.
func (j *Journal) Saw(v referee.Violation) {
	e := history.Event{
		Kind: history.Overlap, At: v.At - j.ahead, Process: j.process, Lock: strings.TrimSuffix(v.Lock, referee.ThirdMark), Mode: history.Mode(v.Mode),
		Token: v.Token, Turn: v.Turn, Target: v.Kind, Text: FirstLine(v.String()),
	}
	switch e.Mode {
	case referee.Upgraded:
		e.Mode = history.WriteMode
	case "barrier":
		e.Mode = ""
	}
	for _, o := range v.Others {
		e.Others = append(e.Others, o.Process)
	}
	j.Write(e)
}

// Alive writes Alive at intervals, until ctx ends.
func (j *Journal) Alive(ctx context.Context) {
	if j == nil {
		return
	}
	for ok := true; ok; ok = pause.For(ctx, history.AliveEvery, nil) {
		j.Write(history.Event{Kind: history.Alive, Process: j.process})
	}
}

// Close waits until no goroutine watches a hold, and closes the file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.watching.Wait()
	return j.writer.Close()
}

// Observe writes what the manager tells of its session.
func (j *Journal) Observe(e manager.Event) {
	says := map[manager.EventKind]string{
		manager.EventSessionBegan:      history.SessionBegan,
		manager.EventConnectionLost:    history.SessionSuspended,
		manager.EventConnectionResumed: history.SessionResumed,
		manager.EventSessionOver:       history.SessionEnded,
	}
	if text, ok := says[e.Kind]; ok {
		j.Write(history.Event{Kind: history.Session, Session: SessionName(e.Session), Text: text})
	}
}

// SessionName names a session as ZooKeeper's log does.
func SessionName(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// A subject is what a record is about: a lock. Records are found again by it, so it is one of a
// pointer.
type subject interface {
	Name() string
	Mode() history.Mode // in the history
}

// A Watched is a hold that a worker has: a manager.Hold, or what a recipe gives.
type Watched interface {
	Err() error
	Lost() <-chan struct{}
}

// A Record is one acquisition in the history: from a worker's request to the end of its
// release. A nil record writes nothing.
type Record struct {
	journal *Journal
	lock    subject
	left    chan struct{} // closed when the worker leaves

	mu    sync.Mutex // protects what follows
	stage Stage
	event history.Event // what all its events have in common
}

// A Stage is how far an acquisition is.
type Stage int

// The stages.
const (
	Asked   Stage = iota
	Inside        // granted
	outside       // left, and its release may not have settled
	over
)

// Request writes that a worker asks for l.
func (j *Journal) Request(worker int, l subject) *Record {
	return j.RequestPart(worker, l, "", 0)
}

// RequestPart is request of a part of what the recipe l gives, such as one shard, or of some
// permits.
func (j *Journal) RequestPart(worker int, l subject, part string, permits int) *Record {
	if j == nil {
		return nil
	}
	r := &Record{
		journal: j,
		lock:    l,
		event:   history.Event{Worker: worker, Op: j.ops.Add(1), Lock: l.Name() + part, Mode: l.Mode(), Permits: permits},
		left:    make(chan struct{}),
	}
	r.write(history.Event{Kind: history.Request})
	return r
}

// Fill returns e with what all events of the record have.
func (r *Record) Fill(e history.Event) history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Worker, e.Op, e.Lock, e.Permits = r.event.Worker, r.event.Op, r.event.Lock, r.event.Permits
	e.Mode = cmp.Or(e.Mode, r.event.Mode)
	if e.Token == 0 {
		e.Token, e.Turn, e.Session = r.event.Token, r.event.Turn, r.event.Session
	}
	return e
}

func (r *Record) write(e history.Event) { r.journal.Write(r.Fill(e)) }

// advance moves the record from one of the stages to another. It reports false if it was
// in none of them.
func (r *Record) advance(to Stage, from ...Stage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(from, r.stage) {
		return false
	}
	r.stage = to
	return true
}

// Is reports whether the acquisition is so far.
func (r *Record) Is(s Stage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stage == s
}

// Granted writes that the worker has h, if that is valid, and writes what it is told of h
// from then on.
func (r *Record) Granted(g manager.Grant, h Watched) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.event.Token, r.event.Turn = g.Token, g.Turn
	if g.Session != 0 {
		r.event.Session = SessionName(g.Session)
	}
	r.mu.Unlock()
	// The time of the grant is one at which h was valid, not a later one at which another
	// process may have the lock already.
	valid := r.journal.check(r.Fill(history.Event{Kind: history.Granted}), func() bool { return h.Err() == nil && r.advance(Inside, Asked) })
	if !valid {
		r.Refused("lost at once")
		return
	}
	r.journal.watching.Go(func() { r.watch(h) })
}

// watch writes that h is lost or revoked, until the worker leaves.
func (r *Record) watch(h Watched) {
	var revoked <-chan struct{}
	if h, ok := h.(interface{ Revoked() <-chan struct{} }); ok {
		revoked = h.Revoked()
	}
	for {
		select {
		case <-r.left:
			return
		case <-revoked:
			revoked = nil
			r.write(history.Event{Kind: history.Revoked})
		case <-h.Lost():
			select {
			case <-r.left: // before it was lost, or at the same moment
				return
			default:
			}
			cause := ""
			if err := h.Err(); err != nil {
				cause = err.Error()
			}
			e := history.Event{Kind: history.Lost, Text: cause}
			if h, ok := h.(interface{ LostAt() int64 }); ok {
				e.At = h.LostAt()
			}
			r.write(e)
			return
		}
	}
}

// Valid asks whether h is valid, and writes if it is.
func (r *Record) Valid(h Watched) {
	if r != nil {
		r.journal.check(r.Fill(history.Event{Kind: history.Valid}), func() bool { return h.Err() == nil })
	}
}

// Changed writes that the hold has got another mode.
func (r *Record) Changed(m history.Mode) {
	if r != nil {
		r.mu.Lock()
		r.event.Mode = m
		r.mu.Unlock()
		r.write(history.Event{Kind: history.Changed})
	}
}

// Release writes that the worker leaves.
func (r *Record) Release() {
	if r != nil && r.advance(outside, Inside) {
		r.write(history.Event{Kind: history.Release})
		close(r.left)
	}
}

// Refused writes that the acquisition ended without a grant.
func (r *Record) Refused(why string) {
	if r != nil && r.advance(over, Asked) {
		r.write(history.Event{Kind: history.Refused, Text: FirstLine(why)})
	}
}

// Released writes that the release has settled.
func (r *Record) Released(err error) {
	if r == nil || !r.advance(over, outside) {
		return
	}
	e := history.Event{Kind: history.Released}
	if err != nil {
		e.Text = FirstLine(err.Error())
	}
	r.write(e)
}

// FirstLine returns the first line of a text, cut off where it is longer than a person
// wants to read in a history.
func FirstLine(text string) string {
	const most = 300
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Records are the acquisitions of one worker that have not settled. Its goroutine and the
// one with which it shares a hold use them.
type Records struct {
	mu  sync.Mutex
	all []*Record // protected by mu
}

// Add adds r.
func (rs *Records) Add(r *Record) *Record {
	if r != nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.all = append(rs.all, r)
	}
	return r
}

// Find returns the first record of l in stage s; nil if there is none.
func (rs *Records) Find(l subject, s Stage) *Record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if i := rs.index(l, s); i >= 0 {
		return rs.all[i]
	}
	return nil
}

// index returns where the first record of l in stage s is, or -1. The caller holds mu.
func (rs *Records) index(l subject, s Stage) int {
	return slices.IndexFunc(rs.all, func(r *Record) bool { return r.lock == l && r.Is(s) })
}

// Take removes and returns the first record of l whose worker has left; nil if there is
// none.
func (rs *Records) Take(l subject) *Record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i := rs.index(l, outside)
	if i < 0 {
		return nil
	}
	r := rs.all[i]
	rs.all = slices.Delete(rs.all, i, i+1)
	return r
}

// End ends all records: the step is over.
func (rs *Records) End() {
	rs.mu.Lock()
	all := rs.all
	rs.all = nil
	rs.mu.Unlock()
	for _, r := range all {
		r.Refused("given up")
		r.Release()
		r.Released(nil)
	}
}
