// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/state"
)

// Shutdown closes the manager in good order. It refuses newcomers, fails waiting callers with
// [ErrClosed], gives up the locks that linger, and waits until all holders have released their
// locks or ctx ends. Meanwhile other processes can still ask these holders, and revoke their
// locks. It then waits until ZooKeeper knows what callers of recipes have given up, such as a
// place in a barrier: until ctx ends, and for at most Config.CloseTimeout. Then Shutdown calls
// Close and returns its error, joined to one that says what it could not wait for.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.stage.CompareAndSwap(open, shuttingDown)
	m.refuse(ErrClosed)
	m.failWaiters()
	var left error
	for left == nil {
		t := m.active.any()
		if t == nil {
			break
		}
		select {
		case <-t.released.Future().Done():
			// A round leaves the active ones before its release settles. If it is
			// still there, its deletion was refused: only the session's end
			// removes the node.
			if m.active.has(t) {
				left = t.round.error("shutdown", errors.New("its node cannot be deleted; closing the session instead"))
			}
		case <-ctx.Done():
			left = &Error{Op: "shutdown", Name: t.round.lock.Name(), Err: fmt.Errorf("still held: %w", ctxerr.Of(ctx))}
		}
	}
	return oneline.Join(left, m.finish(ctx), m.close(errShutdownHeld))
}

// finish waits for what [Access.Finish] runs.
func (m *Manager) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CloseTimeout)
	defer cancel()
	if m.finishing.wait(ctx) {
		return nil
	}
	return &Error{Op: "shutdown", Outage: m.outage(), Err: fmt.Errorf(
		"what recipes gave up was not confirmed in time; closing the session instead, which deletes their nodes: %w", ctxerr.Of(ctx))}
}

// Close ends everything now. All locks that are held or waited for are over:
// [Hold.Lost] closes, with the cause [ErrClosed], and the nodes are deleted with
// the session. The contexts of Config.OnAsk end, and loops over [Lock.WatchHolder] end
// with ErrClosed. All goroutines of the manager have ended when Close returns.
//
// Close blocks for at most Config.CloseTimeout, give or take a moment, and until all
// calls of Config.OnAsk have returned, and Config.Observer and all Listeners have been told
// of what happened. If ZooKeeper could not be told, the error says so: the locks are then free
// when the session times out there. A second Close waits for the first and returns the
// same error.
func (m *Manager) Close() error { return m.close(errClosedHeld) }

// close is Close. Cut is what the holders are told whose locks end by it.
func (m *Manager) close(cut error) error {
	if !m.closeBegun.CompareAndSwap(false, true) {
		<-m.closeDone
		return m.closeErr
	}
	defer close(m.closeDone)
	managers.Delete(m.id)
	m.cut = cut
	m.stage.Store(closingDown)
	m.cancel(ErrClosed)
	m.failAll()
	m.observers.close()
	m.box.stop(ErrClosed)
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.CloseTimeout)
	defer cancel()
	err := m.client.Close(ctx)
	m.ended(err)
	m.closed.Store(true)
	m.join()
	m.feed.close()
	if err != nil {
		m.closeErr = &Error{Op: "close", Err: err}
	}
	return m.closeErr
}

// ended tells the sentinel that there is nothing left to close, unless no server has confirmed the
// end of the session.
func (m *Manager) ended(unconfirmed error) {
	if m.cfg.Sentinel != nil && unconfirmed == nil {
		m.cfg.Sentinel.Forget(m.id)
	}
}

// failWaiters ends every round that has not been granted, or is idle.
func (m *Manager) failWaiters() {
	m.eachShare(func(s *share) {
		s.failPending(s.error("shutdown", ErrClosed))
		s.endIdle()
	})
}

// failAll ends every round.
func (m *Manager) failAll() {
	m.eachShare(func(s *share) {
		why := ErrClosed
		if s.word.Load().Phase() == state.Retained {
			why = m.cut
		}
		s.fail(s.error("close", why))
	})
}

// eachShare calls fn for every share that has holders or waiters: for those of the rounds of
// all locks, and of the turns of all mutexes. A round that begins while eachShare runs is found
// by its own fetch, which looks at the stage before anything else.
func (m *Manager) eachShare(fn func(*share)) {
	rounds := func(l *Lock) {
		l.own().live()(func(r *round) bool { fn(&r.share); return true })
	}
	for open := range m.registry.each() {
		switch {
		case open.lock != nil:
			rounds(open.lock)
		case open.rw != nil:
			open.rw.locks()(func(l *Lock) bool { rounds(l); return true })
		default:
			for _, s := range open.mutex.shares() {
				fn(s)
			}
			rounds(open.mutex.lock)
		}
	}
}
