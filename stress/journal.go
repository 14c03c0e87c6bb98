// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A journal is what a worker process writes into the history of the run. A nil journal
// writes nothing.
type journal struct {
	writer  *history.Writer
	process int
	failed  func(error)   // is told that an event could not be written
	ahead   int64         // of this process's clock, in nanoseconds
	ops     atomic.Uint64 // the number of the latest acquisition

	watching sync.WaitGroup // goroutines that watch holds
}

// openJournal opens the journal of a process, or returns nil if the run has no history.
func openJournal(s wire.Settings, failed func(error)) (*journal, error) {
	if s.History == "" {
		return nil, nil
	}
	w, err := history.Create(s.History, s.Process, s.Incarnation)
	if err != nil {
		return nil, err
	}
	j := newJournal(w, s.Process, failed)
	j.ahead = s.ClockAhead.Nanoseconds()
	return j, nil
}

// newJournal returns the journal of a process that writes by w, and tells failed why an event
// could not be written.
func newJournal(w *history.Writer, process int, failed func(error)) *journal {
	return &journal{writer: w, process: process, failed: failed}
}

// now returns the time of the history. A process in a time namespace has a clock of its own.
func (j *journal) now() int64 { return history.Now() - j.ahead }

// write writes e, which is of now unless it has a time.
func (j *journal) write(e history.Event) {
	if j == nil {
		return
	}
	if e.At == 0 {
		e.At = j.now()
	}
	if err := j.writer.Write(e); err != nil {
		j.failed(fmt.Errorf("writing the history: %w", err))
	}
}

// check asks whether something is so, and writes e with the time before the answer if it
// is.
func (j *journal) check(e history.Event, is func() bool) bool {
	e.At = j.now()
	if !is() {
		return false
	}
	j.write(e)
	return true
}

// saw writes what a referee has seen.
func (j *journal) saw(v referee.Violation) {
	e := history.Event{
		Kind: history.Overlap, At: v.At - j.ahead, Process: j.process, Lock: strings.TrimSuffix(v.Lock, referee.ThirdMark), Mode: history.Mode(v.Mode),
		Token: v.Token, Turn: v.Turn, Target: string(v.Kind), Text: firstLine(v.String()),
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
	j.write(e)
}

// alive writes Alive at intervals, until ctx ends.
func (j *journal) alive(ctx context.Context) {
	if j == nil {
		return
	}
	tick := time.NewTicker(history.AliveEvery)
	defer tick.Stop()
	for {
		j.write(history.Event{Kind: history.Alive, Process: j.process})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// close waits until no goroutine watches a hold, and closes the file.
func (j *journal) close() error {
	if j == nil {
		return nil
	}
	j.watching.Wait()
	return j.writer.Close()
}

// observe writes what the manager tells of its session.
func (j *journal) observe(e manager.Event) {
	says := map[manager.EventKind]string{
		manager.EventSessionBegan:      history.SessionBegan,
		manager.EventConnectionLost:    history.SessionSuspended,
		manager.EventConnectionResumed: history.SessionResumed,
		manager.EventSessionOver:       history.SessionEnded,
	}
	if text, ok := says[e.Kind]; ok {
		j.write(history.Event{Kind: history.Session, Session: sessionName(e.Session), Text: text})
	}
}

// sessionName names a session as ZooKeeper's log does.
func sessionName(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// A lock is what a record is about. Records are found again by it, so it is one of a
// pointer.
type lock interface {
	Name() string
	Mode() history.Mode // in the history
}

// A watched is a hold that a worker has: a manager.Hold, or what a recipe gives.
type watched interface {
	Err() error
	Lost() <-chan struct{}
}

// A record is one acquisition in the history: from a worker's request to the end of its
// release. A nil record writes nothing.
type record struct {
	journal *journal
	lock    lock
	left    chan struct{} // closed when the worker leaves

	mu    sync.Mutex // protects what follows
	stage stage
	event history.Event // what all its events have in common
}

// A stage is how far an acquisition is.
type stage int

const (
	asked   stage = iota
	inside        // granted
	outside       // left, and its release may not have settled
	over
)

// request writes that a worker asks for l.
func (j *journal) request(worker int, l lock) *record {
	return j.requestPart(worker, l, "", 0)
}

// requestPart is request of a part of what the recipe l gives, such as one shard, or of some
// permits.
func (j *journal) requestPart(worker int, l lock, part string, permits int) *record {
	if j == nil {
		return nil
	}
	r := &record{
		journal: j,
		lock:    l,
		event:   history.Event{Worker: worker, Op: j.ops.Add(1), Lock: l.Name() + part, Mode: l.Mode(), Permits: permits},
		left:    make(chan struct{}),
	}
	r.write(history.Event{Kind: history.Request})
	return r
}

// fill returns e with what all events of the record have.
func (r *record) fill(e history.Event) history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Worker, e.Op, e.Lock, e.Permits = r.event.Worker, r.event.Op, r.event.Lock, r.event.Permits
	if e.Mode == "" {
		e.Mode = r.event.Mode
	}
	if e.Token == 0 {
		e.Token, e.Turn, e.Session = r.event.Token, r.event.Turn, r.event.Session
	}
	return e
}

func (r *record) write(e history.Event) { r.journal.write(r.fill(e)) }

// advance moves the record from one of the stages to another. It reports false if it was
// in none of them.
func (r *record) advance(to stage, from ...stage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range from {
		if r.stage == s {
			r.stage = to
			return true
		}
	}
	return false
}

func (r *record) is(s stage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stage == s
}

// granted writes that the worker has h, if that is valid, and writes what it is told of h
// from then on.
func (r *record) granted(g manager.Grant, h watched) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.event.Token, r.event.Turn = g.Token, g.Turn
	if g.Session != 0 {
		r.event.Session = sessionName(g.Session)
	}
	r.mu.Unlock()
	// The time of the grant is one at which h was valid, not a later one at which another
	// process may have the lock already.
	valid := r.journal.check(r.fill(history.Event{Kind: history.Granted}), func() bool { return h.Err() == nil && r.advance(inside, asked) })
	if !valid {
		r.refused("lost at once")
		return
	}
	r.journal.watching.Go(func() { r.watch(h) })
}

// watch writes that h is lost or revoked, until the worker leaves.
func (r *record) watch(h watched) {
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
			r.write(history.Event{Kind: history.Lost, Text: cause})
			return
		}
	}
}

