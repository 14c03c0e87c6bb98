// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/look"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// A request acquires permits, on a goroutine of its own that ends with the grant or when
// nothing of it is left. ZooKeeper decides in one transaction: it creates the nodes, and
// counts all that are there, ours included. So whichever clients there are, and whatever
// they do, the last of those that have permits has seen the others' nodes.
type request struct {
	*Permits
	sem    *Semaphore
	access manager.Access
	ctx    context.Context // ends when the caller gives up
	stop   func() bool     // has the end of ctx go unnoticed; nil if it is not noticed anyway

	// Of the present attempt.
	transact func(ops ...zkio.Op) ([]zkio.OpResult, error)
	turn     context.Context // ends when the caller gives up, or the place at the head of the line is lost
}

var (
	// errAgain ends an attempt which another one is to follow.
	errAgain = errors.New("the place in line is lost")
	errOver  = fmt.Errorf("%w: it is not the present one", zkio.ErrSessionOver)
)

// run makes attempts until one has decided.
func (r *request) run() {
	for n := 0; ; n++ {
		err := r.attempt()
		if !errors.Is(err, errAgain) && !errors.Is(err, manager.ErrLost) && !errors.Is(err, zkio.ErrSessionOver) {
			r.finish(err)
			return
		}
		// The place in line is lost, and the nodes are gone. Another attempt has to line up again.
		if err := r.pause(n); err != nil {
			r.finish(err)
			return
		}
	}
}

// finish ends the request. A nil err means that the permits were granted.
func (r *request) finish(err error) {
	if err != nil {
		if r.ctx.Err() != nil {
			err = ctxerr.Of(r.ctx)
		}
		r.fail(err)
		r.released.Settle(struct{}{}, r.error("release", manager.ErrNotGranted))
	}
	if r.stop != nil {
		r.stop()
	}
	r.withdraw() // to free what r.ctx has
}

// pause waits a little before something is tried for the nth time, from 0 up.
func (r *request) pause(n int) error {
	if n > 0 {
		select {
		case <-time.After(zkio.Backoff(n, 10*time.Millisecond, time.Second)):
		case <-r.ctx.Done():
		case <-r.access.Accepting().Done():
		}
	}
	switch {
	case r.access.Accepting().Err() != nil:
		return manager.ErrClosed
	case r.ctx.Err() != nil:
		return ctxerr.Of(r.ctx)
	}
	return nil
}

// attempt lines up and takes the permits. After an error none of its nodes is left, unless
// the manager is closed.
func (r *request) attempt() error {
	// Before the caller lines up it learns that it would wait in vain.
	if _, err := r.size(); err != nil {
		return err
	}
	if r.op == opTryLock {
		return r.takeOutOfTurn()
	}
	h := r.sem.locks.Acquire(r.ctx)
	defer h.Release()
	if taken, err := r.lineUp(h.Ready()); taken || err != nil {
		return err
	}
	session := r.access.Session()
	if g, err := h.Grant(); err != nil || g.Session != session.ID() {
		return errAgain
	}
	// Guard sends nothing once the place is lost: a process that was paused creates
	// no node out of turn. The caller's ctx must not end it while the request may be
	// under way, because remove could then come before the nodes do.
	r.transact = func(ops ...zkio.Op) ([]zkio.OpResult, error) { return h.Guard(r.access.Context(), ops...) }
	turn, done := h.Context(r.ctx)
	defer done()
	r.turn = turn
	return r.claim(&claim{session: session, turn: true})
}

// takeOutOfTurn takes the permits without a place in line, or fails with ErrNoPermits.
func (r *request) takeOutOfTurn() error {
	session := r.access.Session()
	r.transact = r.multi(session)
	return r.claim(&claim{session: session})
}

// claim takes the permits by c, and grants them.
func (r *request) claim(c *claim) error {
	c.name(r.sem, r.weight)
	err := r.take(c)
	if err == nil {
		err = r.keep(c)
	}
	if err == nil {
		return nil
	}
	if e := r.sem.remove(c); e != nil {
		return e
	}
	return err
}

// lineUp waits until the request is first in line. The first may be dead, or cut off, and
// ZooKeeper keeps its place until its session is over. So a request of each process that waits
// looks from time to time. If the first has nothing to wait for, and has not moved for a while, it
// is passed over until it moves: the request takes permits that are free out of turn, and lineUp
// reports true. ZooKeeper counts as always, so no more are in use than there are, even if the
// first is alive and just slow.
func (r *request) lineUp(first *futures.Future[manager.Grant]) (taken bool, err error) {
	timeout := r.access.Session().Timeout()
	begin := r.sem.lookout // nil for the request that looks
	var look <-chan time.Time
	defer func() {
		if begin == nil {
			<-r.sem.lookout
		}
	}()
	for {
		select {
		case <-first.Done():
			_, err, _ := first.Poll()
			return false, err
		case begin <- struct{}{}:
			begin, look = nil, time.After(timeout/32)
			continue
		case <-look:
		}
		head, err := r.look()
		silent := r.sem.silent(head, timeout/16)
		if err == nil && silent {
			err = r.takeOutOfTurn()
			if err == nil {
				return true, nil
			}
		}
		switch {
		case err != nil && !errors.Is(err, ErrNoPermits):
			return false, err
		case silent:
			look = time.After(timeout / 32)
		case head.idle():
			look = time.After(timeout / 16)
		default:
			look = time.After(timeout / 8)
		}
	}
}

