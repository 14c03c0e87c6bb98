// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/zkio"
)

// Guard performs ops in ZooKeeper in one transaction, together with a check that
// the lock's node exists. Either all of them take effect, at one moment at which
// this process holds the lock, or none does. Guard returns one result for each
// op.
//
// It is the strongest protection for data in the ZooKeeper that the lock is in. A
// check before a write leaves a gap in which the process may be paused and lose
// the lock; a fencing token needs a resource that compares it. Here ZooKeeper
// itself orders both: it grants the lock to the next holder only after our node
// is gone, and a transaction that comes later finds it gone. No clock is
// involved, and no pause does harm. Guard orders the holders of an exclusive or
// write lock, and upgraded ones ([Hold.Upgrade]); a hold of a read lock can guard as
// well, but other processes may hold theirs at the same time.
//
// The paths of ops are absolute paths in ZooKeeper; neither Config.Root nor the
// chroot of a connection string is prepended. Nodes are created with the ACLs
// that the ops carry, not with Config.ACL. Guard refuses, before anything is sent
// and with an error that wraps [zkio.ErrBadArguments]: no ops at all, an op that
// [zkio.Op.Validate] refuses, an op on ZooKeeper's own nodes below /zookeeper,
// and an op on the lock's directory or on a node of its queue.
//
// Guard blocks until ZooKeeper has answered, the lock is lost before the request
// was sent, or ctx ends. It sends the request at most once, and only in the
// ZooKeeper session that the lock was granted in. While there is no connection it
// waits for one, as long as the lock's lease lasts.
//
// It fails with
//
//   - [ErrUnknownOutcome] if the request may have been carried out or may still
//     be: the connection broke before the answer, or ctx ended. Read the data
//     before going on, in another Guard if need be. Test for this error first: it
//     comes with whatever ended the wait, which can be [ErrLost];
//   - [ErrNotGranted], [ErrLost], [ErrClosed] or [ErrReleased] as [Hold.Grant]
//     would; [ErrLost] also if ZooKeeper reports that the lock's node is gone, in
//     which case the lock is lost for all its holders. Nothing was changed;
//   - ZooKeeper's objection to one of ops ([zkio.ErrBadVersion], say). Nothing
//     was changed. The error says which op that is, counted from 1, and its result
//     has Err set;
//   - ctx's error, with its cause, if ctx ended before the request was sent.
//     Nothing was changed.
func (h Hold) Guard(ctx context.Context, ops ...zkio.Op) ([]zkio.OpResult, error) {
	const op = "guard"
	if h.share == nil {
		return nil, zeroHold(op)
	}
	if err := h.share.lock.checkGuarded(ops); err != nil {
		return nil, h.error(op, err)
	}
	return h.guard(ctx, op, nil, ops)
}

// Get reads the node at path, right after a check that the lock's node exists. Use it
// with [Hold.Guard] to change data that the lock protects: read, compute, and write with
// the version of the Stat that Get returned. Path is an absolute path in ZooKeeper;
// neither Config.Root nor a chroot is prepended.
//
// ZooKeeper's transactions cannot read, so the check is a transaction and the read
// follows it in the same packet. The same server answers both, in that order. Therefore
//
//   - Get sees everything that was written before this process was granted the lock, in
//     particular by earlier holders, even if its server lags behind the others. It also
//     sees what this process has written under the lock;
//   - if Get succeeds, this process held the lock when the check was made;
//   - Get does not promise that it still did when the server read the node. In between,
//     this process may have lost the lock, and the next holder may have written. A
//     write by Guard that names the version which Get returned then fails.
//
// Get blocks as Guard does. It fails as Guard does, but never with [ErrUnknownOutcome]:
// if an answer is lost, it asks again for as long as the lock is held. If there is no
// node at path, the error wraps [zkio.ErrNoNode].
func (h Hold) Get(ctx context.Context, path string) ([]byte, zkio.Stat, error) {
	const op = "get"
	if h.share == nil {
		return nil, zkio.Stat{}, zeroHold(op)
	}
	read := &zkio.Read{Path: path, What: zkio.ReadData}
	if _, err := h.guard(ctx, op, read, nil); err != nil {
		return nil, zkio.Stat{}, err // a worker may still write to read
	}
	if read.Err != nil {
		return nil, zkio.Stat{}, h.error(op, read.Err)
	}
	return read.Data, read.Stat, nil
}

