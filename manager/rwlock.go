// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// An RWLock is a pair of locks in one queue: any number of processes can hold the
// read lock together, and one process the write lock alone. A reader waits for
// the writers ahead of it, and a writer for every contender ahead of it, so
// neither starves the other. Get an RWLock from [Manager.ReadWrite].
//
// As with a [Lock], only processes exclude each other. In one process, readers
// and the writer may hold their locks together: while the process holds the write
// lock, its own readers enter at once, which is a downgrade if the write lock is
// then released. In the other direction, a goroutine that holds the read lock and
// asks for the write lock would wait for itself; it gets [ErrUpgrade] if its
// context comes from [Hold.Context].
type RWLock struct{ reader, writer *Lock }

// Reader returns the read lock.
func (rw *RWLock) Reader() *Lock { return rw.reader }

// Writer returns the write lock.
func (rw *RWLock) Writer() *Lock { return rw.writer }

func newRWLock(m *Manager, path string) *RWLock {
	rw := &RWLock{reader: newLock(m, path, queue.Read), writer: newLock(m, path, queue.Write)}
	rw.reader.rw, rw.writer.rw = rw, rw
	return rw
}

// held returns the grant of the round in which this process owns the write lock,
// or owned it until its node is deleted.
func (rw *RWLock) held() (Grant, bool) {
	r := rw.writer.cur.Load()
	switch r.word.Load().Phase() {
	case state.Retained, state.Releasing:
		// The future says whether a round that is being released was ever
		// granted. It lags behind the word for a moment: see granted.
		g, err, ok := r.io().granted.Future().Poll()
		return g, ok && err == nil
	}
	return Grant{}, false
}

// granted is called when a round of l has been granted.
//
// If l is the writer, readers of this process that are queued behind it enter
// now. A reader's step looks for the writer's grant after its round is FETCHING;
// we settle the grant before we look for the reader's round. At least one sees the other.
//
// If l is the reader and our own writer is queued behind it, the round takes
// newcomers for a tenure only. A writer that begins to queue makes its round
// FETCHING before it looks for the reader's; ours is RETAINED before we look for
// the writer's. At least one sees the other.
func (rw *RWLock) granted(l *Lock) {
	if l == rw.writer {
		r := rw.reader.cur.Load()
		if r.word.Load().Phase() == state.Fetching && r.flags.Load().Has(state.PrevReleased|state.Wanted) {
			r.io().wake()
		}
	} else if rw.writer.cur.Load().word.Load().Phase() == state.Fetching {
		rw.closeReader()
	}
}

// fetching is called when a round of l queues. Our own readers would keep our
// writer out for as long as new ones arrive, so they queue behind it once their
// round has lasted a tenure.
func (rw *RWLock) fetching(l *Lock) {
	if l == rw.writer {
		rw.closeReader()
	}
}

// closeReader closes the gate of the reader's round if this process holds the
// read lock: now if the round has lasted a tenure, otherwise then, if our writer
// is still waiting. Closing it at once would end a read round for every write,
// and even for a TryLock that passes by; with occasional writes, hardly any
// readers would share a round.
func (rw *RWLock) closeReader() {
	r := rw.reader.cur.Load()
	m := r.lock.m
	if m.cfg.Tenure < 0 || r.word.Load().Phase() != state.Retained {
		return
	}
	t := r.io()
	if rest := m.cfg.Tenure - time.Duration(m.now()-t.tenure.since); rest <= 0 {
		//holdfast:reached gate: closed as our own writer queued
		r.flags.Set(state.GateClosed)
	} else {
		t.wakeAfter(rest, state.WriterTimer, state.WriterDue)
	}
}

// writerDue closes the gate of the read round r if this process's own writer has
// waited for it until now. r's step calls it after lowering the timer that
// closeReader started. A writer whose round is FETCHING after that finds that the
// tenure is over; one that found the timer raised is seen here.
func (rw *RWLock) writerDue(r *round) {
	if r.word.Load().Phase() == state.Retained && rw.writer.cur.Load().word.Load().Phase() == state.Fetching {
		//holdfast:reached gate: closed when our own writer had waited for the tenure
		r.flags.Set(state.GateClosed)
	}
}
