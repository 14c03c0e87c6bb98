// SPDX-License-Identifier: Apache-2.0

// Package chronicle is the parent's side of a history: it writes what the parent does and sees,
// has the history judged while the run goes on, and writes its verdict and its page.
package chronicle

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/flock"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/judge"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A Chronicle is the parent's side of the history: it writes what the parent does and sees,
// and reads and judges what all processes write, while the run goes on. A nil chronicle
// does nothing.
type Chronicle struct {
	Dir     string
	header  history.Header
	journal *journal.Journal
	trial   *judge.Trial
	claimed *os.File // the directory, until close
	stop    func()   // ends telling that the parent is alive

	looked time.Time       // when the parent's goroutine last asked for the verdict so far
	soFar  verdict.Verdict // what that was
	judged bool            // all other events have been judged; no other goroutine writes any more
	after  []history.Event // those since then

	nextPage time.Time // when the page is to be written again; the trial's goroutine alone uses it

	mu       sync.Mutex // protects what follows
	live     live
	lives    lives
	latest   int64 // time of the event that was read last
	deposals []deposal
	err      error // why events could not be written
}

const (
	// The page so far is written at such intervals, or longer ones if it takes more than a
	// hundredth of that time.
	pageInterval = time.Minute
	// The live view asks for the verdict so far at such intervals.
	lookInterval = 2 * time.Second
)

// mostHistory is how much of the events of a history is kept. Those around findings may take as
// much again.
var mostHistory = history.Limit{Bytes: 2 << 30, Files: 4096}

// live is what the live view shows of the history.
type live struct {
	lost             uint64
	holding, waiting map[opKey]bool // by acquisition
	faults           int
}

// An opKey identifies an acquisition.
type opKey struct {
	Life
	op uint64
}

// New begins a history in dir. One that is there is replaced.
func New(dir string, h history.Header) (_ *Chronicle, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	claimed, err := claim(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, claimed.Close())
		}
	}()
	if err := removeHistory(dir); err != nil {
		return nil, err
	}
	if err := history.WriteHeader(dir, h); err != nil {
		return nil, err
	}
	c := &Chronicle{Dir: dir, header: h, claimed: claimed}
	c.live.holding, c.live.waiting = map[opKey]bool{}, map[opKey]bool{}
	c.lives = newLives()
	w, err := history.Create(dir, history.Harness, 0)
	if err != nil {
		return nil, err
	}
	c.journal = journal.New(w, history.Harness, c.failed)
	if c.trial, err = judge.Begin(dir, judge.Options{Watch: c.note, Checkpointed: c.page, Limit: mostHistory}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	c.stop = pause.Beside(c.journal.Alive)
	return c, nil
}

// claim takes the directory of a history for this process, until it closes the file: two
// runs that write into one would remove each other's events. The flock on the directory
// ends with the process, however that ends.
func claim(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch ok, err := flock.Lock(f, flock.Exclusive); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("claiming %s: %w", dir, err), f.Close())
	case !ok:
		return nil, errors.Join(fmt.Errorf("another run writes its history into %s: wait until it has ended, or name another directory", dir), f.Close())
	}
	return f, nil
}

// removeHistory removes an earlier run's history and report from dir, if there is one.
func removeHistory(dir string) error {
	if err := history.Remove(dir); err != nil {
		return err
	}
	return removeFiles(dir, "verdict.json", report.Name, report.Name+".*.tmp", verdict.PicturePattern)
}