// A place is the head of the line as a look sees it while the first has nothing to wait for:
// it should be about to take its permits, or to leave. The zero place is that of one that waits.
type place struct {
	node string // of the process that is first
	last string // the guid of the claim that was the last in turn: each turn changes it
}

func (p place) idle() bool { return p != place{} }

// silent reports whether the first in line has had nothing to wait for, and has not moved, for so
// long. Only the request that looks calls it.
func (s *Semaphore) silent(head place, long time.Duration) bool {
	if head != s.head {
		s.head, s.since = head, time.Now()
	}
	return head.idle() && time.Since(s.since) >= long
}

// look returns the head of the line. It fails with ErrNoPermits if there is no room for this
// request. Its server may lag behind.
//
// The first in line makes its nodes at once, be there room for them or not. So if there are more
// nodes than permits it waits. Otherwise it has nothing to wait for.
func (r *request) look() (head place, err error) {
	z, err := r.size()
	if err != nil {
		return head, err
	}
	dir, err := r.room(z, false)
	if errors.Is(err, zkio.ErrBadVersion) { // the number has changed, which says nothing of the first
		r.sem.known.CompareAndSwap(z, nil)
		if z, err = r.size(); err != nil {
			return head, err
		}
		dir, err = r.room(z, false)
	}
	switch {
	case errors.Is(err, zkio.ErrBadVersion): // and again
		return head, ErrNoPermits
	case errors.Is(err, zkio.ErrNoNode): // the server removes empty directories
		err = nil
	case err != nil && !errors.Is(err, ErrNoPermits), int(dir.Stat.NumChildren) > z.n:
		return head, err
	}
	line, e := r.sem.locks.Queue(r.ctx, 0)
	if e != nil || len(line) == 0 {
		return head, cmp.Or(e, ErrNoPermits)
	}
	return place{line[0].Path, string(dir.Data)}, err
}

// multi returns what performs a transaction in session.
func (r *request) multi(session *zkio.Session) func(ops ...zkio.Op) ([]zkio.OpResult, error) {
	return func(ops ...zkio.Op) ([]zkio.OpResult, error) {
		var results []zkio.OpResult
		err := r.in(session, func() (err error) { results, err = session.Multi(ops...); return err })
		if err != nil {
			return nil, err // the goroutine may still be at it
		}
		return results, nil
	}
}

// size returns how many permits the semaphore has, if that is enough.
func (r *request) size() (*size, error) {
	z, err := r.sem.size(r.ctx)
	if err == nil && r.weight > z.n {
		r.sem.known.CompareAndSwap(z, nil) // there may be more by now
		z, err = r.sem.size(r.ctx)
	}
	if err == nil && r.weight > z.n {
		err = fmt.Errorf("%w: %d of %d", ErrTooMany, r.weight, z.n)
	}
	return z, err
}

// take creates the nodes of c and waits until no more nodes are there than the semaphore
// has permits.
func (r *request) take(c *claim) error {
	for n := 0; ; n++ {
		z, err := r.size()
		if err != nil {
			return err
		}
		count, err := r.count(c, z)
		switch {
		case err == nil && count <= z.n:
			return nil
		case err == nil && !c.turn:
			return ErrNoPermits
		case err == nil:
			err, n = r.await(c.session, z), -1
		case errors.Is(err, manager.ErrUnknownOutcome):
			err = nil // the next transaction tells
		case errors.Is(err, zkio.ErrBadVersion):
			r.sem.known.CompareAndSwap(z, nil)
			err = nil
		case errors.Is(err, zkio.ErrNodeExists):
			// The names are unique: an earlier transaction without an answer was carried out.
			err = r.in(c.session, c.find)
		case errors.Is(err, zkio.ErrNoNode) && c.made:
			// An administrator deleted a node while we waited. We keep our place in line.
			if err = r.sem.remove(c); err == nil {
				*c = claim{session: c.session, turn: c.turn}
				c.name(r.sem, r.weight)
			}
		case errors.Is(err, zkio.ErrNoNode):
			// The server removes empty directories; an administrator may have deleted more.
			r.sem.known.CompareAndSwap(z, nil)
			err = r.in(c.session, func() error { return c.session.EnsureDir(r.sem.leases, r.access.ACL()) })
		}
		if err == nil {
			err = r.pause(n)
		}
		if err != nil {
			return err
		}
	}
}

