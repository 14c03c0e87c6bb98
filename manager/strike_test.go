// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

var strikeSeed = flag.Uint64("strikeseed", 1, "the seed of the schedules of TestCallsOnOneHold")

// A strikeLock is a Lock or a Mutex.
type strikeLock interface {
	acquirer
	TryLock(ctx context.Context) (Hold, error)
	State() (state.Phase, int)
	Stats() Stats
	SetLinger(d time.Duration) error
	ReleaseIdle() *futures.Future[struct{}]
}

// A struckKind is a kind of Holds.
type struckKind struct {
	// locks returns the locks of one queue that a process uses, first the one that the Hold
	// is of.
	locks func(t *testing.T, m *Manager) []strikeLock
	group bool // LockAll has got it, with that of another lock
}

var struckKinds = map[string]struckKind{
	"exclusive":  {locks: alone},
	"group":      {locks: alone, group: true},
	"mutex":      {locks: func(t *testing.T, m *Manager) []strikeLock { return []strikeLock{openMutex(t, m, "jobs")} }},
	"read":       {locks: func(t *testing.T, m *Manager) []strikeLock { return pairOf(t, m, 0) }},
	"write":      {locks: func(t *testing.T, m *Manager) []strikeLock { return pairOf(t, m, 1) }},
	"upgradable": {locks: func(t *testing.T, m *Manager) []strikeLock { return pairOf(t, m, 2) }},
}

func alone(t *testing.T, m *Manager) []strikeLock { return []strikeLock{exclusive(t, m, "jobs")} }

func pairOf(t *testing.T, m *Manager, first int) []strikeLock {
	rw := readWrite(t, m, "jobs")
	all := []strikeLock{rw.Reader(), rw.Writer(), rw.Upgradable()}
	all[0], all[first] = all[first], all[0]
	return all
}

// A strike is one use of one Hold by goroutines that call two of its methods at the same
// time, while goroutines of this process and of another one want the same lock. A referee
// hears what they are told.
type strike struct {
	t     *testing.T
	c     *cluster
	ref   *check.Referee
	locks []strikeLock  // of this process; h is of the first
	stay  time.Duration // of those who come by
	h     Hold
	all   Holds // h, or the Holds that it is one of

	pending bool         // h may not be granted yet when the calls begin
	closing bool         // one of the calls releases h, or its context ends
	loses   bool         // one of the calls deletes its node
	lowers  bool         // one of the calls downgrades h
	gone    atomic.Bool  // it is about to
	firsts  atomic.Int32 // releases of h that have found it alive
	owners  atomic.Int32

	mu          sync.Mutex // protects what follows
	changes     int        // calls that end h or its upgrade, and have begun
	over        bool       // one of them releases h
	leave, back func()     // not nil: h was seen to be held, or upgraded
}

// expect checks that err is nil or one of those that are documented.
func (s *strike) expect(what string, err error, others ...error) {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil, slices.ContainsFunc(others, is):
	case s.pending && is(ErrNotGranted), s.closing && is(ErrReleased), s.loses && is(ErrLost):
	default:
		s.t.Errorf("%s: unexpected error: %v", what, err)
	}
}

