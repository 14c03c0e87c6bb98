// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"time"
)

// A teller is a roundIO in the role of one that tells of itself: to the counters of its manager, to
// Config.Observer, to the listeners of its lock and to the log. None of it is on the path of a caller
// that enters a lock which its process owns.
type teller roundIO

func (t *roundIO) teller() *teller { return (*teller)(t) }

// queued tells that the round has a node.
func (t *teller) queued() {
	if f := t.round.lock.m.feed; f.hears(t.round.lock) {
		f.queuedAt(t.io, t.node.Path())
	}
}

// placed tells where the round stands in the queue, unless it was told the same before.
func (t *teller) placed(before, now *position) {
	l := t.round.lock
	m := l.m
	if !m.feed.hears(l) && !m.debugs() {
		return
	}
	ahead := now.contender()
	if before != nil && before.ahead == now.ahead {
		if was := before.contender(); ahead == nil || was != nil && was.Path == ahead.Path {
			return
		}
	}
	m.feed.placed(t.io, Place{Path: t.node.Path(), Position: int(now.ahead), Ahead: ahead})
	if m.debugs() {
		behind := "" // not known: it has just gone
		if ahead != nil {
			behind = ahead.String()
		}
		m.cfg.Logger.Debug("holdfast: waiting for a lock", "lock", l.Name(), "kind", l.kind.String(), "position", now.ahead, "ahead", behind)
	}
}

// granted tells that the round was granted: the caller's CAS has made it so.
func (t *teller) granted() {
	l := t.round.lock
	l.grants.Add(1)
	l.m.totals.grants.Add(1)
	l.m.feed.granted(t.io)
	l.m.box.granted()
}

// logGranted logs that the round was granted.
func (t *teller) logGranted() {
	l := t.round.lock
	if l.m.debugs() {
		l.m.cfg.Logger.Debug("holdfast: granted a lock", "lock", l.Name(), "kind", l.kind.String(), "node", t.tenure.path, "token", t.tenure.token)
	}
}

// lost tells that this process owned the lock, for its holders, and has lost it.
func (t *teller) lost(err *Error) {
	l := t.round.lock
	l.m.totals.lost.Add(1)
	l.m.feed.lost(t.io, err)
	if errors.Is(err, ErrLost) { // else it was closed, and its owner knows
		l.m.journal.losses.note(l, Loss{
			Time:    time.Now(),
			Held:    time.Duration(l.m.now() - t.tenure.since),
			Err:     err,
			Session: t.tenure.session.ID(),
			Node:    t.tenure.path,
			Token:   t.tenure.token,
		})
	}
}

// failed tells that the round has ended without a grant.
func (t *teller) failed(err *Error) {
	m := t.round.lock.m
	m.totals.failures.Add(1)
	m.feed.failed(t.io, err)
}

// released tells that the lock was released, with this result. A round that was ended
// by force has told so before.
func (t *teller) released(why *endReason, err error) {
	if why.err == nil {
		t.round.lock.m.feed.released(t.io, err)
	}
}

// logOver logs that the round is over, with this result.
func (t *teller) logOver(err error) {
	l := t.round.lock
	if !l.m.debugs() {
		return
	}
	result := err
	if e, ok := errors.AsType[*Error](err); ok {
		result = e.Err // the line names the lock
	}
	args := []any{"lock", l.Name(), "kind", l.kind.String(), "result", result}
	if errors.Is(err, ErrNotGranted) {
		l.m.cfg.Logger.Debug("holdfast: stopped waiting for a lock", args...)
	} else {
		l.m.cfg.Logger.Debug("holdfast: released a lock", args...)
	}
}
