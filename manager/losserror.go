// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A lossError says why a lock was lost. A watch tells that the lock's node is gone and not
// why, and what the holders must know at once cannot wait for an answer. So the text says
// no more than is known when it is read: another client deleted the node if the session
// lives on, and else the node went with the session.
type lossError struct {
	why     error         // one of the above; nil: the node is gone, and it is not known why
	over    error         // why the session is over, if it is
	paused  time.Duration // for how long this process did not run, if that is the cause
	session *zkio.Session // of the grant
	alive   atomic.Bool   // the session has got an answer since the node was gone
	revoked string        // which process revoked the lock just before, as the text has it; or ""
}

// cause returns the way in which the lock was lost, as far as that is known.
func (e *lossError) cause() error {
	switch {
	case e.why != nil:
		return e.why
	case !e.alive.Load() && e.session.Err() != nil:
		return errSessionEnded
	}
	return errNodeDeleted
}

// known reports whether it is known why the lock was lost.
func (e *lossError) known() bool { return e.why != nil || e.alive.Load() || e.session.Err() != nil }

// Unwrap returns the way in which the lock was lost.
func (e *lossError) Unwrap() error { return e.cause() }

func (e *lossError) Error() string {
	cause := e.cause()
	switch {
	case e.paused > 0 && cause == errSessionEnded: //nolint:errorlint // it is one of ours
		return fmt.Sprintf("%v: this process did not run for %v, and its ZooKeeper session ended meanwhile", ErrLost, roundly(e.paused))
	case e.paused > 0:
		return fmt.Sprintf("%v: this process did not run for %v, and its lease ended meanwhile", ErrLost, roundly(e.paused))
	case cause == errSessionEnded: //nolint:errorlint // likewise
		_, how, _ := strings.Cut(cmp.Or(e.over, e.session.Err()).Error(), "session is over: ")
		if how != "" {
			how = ": " + how
		}
		return cause.Error() + how
	case e.why == nil && !e.alive.Load():
		return fmt.Sprintf("%v: its node is gone: another client deleted it, unless the session has ended just now%s", ErrLost, e.revoked)
	case cause == errNodeDeleted: //nolint:errorlint // likewise
		return cause.Error() + e.revoked
	}
	return cause.Error()
}

// revokedText says which process revoked a lock that was lost then, since when it has asked,
// and why. It may not be the one that deleted the node: it is what there is to go by. r may be
// nil.
func revokedText(r *Revocation) string {
	if r == nil {
		return ""
	}
	said := []string{r.From.String(), fmt.Sprintf("%q", cut(r.Reason))}
	if said[0] == "" {
		said = said[1:] // Curator's Revoker does not say who asks
	}
	return "; before that, the lock was revoked: " + strings.Join(said, ", ")
}

// roundly rounds a time for a person.
func roundly(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// How the loss of a lock was noticed.
type noticed int

const (
	leaseOver  noticed = iota // the lease or the session is over
	nodeGone                  // a watch says that the node is deleted
	nodeMissed                // an answer in the session says so
)

// lost returns the error of the operation op on a lock that this process has lost.
func (s *share) lost(op string, by noticed) *Error {
	p := s.promises()
	session, lease := p.tenure.session, p.tenure.lease
	e := &lossError{session: session, over: cmp.Or(session.Err(), lease.SessionErr()), revoked: revokedText(s.blamed())}
	switch {
	case e.over != nil:
		e.why = errSessionEnded
	case by == nodeMissed:
		e.why = errNodeDeleted
	case by == leaseOver || !lease.InForce():
		e.why = errLeaseEnded
	}
	err := s.error(op, e)
	if e.why != errNodeDeleted { //nolint:errorlint // it is one of ours
		e.paused = cmp.Or(lease.Paused(), session.Paused())
	}
	if err.Paused = e.paused; e.paused > 0 {
		err.Outage = nil // the connection is what a pause leaves behind
	}
	return err
}

// blameFor is for how long a revocation that has ended is taken for the reason of a loss.
// holdfast break stops waiting before it deletes the node, and a process that was cut off
// hears of both at once. What ended long ago has nothing to do with a loss.
const blameFor = 10 * time.Second

// blamed returns the latest revocation of the share, if it is in force or has just ended;
// otherwise nil.
func (s *share) blamed() *Revocation {
	p := s.promises()
	if turn := p.turn(); turn != nil {
		host := turn.turns.host() // which is revoked
		if host == nil {
			return nil
		}
		p = host.promises()
	}
	signals := p.signalled.Load()
	if signals == nil {
		return nil
	}
	r := signals.latest.Load()
	if r == nil {
		return nil
	}
	if left := r.left.Load(); left != 0 && s.lock.m.now()-left > int64(blameFor) {
		return nil
	}
	return &r.Revocation
}