// guard performs ops, and read if it is not nil, behind a check of the lock's node.
func (h Hold) guard(ctx context.Context, op string, read *zkio.Read, ops []zkio.Op) ([]zkio.OpResult, error) {
	if err := h.check(op); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, h.home().error(op, ctxerr.Of(ctx))
	}
	s := h.home()
	g := &guarded{
		op:   op,
		hold: h,
		read: read,
		ops:  ops,
		done: make(chan struct{}),
	}
	// The queue of fetches takes none of the workers that are reserved for releases.
	if !s.lock.m.client.Submit(zkio.Fetches, g) {
		g.closed()
	}
	lost := h.Lost()
	for {
		select {
		case <-g.done:
			return g.results, g.err
		case <-lost:
			// If a request is under way, its answer says whether it came in time.
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
			if sent && read == nil {
				return nil, s.error(op, fmt.Errorf("%w, or may still be; read %s before going on: %w", ErrUnknownOutcome, pathsOf(ops), ctxerr.Of(ctx)))
			}
			return nil, s.error(op, ctxerr.Of(ctx))
		}
	}
}

// checkGuarded returns why ops cannot be guarded by the lock, or nil.
func (l *line) checkGuarded(ops []zkio.Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("%w: no operations", zkio.ErrBadArguments)
	}
	for i, op := range ops {
		path := op.Path()
		name, inside := strings.CutPrefix(path, l.path+"/")
		_, contender := queue.ParseName(name)
		switch err := op.Validate(); {
		case err != nil:
			return fmt.Errorf("operation %d: %w", i+1, err)
		case path == "/"+reservedSegment, strings.HasPrefix(path, "/"+reservedSegment+"/"):
			return fmt.Errorf("operation %d: %w: %s is ZooKeeper's own", i+1, zkio.ErrBadArguments, path)
		case path == l.path, inside && contender:
			return fmt.Errorf("operation %d: %w: %s belongs to the lock itself", i+1, zkio.ErrBadArguments, path)
		}
	}
	return nil
}

// pathsOf names the nodes of ops for an error: the first ones, if they are many.
func pathsOf(ops []zkio.Op) string {
	const most = 3
	var paths []string
	for _, op := range ops {
		if !slices.Contains(paths, op.Path()) {
			paths = append(paths, op.Path())
		}
	}
	text := strings.Join(paths[:min(len(paths), most)], ", ")
	if len(paths) > most {
		text += fmt.Sprintf(" and %d more", len(paths)-most)
	}
	return text
}

// A noAnswer is why a request has no answer. Its text leaves out what stands before that in the
// error of package zkio: the path is that of the lock's node, since the check is the first
// operation, and that the outcome is unknown is said already.
type noAnswer struct{ error }

func (e noAnswer) Error() string {
	_, why, _ := strings.Cut(e.error.Error(), "outcome unknown: ")
	return cmp.Or(why, e.error.Error())
}

func (e noAnswer) Unwrap() error { return e.error }

// guarded is a call of Guard as a task of the pool.
type guarded struct {
	op   string // what the caller attempts
	hold Hold
	read *zkio.Read // of Get; nil for Guard. Written by the present worker, and read by the caller after done
	ops  []zkio.Op

	// stage decides between the caller and the worker. While it is guardWaits,
	// either can swap it: the caller to give up, knowing that nothing is sent, or
	// the worker to send the request.
	stage atomic.Uint32

	done    chan struct{}   // closed by settle
	results []zkio.OpResult // with err, written before done is closed
	err     error

	tries errand.Tries // used by the present worker only
}

// The values of guarded.stage.
const (
	guardWaits   uint32 = iota // nothing has been sent
	guardSent                  // a worker is in the call that sends it, or has been
	guardGivenUp               // the caller has given up: nothing more is sent
)

// closed settles the call because the client is closed.
func (g *guarded) closed() {
	err := g.hold.check(g.op)
	if err == nil { // Close has not come to this round yet
		err = g.hold.error(g.op, ErrClosed)
	}
	g.settle(nil, err)
}

// settle ends the call. It is called once, by the worker that has the task, or by
// the caller's goroutine if there is none.
func (g *guarded) settle(results []zkio.OpResult, err error) {
	g.results, g.err = results, err
	close(g.done)
}