// count creates the nodes of c, or checks them if they are made, and returns how many nodes
// there are. It fails with zkio.ErrBadVersion if the number of permits is no longer z.
func (r *request) count(c *claim, z *size) (int, error) {
	version := int32(-1)
	if !c.turn && !c.made {
		dir, err := r.room(z, true)
		if err != nil {
			return 0, err
		}
		c.last, version = dir.Data, dir.Stat.Version
	}
	c.sent = true
	ops := append([]zkio.Op{zkio.CheckOp(r.sem.number, z.version)}, c.ops(r.access)...)
	results, err := r.transact(append(ops, zkio.SetOp(r.sem.leases, c.last, version))...)
	if err != nil {
		return 0, err
	}
	dir := results[len(results)-1].Stat
	if c.counted = dir.Mzxid; !c.made {
		c.made, c.czxid = true, dir.Mzxid
	}
	return int(dir.NumChildren), nil
}

// room checks that there is room for the permits, so that a request out of turn creates no
// node in vain. It returns their directory: the version of its data changes when another
// process of ours creates a node. It catches up with ZooKeeper's leader before, if sync is true.
// It fails with zkio.ErrBadVersion as count does.
func (r *request) room(z *size, sync bool) (zkio.Read, error) {
	type answers struct{ number, dir zkio.Read }
	now, err := access.Ask(r.ctx, r.access, func(s *zkio.Session) (answers, error) {
		if sync {
			if err := s.Sync(r.sem.leases); err != nil {
				return answers{}, err
			}
		}
		number := zkio.Read{Path: r.sem.number, What: zkio.ReadStat}
		dir := zkio.Read{Path: r.sem.leases, What: zkio.ReadData}
		s.Read(&number, &dir)
		return answers{number, dir}, oneline.Join(number.Err, dir.Err)
	})
	switch {
	case err == nil && now.number.Stat.Version != z.version:
		err = zkio.ErrBadVersion
	case err == nil && int(now.dir.Stat.NumChildren)+r.weight > z.n:
		err = ErrNoPermits
	}
	return now.dir, err
}

// await waits until no more nodes are there than z permits, or the number is no longer z.
// A server that lags behind shows too many nodes rather than too few, because it has
// created ours; a transaction confirms what it shows.
func (r *request) await(session *zkio.Session, z *size) error {
	l := look.New(r.access, r.access.Accepting()) // Shutdown waits for our place in line
	l.WatchChildren(r.sem.leases)
	l.Watch(r.sem.number)
	return l.Run(r.turn, func(s *zkio.Session) (over bool, err error) {
		if s != session {
			return false, access.Verdict(errOver)
		}
		nodes := zkio.Read{Path: r.sem.leases, What: zkio.ReadChildren}
		number := zkio.Read{Path: r.sem.number, What: zkio.ReadData}
		s.Read(&nodes, &number)
		err = oneline.Join(nodes.Err, number.Err)
		over = err != nil || len(nodes.Names) <= z.n || number.Stat.Version != z.version
		return over, access.Unless(err, zkio.ErrNoNode)
	})
}

// keep keeps the nodes of c, and grants the permits.
func (r *request) keep(c *claim) error {
	nodes := make([]*own.Node, 0, len(c.paths))
	err := r.in(c.session, func() error {
		for len(nodes) < len(c.paths) {
			n, err := r.sem.keeper.Keep(c.session, c.paths[len(nodes)], c.czxid)
			if err != nil {
				return err
			}
			nodes = append(nodes, n)
		}
		return nil
	})
	switch {
	case errors.Is(err, manager.ErrClosed):
		return err // nodes may still change, and go with the session
	case err == nil && r.ctx.Err() != nil:
		err = ctxerr.Of(r.ctx) // the goroutine that tells the caller may not have run yet
	case err == nil && r.grant(c, nodes):
		return nil
	case err == nil:
		// The caller has given up. Its ctx says so only later, if Release was called.
		_, err, _ = r.granted.Future().Poll()
	case errors.Is(err, zkio.ErrNoNode):
		err = errAgain // an administrator deleted one
	}
	for _, n := range nodes {
		n.Forget()
	}
	return err
}

// in has an I/O goroutine run do, which makes calls in session, and again until they are
// answered. It fails with errOver if the session is over, and with manager.ErrClosed; then
// do may still be running.
func (r *request) in(session *zkio.Session, do func() error) error {
	return access.Tell(r.access, func(s *zkio.Session) error {
		if s != session {
			return access.Verdict(errOver)
		}
		return do()
	})
}
