// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// Guard performs ops in ZooKeeper in one transaction, together with a check that
// the lock's node exists: all of them take effect, at one moment at which this
// process holds the lock, or none does. It returns one result for each of ops.
//
// It is the strongest protection that there is for data in the ZooKeeper that
// the lock is in. A check before a write leaves a gap, in which the process may
// be paused and the lock be lost; a fencing token asks the resource to compare.
// Here the service that gives the lock away decides about both in one order: the
// next holder is granted the lock only after our node has gone, and a transaction
// that comes later finds it gone. No clock is involved, and no pause harms.
// It orders the holders of an exclusive or write lock; holds of a read lock can
// guard as well, but other processes hold theirs at the same time.
//
// The paths of ops are absolute paths of ZooKeeper: neither Config.Root nor the
// chroot of a connection string is put in front. ACLs that are to be created are
// those of the ops; Config.ACL plays no part. Refused, with an error that wraps
// [zkio.ErrBadArguments] and before anything is sent, are: no ops; an op that
// [zkio.Op.Validate] refuses; one on ZooKeeper's own nodes below /zookeeper; one
// on the lock's own directory or on a node of its queue.
//
// Guard blocks until ZooKeeper has answered, or the lock is known to be lost
// before the request was sent, or ctx ends. The request is sent at most once, and
// in the ZooKeeper session that the lock was granted in: a later one does not
// have this round's node. While there is no connection Guard waits for one, as
// long as the lock's lease lasts.
//
// It fails with
//
//   - [ErrUnknownOutcome] if the request may have been carried out, or may be
//     yet: the connection broke before the answer, or ctx ended. Read the data,
//     in a Guard of its own if need be, before going on. Look for this error
//     first: it comes with whatever ended the wait, which can be [ErrLost];
//   - [ErrNotGranted], [ErrLost] or [ErrReleased] as [Hold.Grant] would, and with
//     ErrLost if ZooKeeper says that the lock's node is gone, which ends the
//     round for all its holders. Nothing was changed;
//   - what ZooKeeper says against one of ops ([zkio.ErrBadVersion], say). Nothing
//     was changed; the error tells which of ops it was, counted from 0, and so
//     do the results, of which that one has Err set;
//   - ctx's error, with its cause, if ctx ended before the request was sent.
//     Nothing was changed.
func (h Hold) Guard(ctx context.Context, ops ...zkio.Op) ([]zkio.OpResult, error) {
	const op = "guard"
	if h.round == nil {
		return nil, errZeroHold
	}
	if err := h.round.lock.checkGuarded(ops); err != nil {
		return nil, h.error(op, err)
	}
	if err := h.check(op); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, h.round.lock.ended(ctx, op)
	}
	t := h.round.io()
	g := &guarded{
		hold: h,
		ops:  append([]zkio.Op{zkio.CheckOp(t.tenure.grant.Path, -1)}, ops...),
		done: make(chan struct{}),
	}
	g.submit()
	lost := h.Lost()
	for {
		select {
		case <-g.done:
			return g.results, g.err
		case <-lost:
			// Whether a request that is under way came in time, its answer says.
			lost = nil
			if g.stage.CompareAndSwap(guardWaits, guardGivenUp) {
				return nil, h.over(op)
			}
		case <-ctx.Done():
			sent := g.stage.Swap(guardGivenUp) != guardWaits
			select {
			case <-g.done: // just in time
				return g.results, g.err
			default:
			}
			if sent {
				return nil, h.error(op, fmt.Errorf("%w, and may be yet: %w", ErrUnknownOutcome, ctxerr.Of(ctx)))
			}
			return nil, h.round.lock.ended(ctx, op)
		}
	}
}

// checkGuarded says why ops cannot be guarded by the lock.
func (l *Lock) checkGuarded(ops []zkio.Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("%w: no operations", zkio.ErrBadArguments)
	}
	for i, op := range ops {
		path := op.Path()
		name, inside := strings.CutPrefix(path, l.path+"/")
		_, contender := queue.ParseName(name)
		switch err := op.Validate(); {
		case err != nil:
			return fmt.Errorf("operation %d: %w", i, err)
		case path == "/"+reservedSegment, strings.HasPrefix(path, "/"+reservedSegment+"/"):
			return fmt.Errorf("operation %d: %w: %s is ZooKeeper's own", i, zkio.ErrBadArguments, path)
		case path == l.path, inside && contender:
			return fmt.Errorf("operation %d: %w: %s belongs to the lock itself", i, zkio.ErrBadArguments, path)
		}
	}
	return nil
}