func removeFiles(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// failed notes why the history is not whole.
func (c *Chronicle) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// Write writes an event that the harness has seen. Once the history has been judged, the parent's
// goroutine alone calls it, and the event is judged by Close.
func (c *Chronicle) Write(e history.Event) {
	if c == nil {
		return
	}
	if e.At == 0 {
		e.At = history.Now()
	}
	if e.Kind == history.FaultBegan || e.Kind == history.FaultEnded {
		c.mu.Lock()
		c.noteDeposal(e)
		c.mu.Unlock()
	}
	c.journal.Write(e)
	if c.judged {
		c.after = append(c.after, e)
	}
}

// Ended notes the end of a process, and whether that was in good order.
func (c *Chronicle) Ended(l Life, well bool) {
	c.Write(history.Event{Kind: history.Ended, Process: l.Process, Incarnation: l.Incarnation, OK: well})
}

// note notes what the live view shows of e.
func (c *Chronicle) note(e history.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = max(c.latest, e.At)
	who := Life{e.Process, e.Incarnation}
	l, k := &c.live, opKey{who, e.Op}
	gone := c.lives.over.has(who) // it may write on for a moment if it was killed
	switch e.Kind {
	case history.Request:
		if !gone { // else nothing would ever end it
			l.waiting[k] = true
		}
	case history.Granted:
		delete(l.waiting, k)
		if !gone {
			l.holding[k] = true
		}
	case history.Refused:
		delete(l.waiting, k)
	case history.Lost:
		l.lost++
		delete(l.holding, k)
	case history.Release:
		delete(l.holding, k)
	case history.Ended:
		c.lives.ends(who, e.At)
		its := func(k opKey, _ bool) bool { return k.Life == who }
		maps.DeleteFunc(l.holding, its)
		maps.DeleteFunc(l.waiting, its)
	case history.FaultBegan:
		l.faults++
	case history.Session:
		if e.Text == history.SessionBegan {
			c.lives.has(who, e.Session, e.At)
		} else if e.Text == history.SessionEnded {
			c.lives.loses(e.Session)
		}
	}
}

// page writes the page with the verdict so far, now and then, so that a run that is killed
// leaves one. The trial's goroutine calls it at each checkpoint.
func (c *Chronicle) page(v verdict.Verdict) error {
	began := time.Now()
	if began.Before(c.nextPage) {
		return nil
	}
	c.mu.Lock()
	until := c.latest
	c.mu.Unlock()
	err := report.WriteSoFar(c.Dir, c.header, v, until)
	c.nextPage = time.Now().Add(max(pageInterval, 100*time.Since(began)))
	return err
}

// ProcessOf returns the process that has a session.
func (c *Chronicle) ProcessOf(session int64) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.lives.sessions[journal.SessionName(session)]
	return s.Process, ok
}

// Kills notes that the nemesis kills a process.
func (c *Chronicle) Kills(l Life) {
	c.Ended(l, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives.killed[l.Process] = l.Incarnation
}

// Orphaned reports whether the session belonged to a process that the nemesis has killed.
func (c *Chronicle) Orphaned(session string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.lives.sessions[session]
	return ok && c.lives.killed.has(s.Life)
}

// Status describes the history so far, for the live view.
func (c *Chronicle) Status() string {
	if c == nil {
		return ""
	}
	if now := time.Now(); now.Sub(c.looked) > lookInterval {
		c.looked, c.soFar = now, c.trial.Interim()
	}
	v := c.soFar
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.live
	text := fmt.Sprintf("  holders %d  waiting %d  lost %s", len(l.holding), len(l.waiting), figures.Number(l.lost))
	if v.Waits.N > 0 {
		text += fmt.Sprintf("  wait p50 %s p99 %s", summary.Milliseconds(v.Waits.Median), summary.Milliseconds(v.Waits.P99))
	}
	if v.HandOvers.N > 0 {
		text += fmt.Sprintf("  hand-over p50 %s p99 %s", summary.Milliseconds(v.HandOvers.Median), summary.Milliseconds(v.HandOvers.P99))
	}
	if l.faults > 0 {
		text += fmt.Sprintf("  faults %d", l.faults)
	}
	if v.Found > 0 {
		text += fmt.Sprintf("  FINDINGS %d", v.Found)
	}
	return text
}

// Judge judges the history. What is written from then on is what the harness finds out.
func (c *Chronicle) Judge() error {
	c.stop()
	_, err := c.trial.End()
	c.judged = true
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.err, err)
}

// Close ends the history, writes the verdict and, if there is to be one, the report.
func (c *Chronicle) Close(reported bool) (verdict.Verdict, error) {
	v, err := c.amend()
	if reported {
		err = errors.Join(err, report.Write(c.Dir, c.header, v, eventsOf(c.Dir)))
	}
	if err != nil { // the run fails, so its history must not look better
		c.Write(history.Event{Kind: history.Failure, Process: history.Harness, Text: journal.FirstLine(err.Error())})
		var amended error
		v, amended = c.amend()
		err = errors.Join(err, amended)
	}
	return v, errors.Join(err, c.journal.Close(), c.claimed.Close())
}

// amend judges what was written since the last time, and writes the verdict.
func (c *Chronicle) amend() (verdict.Verdict, error) {
	v, err := c.trial.Amend(c.after...)
	c.after = nil
	return v, err
}

// eventsOf yields the events of a history, up to the first that cannot be read.
func eventsOf(dir string) func(yield func(history.Event) bool) {
	return func(yield func(history.Event) bool) {
		for e, err := range history.All(dir) {
			if err != nil || !yield(e) {
				return
			}
		}
	}
}