// claim tells the referee that the owner is inside.
func (s *strike) claim(owner string, l strikeLock, upgraded bool) (leave func()) {
	claims := []check.Claim{{Owner: owner, Upgraded: upgraded}}
	if l, ok := l.(*Lock); ok {
		claims[0].Read = reads(l) && !upgraded
		if Kind(l.kind) == KindUpgradable {
			claims = append(claims, check.Claim{Owner: owner, Lock: "the right to upgrade"})
		}
	}
	var leaves []func()
	for _, c := range claims {
		// A client that deletes a node lets the next one in before this process knows.
		c.Held = func() bool { return !s.gone.Load() }
		leaves = append(leaves, s.ref.Granted(c))
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// owner names this process, or this goroutine of it if a mutex excludes the others.
func (s *strike) owner(l strikeLock) string {
	if _, ok := l.(*Mutex); ok {
		return fmt.Sprintf("goroutine %d", s.owners.Add(1))
	}
	return "struck"
}

// observe makes a call that says whether h is held, and upgraded. Both stay as they are
// until a call begins that ends them.
func (s *strike) observe(call func() (held, upgraded bool)) {
	s.mu.Lock()
	before, knewHeld, knewUpgraded := s.changes, s.leave != nil, s.back != nil
	s.mu.Unlock()
	held, upgraded := call()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != before || s.over || s.gone.Load() {
		return
	}
	expect(s.t, (!knewHeld || held) && (!knewUpgraded || upgraded),
		"held: %t, then %t; upgraded: %t, then %t; no call has ended that", knewHeld, held, knewUpgraded, upgraded)
	if held && s.leave == nil {
		s.leave = s.claim("struck", s.locks[0], false)
	}
	if upgraded && s.back == nil {
		s.back = s.claim("struck", s.locks[0], true)
	}
}

// observeErr is observe of a call that fails if h is not held, or for one of the other reasons.
func (s *strike) observeErr(what string, call func() error, others ...error) {
	s.observe(func() (bool, bool) {
		err := call()
		s.expect(what, err, others...)
		return err == nil || s.h.Err() == nil, s.h.Upgraded()
	})
}

// ends notes that a call is about to end the upgrade of h, and h itself if release is set.
func (s *strike) ends(release bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	if s.back != nil {
		s.back()
		s.back = nil
	}
	if release && s.leave != nil {
		s.leave()
	}
	s.over = s.over || release
}

// released checks how a release of h has ended, which began after it was seen as it is now.
func (s *strike) released(what string, err error) {
	if errors.Is(err, ErrReleased) && s.closing {
		return
	}
	s.firsts.Add(1)
	s.expect(what, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	expect(s.t, s.leave == nil || !errors.Is(err, ErrNotGranted),
		"%s of a Hold that was granted: %v", what, err)
}

// visit is inside for a moment by another Hold, if err is nil.
func (s *strike) visit(what, owner string, l strikeLock, h Hold, err error, others ...error) {
	s.expect(what, err, others...)
	if err != nil {
		return
	}
	leave := func() {}
	held := h.Err()
	if s.expect(what, held, others...); held == nil {
		leave = s.claim(owner, l, false)
	}
	time.Sleep(s.stay)
	leave()
	err = h.Unlock(s.t.Context())
	s.expect(what+", unlock", err, others...)
	expect(s.t, held != nil || !errors.Is(err, ErrNotGranted),
		"%s: unlock of a Hold that was granted: %v", what, err)
}

// strikeCalls are what goroutines call at the same time. ctx ends soon.
var strikeCalls = []struct {
	name          string
	often         bool // combined more often with others like it
	closes, loses bool
	call          func(s *strike, ctx context.Context, l strikeLock)
}{
	{name: "Err", often: true, call: func(s *strike, _ context.Context, _ strikeLock) { s.observeErr("err", s.h.Err) }},
	{name: "Grant", call: func(s *strike, _ context.Context, _ strikeLock) {
		s.observeErr("grant", func() error { _, err := s.h.Grant(); return err })
	}},
	{name: "Ready", call: func(s *strike, ctx context.Context, _ strikeLock) {
		s.observeErr("ready", func() error { _, err := s.h.Ready().Wait(ctx); return err }, context.DeadlineExceeded)
	}},
	{name: "Recovered", call: func(s *strike, _ context.Context, _ strikeLock) { s.observeErr("recovered", s.h.Recovered) }},
	{name: "Guard", call: func(s *strike, ctx context.Context, _ strikeLock) {
		s.observeErr("guard", func() error {
			_, err := s.h.Guard(ctx, zkio.CheckOp("/holdfast", -1))
			return err
		}, context.DeadlineExceeded)
	}},
	{name: "Get", call: func(s *strike, ctx context.Context, _ strikeLock) {
		s.observeErr("get", func() error { _, _, err := s.h.Get(ctx, "/holdfast"); return err }, context.DeadlineExceeded)
	}},
	{name: "Lost", call: func(s *strike, _ context.Context, _ strikeLock) {
		expect(s.t, s.loses || !isClosed(s.h.Lost()) && !isClosed(s.all.Lost()), "lost")
	}},
	{name: "Contended", call: func(s *strike, _ context.Context, _ strikeLock) {
		isClosed(s.h.Contended())
		expect(s.t, !isClosed(s.h.Revoked()), "revoked")
	}},
	{name: "Depth", call: func(s *strike, _ context.Context, _ strikeLock) {
		n := s.h.Depth()
		expect(s.t, n <= 4 && (n >= 1 || s.closing), "depth %d", n)
	}},
	{name: "Context", call: func(s *strike, ctx context.Context, l strikeLock) {
		inside, cancel := s.all.Context(ctx)
		defer cancel()
		s.visit("acquire by context", "struck", l, l.Acquire(inside), nil, context.DeadlineExceeded)
	}},
	{name: "Reenter", call: func(s *strike, _ context.Context, l strikeLock) {
		h, err := s.h.Reenter()
		s.visit("reenter", "struck", l, h, err)
	}},
	{name: "Share", call: func(s *strike, _ context.Context, l strikeLock) {
		h, err := s.h.Share()
		s.visit("share", "struck", l, h, err, ErrNotShared)
	}},
	{name: "Lock", call: func(s *strike, ctx context.Context, l strikeLock) {
		h, err := l.Lock(ctx)
		s.visit("lock", s.owner(l), l, h, err, context.DeadlineExceeded)
	}},
	{name: "TryLock", call: func(s *strike, ctx context.Context, l strikeLock) {
		h, err := l.TryLock(ctx)
		s.visit("trylock", s.owner(l), l, h, err, ErrLocked, context.DeadlineExceeded)
	}},
	{name: "Do", call: func(s *strike, ctx context.Context, l strikeLock) {
		do := l.Do
		if s.pending {
			do = l.TryDo
		}
		s.expect("do", do(ctx, func(_ context.Context, h Hold) error {
			defer s.claim(s.owner(l), l, false)()
			return h.Err()
		}), ErrLocked, context.DeadlineExceeded)
	}},
	{name: "SetLinger", often: true, call: func(s *strike, _ context.Context, l strikeLock) {
		s.expect("setlinger", l.SetLinger(time.Millisecond), ErrBadConfig)
		l.ReleaseIdle()
		l.State()
		l.Stats()
	}},
	{name: "Upgrade", often: true, call: func(s *strike, ctx context.Context, _ strikeLock) {
		s.observe(func() (bool, bool) {
			err := s.h.Upgrade(ctx)
			allowed := []error{context.DeadlineExceeded, ErrUpgrade}
			if s.lowers {
				allowed = append(allowed, ErrNotGranted)
			}
			s.expect("upgrade", err, allowed...)
			return s.h.Err() == nil, err == nil || s.h.Upgraded()
		})
	}},
	{name: "Downgrade", often: true, call: func(s *strike, _ context.Context, _ strikeLock) {
		s.ends(false)
		s.expect("downgrade", s.h.Downgrade(), ErrNotGranted)
	}},
	{name: "Release", often: true, closes: true, call: func(s *strike, _ context.Context, _ strikeLock) {
		s.ends(true)
		_, err := s.h.Release().Wait(s.t.Context())
		s.released("release", err)
	}},
	{name: "Unlock", often: true, closes: true, call: func(s *strike, _ context.Context, _ strikeLock) {
		s.ends(true)
		s.released("unlock", s.h.Unlock(s.t.Context()))
	}},
	{name: "Leave", often: true, closes: true, call: func(s *strike, _ context.Context, _ strikeLock) {
		s.ends(true)
		s.released("leave", s.h.Leave())
	}},
	{name: "Holds.Unlock", often: true, closes: true, call: func(s *strike, _ context.Context, _ strikeLock) {
		s.ends(true)
		s.released("unlock of all", s.all.Unlock(s.t.Context()))
	}},
	{name: "loss", often: true, loses: true, call: func(s *strike, _ context.Context, _ strikeLock) {
		if g, err := s.h.Grant(); err == nil {
			s.gone.Store(true)
			_ = s.c.srv.Delete(g.Path) // it may be gone already
		}
	}},
}

// Three goroutines call any two methods of one Hold at the same time. Afterwards no handle
// is left, the lock is free, and another process gets it at once.
func TestCallsOnOneHold(t *testing.T) {
	each(t, struckKinds, func(c *cluster, kind struckKind) {
		t, rng := c.t, rand.New(rand.NewPCG(*strikeSeed, 0))
		tenure := func(cfg *Config) { cfg.Tenure = time.Millisecond }
		m, other := c.open("p", tenure), c.open("other", tenure)
		mine, others := kind.locks(t, m), kind.locks(t, other)
		var group []*Lock
		if kind.group {
			group = []*Lock{exclusive(t, m, "jobs"), exclusive(t, m, "extra")}
		}
		cases := 0
		for i, a := range strikeCalls {
			for j, b := range strikeCalls[:i+1] {
				if cases++; !racing.Some(cases) {
					continue
				}
				rounds := 1
				if a.often && b.often {
					rounds = 6
				}
				for range rounds {
					s := &strike{t: t, c: c, ref: check.NewReferee(t.Errorf), locks: mine}
					s.run(m, group, others, rng, i, j)
					s.leavesNothing(others[len(others)-1])
					if t.Failed() {
						t.Fatalf("%s and %s: see above", a.name, b.name)
					}
				}
			}
		}
	})
}

// run makes the strike: goroutines make the calls of these indexes.
func (s *strike) run(m *Manager, group []*Lock, others []strikeLock, rng *rand.Rand, calls ...int) {
	for _, i := range calls {
		s.closing = s.closing || strikeCalls[i].closes
		s.loses = s.loses || strikeCalls[i].loses
		s.lowers = s.lowers || strikeCalls[i].name == "Downgrade"
	}
	soon := func() time.Duration { return time.Duration(rng.IntN(4)) * 50 * time.Microsecond }
	s.stay = 50*time.Microsecond + soon()
	var visitors, callers sync.WaitGroup
	comes := func(owner string, l strikeLock) {
		after := soon()
		visitors.Go(func() {
			time.Sleep(after)
			h, err := l.Lock(s.t.Context())
			s.visit("visit", owner, l, h, err)
		})
	}
	for range 2 {
		comes("other", others[rng.IntN(len(others))])
	}
	time.Sleep(soon())

	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	if group != nil {
		all, err := m.LockAll(ctx, group...)
		wantErr(s.t, "lockall", err, nil)
		s.all, s.h = all, all[0]
	} else {
		s.h = s.locks[0].Acquire(ctx)
		s.all = Holds{s.h}
		switch s.pending = rng.IntN(2) == 0; {
		case !s.pending:
			_, err := s.h.Ready().Wait(ctx)
			s.expect("acquire", err)
		case rng.IntN(2) == 0:
			s.closing = true
			callers.Go(func() { time.Sleep(100 * time.Microsecond); cancel() })
		}
	}
	l := s.locks[rng.IntN(len(s.locks))]
	comes(s.owner(l), l)
	comes("other", others[len(others)-1])
	for n := range 3 {
		i, after, limit := calls[n%2], soon(), time.Duration(1+rng.IntN(12))*50*time.Microsecond
		callers.Go(func() {
			time.Sleep(after)
			ctx := withTimeout(s.t, limit)
			strikeCalls[i].call(s, ctx, s.locks[0])
		})
	}
	callers.Wait()
	synctest.Wait()
	s.observeErr("err", s.h.Err)
	s.ends(true)
	last := s.h.Release()
	s.all.Release()
	visitors.Wait()
	_, err := last.Wait(s.t.Context())
	s.released("the last release", err)
	withdrawn := errors.Is(s.h.Err(), context.Canceled)
	if n := s.firsts.Load(); n > 1 || n == 0 && !withdrawn && group == nil { // of a group, each call may release one
		s.t.Errorf("%d releases were the first", n)
	}
}

// leavesNothing checks that the lock is free.
func (s *strike) leavesNothing(other strikeLock) {
	later(20 * time.Millisecond)
	for _, l := range s.locks {
		wantErr(s.t, "setlinger", l.SetLinger(0), nil)
		phase, n := l.State()
		expect(s.t, phase == state.Free && n == 0, "the lock is %v/%d", phase, n)
	}
	s.c.wantNodes(0)
	wantEq(s.t, "nodes of the group's other lock", len(s.c.srv.Children("/holdfast/extra")), 0)
	wantEq(s.t, "are inside", s.ref.Inside(), 0)
	h, err := other.TryLock(s.t.Context())
	if err != nil {
		s.t.Fatalf("another process: %v", err)
	}
	mustRelease(s.t, h)
}