// valid asks whether h is valid, and writes if it is.
func (r *record) valid(h watched) {
	if r != nil {
		r.journal.check(r.fill(history.Event{Kind: history.Valid}), func() bool { return h.Err() == nil })
	}
}

// changed writes that the hold has got another mode.
func (r *record) changed(m history.Mode) {
	if r != nil {
		r.mu.Lock()
		r.event.Mode = m
		r.mu.Unlock()
		r.write(history.Event{Kind: history.Changed})
	}
}

// release writes that the worker leaves.
func (r *record) release() {
	if r != nil && r.advance(outside, inside) {
		r.write(history.Event{Kind: history.Release})
		close(r.left)
	}
}

// refused writes that the acquisition ended without a grant.
func (r *record) refused(why string) {
	if r != nil && r.advance(over, asked) {
		r.write(history.Event{Kind: history.Refused, Text: firstLine(why)})
	}
}

// released writes that the release has settled.
func (r *record) released(err error) {
	if r == nil || !r.advance(over, outside) {
		return
	}
	e := history.Event{Kind: history.Released}
	if err != nil {
		e.Text = firstLine(err.Error())
	}
	r.write(e)
}

// firstLine returns the first line of a text, cut off where it is longer than a person
// wants to read in a history.
func firstLine(text string) string {
	const most = 300
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// records are the acquisitions of one worker that have not settled. Its goroutine and the
// one with which it shares a hold use them.
type records struct {
	mu  sync.Mutex
	all []*record // protected by mu
}

// add adds r.
func (rs *records) add(r *record) *record {
	if r != nil {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		rs.all = append(rs.all, r)
	}
	return r
}

// find returns the first record of l in stage s; nil if there is none.
func (rs *records) find(l lock, s stage) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.all {
		if r.lock == l && r.is(s) {
			return r
		}
	}
	return nil
}

// take removes and returns the first record of l whose worker has left; nil if there is
// none.
func (rs *records) take(l lock) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for i, r := range rs.all {
		if r.lock == l && r.is(outside) {
			rs.all = append(rs.all[:i], rs.all[i+1:]...)
			return r
		}
	}
	return nil
}

// end ends all records: the step is over.
func (rs *records) end() {
	rs.mu.Lock()
	all := rs.all
	rs.all = nil
	rs.mu.Unlock()
	for _, r := range all {
		r.refused("given up")
		r.release()
		r.released(nil)
	}
}