// guarded is a call of Guard as a task of the pool.
type guarded struct {
	hold Hold
	ops  []zkio.Op // the check of the lock's own node first

	// stage says who decides about the call: as long as it waits, whoever's
	// compare-and-swap comes first, the caller, who gives up and knows that
	// nothing is sent, or the worker, which sends it.
	stage atomic.Uint32

	done    chan struct{}   // closed by settle
	results []zkio.OpResult // with err, written before done is closed
	err     error

	attempts int // of the present worker alone
}

// The values of guarded.stage.
const (
	guardWaits   uint32 = iota // nothing has been sent
	guardSent                  // a worker is in the call that sends it, or has been
	guardGivenUp               // the caller has gone: nothing is sent any more
)

// submit hands the call to the pool: to the queue of fetches, so that it takes
// none of the workers that are kept for releases.
func (g *guarded) submit() {
	if !g.hold.round.lock.m.client.Submit(zkio.Fetches, g) {
		g.closed()
	}
}

// closed settles the call because the client is closed.
func (g *guarded) closed() {
	err := g.hold.check("guard")
	if err == nil { // Close has not come to this round yet
		err = g.hold.error("guard", ErrClosed)
	}
	g.settle(nil, err)
}

// settle ends the call. It is called once, by the worker that has the task, or
// by the caller's goroutine if there is none.
func (g *guarded) settle(results []zkio.OpResult, err error) {
	g.results, g.err = results, err
	close(g.done)
}

// Run is called by the pool. The session that it is called with may be a later
// one than the round's, in which nothing must be done.
func (g *guarded) Run(*zkio.Session) {
	h := g.hold
	if err := h.check("guard"); err != nil {
		g.settle(nil, err)
		return
	}
	if !g.stage.CompareAndSwap(guardWaits, guardSent) {
		return
	}
	results, err := h.round.io().tenure.session.Multi(g.ops...)
	if err == nil {
		g.settle(results[1:], nil)
		return
	}
	class := zkio.ClassOf(err)
	switch {
	case class == zkio.NotSent:
		g.again()
	case class == zkio.Unknown, errors.Is(err, zkio.ErrUnknown):
		g.settle(nil, h.error("guard", fmt.Errorf("%w: %w", ErrUnknownOutcome, err)))
	case class == zkio.Definite:
		g.settle(g.refused(results, err))
	default: // the session was over before
		if e := h.check("guard"); e != nil {
			err = e
		} else {
			err = h.error("guard", errSessionEnded)
		}
		g.settle(nil, err)
	}
}

// again has the call tried again after a while, since nothing was sent, unless
// the caller has gone.
func (g *guarded) again() {
	if !g.stage.CompareAndSwap(guardSent, guardWaits) {
		return
	}
	// A caller who saw the loss before our swap left the call to us.
	if err := g.hold.check("guard"); err != nil {
		g.settle(nil, err)
		return
	}
	wait := backoff(g.attempts)
	g.attempts++
	if !g.hold.round.lock.m.client.SubmitAfter(wait, zkio.Fetches, g) {
		g.closed()
	}
}

// refused says what it means that ZooKeeper refused the transaction because of
// err. Nothing was changed.
func (g *guarded) refused(results []zkio.OpResult, err error) ([]zkio.OpResult, error) {
	h := g.hold
	for i, res := range results {
		switch {
		case res.Err == nil:
			continue
		case i > 0:
			return results[1:], h.error("guard", fmt.Errorf("operation %d: %w", i-1, err))
		case errors.Is(err, zkio.ErrNoNode):
			h.round.fail(h.round.io().error("hold", errNodeDeleted))
			return nil, h.over("guard")
		}
		return nil, h.error("guard", fmt.Errorf("checking the lock's own node: %w", err))
	}
	return nil, h.error("guard", err)
}