// Run is called by the pool. Its session may be a later one than the round's, in
// which nothing must be sent.
func (g *guarded) Run(*zkio.Session) {
	h := g.hold
	if err := h.check(g.op); err != nil {
		g.settle(nil, err)
		return
	}
	if !g.stage.CompareAndSwap(guardWaits, guardSent) {
		return
	}
	checks, upgraded := h.checks()
	results, err := g.send(h.promises().tenure.session, append(checks, g.ops...))
	if err == nil {
		g.settle(results[len(checks):], nil)
		return
	}
	class := zkio.ClassOf(err)
	switch {
	case class == zkio.NotSent:
		g.again()
	case g.read != nil && (class == zkio.Unknown || errors.Is(err, zkio.ErrUnknown)):
		g.again() // it changes nothing
	case class == zkio.Unknown, errors.Is(err, zkio.ErrUnknown):
		g.settle(nil, h.error(g.op, fmt.Errorf("%w; read %s before going on: %w", ErrUnknownOutcome, pathsOf(g.ops), noAnswer{err})))
	case class == zkio.Definite && upgraded != nil && upgraded.givenBack(results, err):
		g.again()
	case class == zkio.Definite:
		g.settle(g.refused(results, len(checks), err))
	default: // the session was over before
		if e := h.check(g.op); e != nil {
			err = e
		} else {
			err = h.error(g.op, errSessionEnded)
		}
		g.settle(nil, err)
	}
}

// checks returns what checks that the lock is held: that its node exists, and, if the
// process is exclusive by an upgrade, the writer's node, too.
func (h Hold) checks() (ops []zkio.Op, upgraded *writerNode) {
	t := h.promises()
	ops = []zkio.Op{zkio.CheckOp(t.tenure.path, -1)}
	if u := t.raised(); u != nil {
		if upgraded = u.exclusive.Load(); upgraded != nil {
			ops = append(ops, zkio.CheckOp(upgraded.path, -1))
		}
	}
	return ops, upgraded
}

// givenBack reports whether a guarded request was refused only because the process has
// gone back to reading after the check of the writer's node was put into it. Then the
// guarding Hold was not upgraded.
func (x *writerNode) givenBack(results []zkio.OpResult, err error) bool {
	return errors.Is(err, zkio.ErrNoNode) && len(results) > 1 && results[0].Err == nil && results[1].Err != nil &&
		x.u.exclusive.Load() != x
}

// send sends the request in session s. Its error is that of a read which has no
// answer, too: both are to be tried again.
func (g *guarded) send(s *zkio.Session, ops []zkio.Op) ([]zkio.OpResult, error) {
	if g.read == nil {
		return s.Multi(ops...)
	}
	results, err := s.MultiAndRead([]*zkio.Read{g.read}, ops...)
	if err == nil && zkio.ClassOf(g.read.Err) != zkio.Definite {
		err = g.read.Err // nil if there is none
	}
	return results, err
}

// again submits the call once more after a while, since nothing was sent, unless
// the caller has given up.
func (g *guarded) again() {
	if !g.stage.CompareAndSwap(guardSent, guardWaits) {
		return
	}
	// A caller that saw the loss before our swap left the call to us.
	if err := g.hold.check(g.op); err != nil {
		g.settle(nil, err)
		return
	}
	if !g.tries.Again(g.hold.share.lock.m.client, zkio.Fetches, g) {
		g.closed()
	}
}

// refused returns what Guard returns when ZooKeeper has refused the transaction, which
// begins with that many checks, with err. Nothing was changed.
func (g *guarded) refused(results []zkio.OpResult, checks int, err error) ([]zkio.OpResult, error) {
	h := g.hold
	for i, res := range results {
		switch {
		case res.Err == nil:
			continue
		case i >= checks:
			return results[checks:], h.error(g.op, fmt.Errorf("operation %d: %w", i-checks+1, err))
		case errors.Is(err, zkio.ErrNoNode):
			h.home().fail(h.home().lost("hold", nodeMissed))
			return nil, h.over(g.op)
		}
		return nil, h.error(g.op, fmt.Errorf("checking the lock's own node: %w", err))
	}
	return nil, h.error(g.op, err)
}
