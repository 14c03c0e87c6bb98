// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/register"
)

// A formerGrant is a grant that a worker does not have any more, and with which it will
// write to the register all the same: it acts as a process does that has not noticed the
// loss of a lock. The register must refuse the write if another holder has written since.
type formerGrant struct {
	event history.Event // what the history says of the write, but for the answer
	due   time.Time
}

// formerGrants are those of one worker. Its goroutine and the one with which it shares a
// hold use them.
type formerGrants struct {
	mu  sync.Mutex
	all []formerGrant // protected by mu
}

// mostFormer limits how many grants a worker remembers.
const mostFormer = 8

func (f *formerGrants) add(g formerGrant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) < mostFormer {
		f.all = append(f.all, g)
	}
}

func (f *formerGrants) take(now time.Time) (g formerGrant, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, g := range f.all {
		if !now.Before(g.due) {
			f.all = append(f.all[:i], f.all[i+1:]...)
			return g, true
		}
	}
	return g, false
}

// writeNow writes to the register under the hold that the worker has of l, without asking
// whether it still has it.
func (w *worker) writeNow(l *contended) {
	if r := w.records.Find(l, journal.Inside); r != nil {
		e := r.Fill(history.Event{Kind: history.Write})
		if e.Mode.Alone() { // the resource compares the tokens of writers only
			w.write(&w.register, e)
		}
	}
}

// write sends a write to the register, and puts the answer into the history.
func (w *worker) write(c *register.Client, e history.Event) {
	ok, err := c.Write(register.Write{Lock: e.Lock, Token: e.Token, Turn: e.Turn, Process: w.child.settings.Process, Worker: w.id, Op: e.Op})
	if err != nil {
		if !w.child.stopping() {
			w.child.fatal(fmt.Errorf("worker %d: writing to the register: %w", w.id, err))
		}
		return
	}
	e.OK = ok
	w.child.journal.Write(e)
}

// leaves remembers the grant of a hold that the worker leaves: always if it was lost, and
// now and then if it was not.
func (w *worker) leaves(r *journal.Record, lost bool) {
	if r == nil {
		return
	}
	e := r.Fill(history.Event{Kind: history.Write, Text: "late"})
	if e.Token == 0 || !e.Mode.Alone() {
		return
	}
	after := w.child.settings.Hold
	switch {
	case lost: // another process has the lock when the session has ended
		after = w.child.settings.SessionTimeout * time.Duration(1+e.Op%3) / 2
	case e.Op%16 == 0:
	default:
		return
	}
	w.former.add(formerGrant{e, time.Now().Add(after)})
}

// writeLate writes with a grant that the worker does not have any more, if there is one
// that is due.
func (w *worker) writeLate() {
	if g, ok := w.former.take(time.Now()); ok {
		w.write(&w.register, g.event)
	}
}
