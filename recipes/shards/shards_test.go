// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/recipes/shards"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const dir = "/holdfast/orders"

// A ledger knows who owns what, and fails the test if two processes do.
type ledger struct {
	c      *recipetest.Cluster
	t      *testing.T
	mu     sync.Mutex // protects what follows
	owners map[int]entry
	tokens map[int]uint64 // the highest of each shard
	taken  int            // how often a shard was taken
}

type entry struct {
	who  string
	hold manager.Hold
}

func newLedger(c *recipetest.Cluster) *ledger {
	return &ledger{c: c, t: c.T, owners: make(map[int]entry), tokens: make(map[int]uint64)}
}

// own notes that who has the shard until leave is called.
func (l *ledger) own(who string, s shards.Shard) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken++
	if l.lost(entry{who, s.Hold}) {
		return func() {} // it begins after the loss, and perhaps after the next owner has begun
	}
	if other, ok := l.owners[s.Index]; ok && s.Hold.Err() == nil && !l.lost(other) {
		l.t.Errorf("shard %d is %s's, and %s gets it", s.Index, other.who, who)
	}
	if last := l.tokens[s.Index]; s.Token <= last {
		l.t.Errorf("shard %d: token %d follows %d", s.Index, s.Token, last)
	}
	l.tokens[s.Index], l.owners[s.Index] = s.Token, entry{who, s.Hold}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.owners[s.Index].hold == s.Hold {
			delete(l.owners, s.Index)
		}
	}
}

// lost reports whether an owner that has not stopped has lost its shard, or is about to
// learn that a test has taken it by force.
func (l *ledger) lost(e entry) bool {
	g, err := e.hold.Grant()
	if err != nil {
		return errors.Is(err, manager.ErrLost) || errors.Is(err, manager.ErrClosed)
	}
	return l.c.Srv != nil && !l.c.Srv.Exists(g.Path)
}

// shares returns who has how many shards.
func (l *ledger) shares() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]int)
	for _, e := range l.owners {
		if e.hold.Err() == nil {
			all[e.who]++
		}
	}
	return all
}

// assigned reports whether the n shards are owned by the members that are to own them.
func (l *ledger) assigned(n int, who ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range shards.Assign(n, who) {
		if e, ok := l.owners[i]; !ok || e.who != id || e.hold.Err() != nil {
			return false
		}
	}
	return true
}

// count returns how often shards were taken.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// work is a function for Run that notes what it owns, and stops when it is told to.
func (l *ledger) work(who string) func(context.Context, shards.Shard) error {
	return func(ctx context.Context, s shards.Shard) error {
		defer l.own(who, s)()
		select {
		case <-s.Revoked:
		case <-ctx.Done():
		}
		return nil
	}
}

var errFull = errors.New("disk full")

// failing is a function for Run that fails once it receives from fail.
func (l *ledger) failing(who string, fail <-chan struct{}) func(context.Context, shards.Shard) error {
	return func(ctx context.Context, s shards.Shard) error {
		defer l.own(who, s)()
		select {
		case <-fail:
			return errFull
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A run is a call of Run.
type run struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // written before done is closed
}

func start(m *manager.Manager, o shards.Options, fn func(context.Context, shards.Shard) error) *run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = shards.Run(ctx, m, o, fn)
	}()
	return r
}

// wait returns what Run has returned.
func (r *run) wait() error {
	<-r.done
	return r.err
}

// end ends Run, and checks that it ends as it should.
func (r *run) end(t *testing.T) {
	t.Helper()
	r.stop()
	recipetest.WantErr(t, "run", r.wait(), context.Canceled)
}

func options(id string, n int) shards.Options {
	return shards.Options{Name: "orders", N: n, ID: id, Settle: 200 * time.Millisecond, Grace: time.Second}
}

// Shards are divided anew when processes come and go. When all have gone, nothing is left
// but the spec.
func TestRun(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 20
		l := newLedger(c)
		all := make(map[string]*run)
		var here []string
		for _, id := range []string{"a", "b", "c"} {
			all[id] = start(c.Open(id), options(id, n), l.work(id))
			here = append(here, id)
			c.Until(fmt.Sprint("the shards are divided among ", here), func() bool { return l.assigned(n, here...) })
		}
		all["b"].end(t)
		c.Until("b's shards are the others'", func() bool { return l.assigned(n, "a", "c") })
		all["a"].end(t)
		all["c"].end(t)
		if c.Srv == nil {
			return
		}
		recipetest.Later(time.Second)
		for i := range n {
			if left := c.Srv.Children(fmt.Sprintf("%s/shards/%d", dir, i)); len(left) > 0 {
				t.Errorf("nodes are left of shard %d: %q", i, left)
			}
		}
		if left := c.Srv.Children(dir + "/members"); len(left) > 0 {
			t.Errorf("members are left: %q", left)
		}
		if w := c.Srv.AllWatches(); w != (zktest.WatchCount{Data: len(all)}) { // of mailboxes
			t.Errorf("watches are left: %+v", w)
		}
	})
}

// A process that comes late is not waited for: shards whose owner stays do not change
// hands, and the others change hands once.
func TestF230_OnlyWhatMustMoves(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 40
		l := newLedger(c)
		a, b := start(c.Open("a"), options("a", n), l.work("a")), start(c.Open("b"), options("b", n), l.work("b"))
		c.Until("two have them", func() bool { return l.assigned(n, "a", "b") })
		before := l.count()
		third := start(c.Open("c"), options("c", n), l.work("c"))
		c.Until("three have them", func() bool { return l.assigned(n, "a", "b", "c") })
		moves, _ := moved(shards.Assign(n, []string{"a", "b"}), shards.Assign(n, []string{"a", "b", "c"}))
		if got := l.count() - before; got != moves {
			t.Errorf("%d shards have changed hands, %d had to", got, moves)
		}
		for _, r := range []*run{a, b, third} {
			r.end(t)
		}
	})
}

// While processes come and go in quick succession, owners keep what they have.
func TestF231_Settle(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 20
		l := newLedger(c)
		o := options("a", n)
		o.Settle = 10 * time.Second
		a := start(c.Open("a"), o, l.work("a"))
		c.Until("one has them", func() bool { return l.assigned(n, "a") })
		m := c.Open("b")
		for range 5 {
			b := start(m, options("b", n), l.work("b"))
			recipetest.Later(5 * time.Second)
			b.end(t)
			recipetest.Later(time.Second)
		}
		if !l.assigned(n, "a") || l.count() != n {
			t.Errorf("shards were taken %d times; now %v have them", l.count(), l.shares())
		}
		b := start(m, options("b", n), l.work("b"))
		recipetest.Later(11 * time.Second)
		if !l.assigned(n, "a", "b") {
			t.Errorf("after Settle %v have the shards", l.shares())
		}
		b.end(t)
		a.end(t)
	})
}

// A process that dies, is cut off or loses its node gives up what it had before another
// gets it, and has its share again when it is back.
func TestF232_ProcessIsLost(t *testing.T) {
	const n = 20
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, m *manager.Manager){
		"session":        func(c *recipetest.Cluster, m *manager.Manager) { c.Srv.ExpireSession(recipetest.SessionOf(m)) },
		"member deleted": func(c *recipetest.Cluster, _ *manager.Manager) { c.Remove(dir + "/members/a") },
		"locks deleted": func(c *recipetest.Cluster, _ *manager.Manager) {
			for i := range n {
				lock := fmt.Sprintf("%s/shards/%d", dir, i)
				for _, name := range c.Srv.Children(lock) {
					c.Remove(lock + "/" + name)
				}
			}
		},
		"silence": func(c *recipetest.Cluster, m *manager.Manager) {
			defer c.Silence(m)()
			recipetest.Later(20 * time.Second)
		},
		"restart": func(c *recipetest.Cluster, _ *manager.Manager) { c.Srv.Restart() },
	}, func(t *testing.T, c *recipetest.Cluster, harm func(c *recipetest.Cluster, m *manager.Manager)) {
		l := newLedger(c)
		m := c.Open("a")
		a, b := start(m, options("a", n), l.work("a")), start(c.Open("b"), options("b", n), l.work("b"))
		c.Until("two have them", func() bool { return l.assigned(n, "a", "b") })
		harm(c, m)
		c.Until("two have them again", func() bool { return l.assigned(n, "a", "b") })
		a.end(t)
		b.end(t)
	})
}

// A function that ignores Revoked is interrupted after Grace. Its shard stays this
// process's until it has returned, however long that takes.
func TestF233_SlowOwner(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 2
		l := newLedger(c)
		revoked, ended := make(chan time.Time, n), make(chan time.Time, n)
		finish := make(chan struct{})
		slow := func(ctx context.Context, s shards.Shard) error {
			defer l.own("a", s)()
			select {
			case <-s.Revoked:
			case <-ctx.Done():
				return nil
			}
			revoked <- time.Now()
			<-ctx.Done()
			recipetest.WantErr(t, "the cause", context.Cause(ctx), shards.ErrRevoked)
			ended <- time.Now()
			<-finish
			return ctx.Err()
		}
		a := start(c.Open("a"), options("a", n), slow)
		c.Until("one has both", func() bool { return l.assigned(n, "a") })
		b := start(c.Open("b"), options("b", n), l.work("b"))
		if took := (<-ended).Sub(<-revoked); took != time.Second {
			t.Errorf("the context ended %v after the revocation", took)
		}
		recipetest.Later(time.Hour)
		if got := l.shares(); got["a"] != 2 {
			t.Errorf("it has not returned, and the shares are %v", got)
		}
		close(finish)
		c.Until("each has one", func() bool { return l.assigned(n, "a", "b") })
		b.end(t)
		recipetest.Later(time.Minute) // a has both again
		a.end(t)
	})
}

// An error of a function ends Run, which returns it; the shards go to others. What a
// function returns that was interrupted is no error.
func TestF234_FunctionFails(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 10
		l := newLedger(c)
		fail := make(chan struct{})
		a := start(c.Open("a"), options("a", n), l.failing("a", fail))
		c.Until("one has them", func() bool { return l.assigned(n, "a") })
		b := start(c.Open("b"), options("b", n), l.work("b"))
		c.Until("two have them, since functions were interrupted", func() bool { return l.assigned(n, "a", "b") })
		fail <- struct{}{}
		if err := a.wait(); err != errFull {
			t.Errorf("run: %v", err)
		}
		c.Until("the other has them", func() bool { return l.assigned(n, "b") })
		b.end(t)
	})
}

// A function fails in an outage, while the process looks at the shards of one that seems to be
// dead: Run ends, and does not wait for ZooKeeper.
func TestF332_FunctionFailsInAnOutage(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 10
		l, m := newLedger(c), c.Open("a")
		fail := make(chan struct{})
		a := start(m, options("a", n), l.failing("a", fail))
		g, err := members.New(c.Open("ghosts"), "orders/members")
		recipetest.WantErr(t, "members", err, nil)
		_, err = g.Join(t.Context(), "x", nil)
		recipetest.WantErr(t, "join", err, nil)
		timeout := m.Access().Session().Timeout()
		recipetest.Later(2 * timeout)
		defer c.Silence(m)()
		recipetest.Later(timeout / 4) // a look is under way
		fail <- struct{}{}
		select {
		case <-a.done:
			if a.err != errFull {
				t.Errorf("run: %v", a.err)
			}
		case <-time.After(3 * timeout):
			t.Error("Run waits for ZooKeeper")
		}
	})
}

// A function that returns early has its shard kept, and is not called again.
func TestF234_FunctionReturnsEarly(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 10
		calls := make(chan int, 100)
		m := c.Open("a")
		a := start(m, options("a", n), func(_ context.Context, s shards.Shard) error {
			calls <- s.Index
			return nil
		})
		recipetest.Later(time.Minute)
		if len(calls) != n {
			t.Errorf("%d calls", len(calls))
		}
		l := newLedger(c)
		b := start(c.Open("b"), options("b", n), l.work("b"))
		recipetest.Later(time.Minute)
		if got, want := l.shares()["b"], n/2; got != want || len(calls) != n {
			t.Errorf("the other has %d shards, want %d; %d calls", got, want, len(calls))
		}
		b.end(t)
		a.end(t)
	})
}

// Processes that would divide the shards differently are refused.
func TestF235_Mismatch(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		a := start(c.Open("a"), options("a", 4), l.work("a"))
		c.Until("one has them", func() bool { return l.assigned(4, "a") })
		m := c.Open("b")
		recipetest.WantErr(t, "another number", shards.Run(t.Context(), m, options("b", 5), nil), shards.ErrMismatch)
		for what, tt := range map[string]struct {
			change func(*shards.Options)
			want   error
		}{
			"no shards":       {func(o *shards.Options) { o.N = 0 }, manager.ErrBadConfig},
			"too many":        {func(o *shards.Options) { o.N = shards.MaxShards + 1 }, manager.ErrBadConfig},
			"negative grace":  {func(o *shards.Options) { o.Grace = -1 }, manager.ErrBadConfig},
			"negative settle": {func(o *shards.Options) { o.Settle = -1 }, manager.ErrBadConfig},
			"bad name":        {func(o *shards.Options) { o.Name = "a//b" }, manager.ErrBadName},
			"bad id":          {func(o *shards.Options) { o.ID = string(make([]byte, 300)) }, members.ErrBadID},
		} {
			o := options("b", 4)
			tt.change(&o)
			recipetest.WantErr(t, what, shards.Run(t.Context(), m, o, nil), tt.want)
		}
		a.end(t)
	})
}

// Each request that Run sends can get lost, and the answer to it.
func TestF236_EachAnswerLost(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
		l := newLedger(v.Cluster)
		a := start(v.M, options("a", 4), l.work("a"))
		v.Until("it has them", func() bool { return l.assigned(4, "a") })
		a.end(t)
	})
}

// Two processes that start at the same time both find that there is no spec.
func TestF236_SpecMadeByTwo(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		m := c.Open("a")
		a := start(m, options("a", 4), l.work("a"))
		c.Until("it has them", func() bool { return l.assigned(4, "a") })
		a.end(t)
		spec, _, _ := c.Srv.Get(dir + "/spec")
		c.Remove(dir + "/spec")
		var once sync.Once
		c.Srv.OnRequest(func(_ int64, op zktest.Op, path string) {
			if op == zktest.OpCreate && path == dir+"/spec" {
				once.Do(func() { recipetest.WantErr(t, "create", c.Srv.CreateAll(path, spec), nil) })
			}
		})
		a = start(m, options("a", 4), l.work("a"))
		c.Until("it has them", func() bool { return l.assigned(4, "a") })
		a.end(t)
	})
}

// Close of the Manager ends Run. A group that cannot be read, or a lock that cannot be
// had, ends it with the reason.
func TestF237_RunEnds(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		m := c.Open("a")
		a := start(m, options("a", 4), l.work("a"))
		c.Until("it has them", func() bool { return l.assigned(4, "a") })
		recipetest.WantErr(t, "close", m.Close(), nil)
		recipetest.WantErr(t, "run", a.wait(), manager.ErrClosed)
		recipetest.WantErr(t, "run", shards.Run(t.Context(), m, options("a", 4), nil), manager.ErrClosed)
	})
	for _, match := range []zktest.Match{{Op: zktest.OpGetChildren2, Path: dir + "/members", Times: zktest.Every}, {Path: dir + "/shards/2", Times: zktest.Every}} {
		recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
			c.Srv.Faults().FailRequest(match, zktest.CodeNoAuth)
			l := newLedger(c)
			a := start(c.Open("a"), options("a", 4), l.work("a"))
			recipetest.WantErr(t, "run", a.wait(), zkio.ErrNoAuth)
		})
	}
}

// Shutdown of the Manager ends Run at once, although it has all its shards, and waits for
// nothing. Others have the shards right after.
func TestF329_ShutdownEndsRun(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		m := c.Open("a")
		a := start(m, options("a", 4), l.work("a"))
		c.Until("it has them", func() bool { return l.assigned(4, "a") })
		recipetest.Later(time.Minute)
		begun := time.Now()
		c.Shutdown(m)
		recipetest.WantErr(t, "run", a.wait(), manager.ErrClosed)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Shutdown took %v", took)
		}
		b := start(c.Open("b"), options("b", 4), l.work("b"))
		defer b.end(t)
		recipetest.Later(100 * time.Millisecond)
		if !l.assigned(4, "b") {
			t.Errorf("another process has not all the shards: %v", l.shares())
		}
	})
}

// Shutdown ends Run while that waits for its id, too, and while a lock is held.
func TestF329_ShutdownWhileTheIDIsTaken(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		a := start(c.Open("a"), options("a", 4), l.work("first"))
		defer a.end(t)
		c.Until("it has them", func() bool { return l.count() == 4 })
		m := c.Open("b")
		lock, err := m.Exclusive("lock")
		recipetest.WantErr(t, "open a lock", err, nil)
		held, err := lock.Lock(t.Context())
		recipetest.WantErr(t, "lock", err, nil)
		b := start(m, options("a", 4), l.work("second"))
		synctest.Wait()
		shutdown := recipetest.BeginErr(t, func() error { return m.Shutdown(t.Context()) })
		recipetest.WantErr(t, "run", b.wait(), manager.ErrClosed)
		held.Release()
		shutdown.WantErr("shutdown", nil)
	})
}

// While another process has the id, Run waits.
func TestF238_IdIsTaken(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		a := start(c.Open("a"), options("a", 4), l.work("first"))
		c.Until("it has them", func() bool { return l.count() == 4 })
		b := start(c.Open("b"), options("a", 4), l.work("second"))
		recipetest.Later(time.Minute)
		if got := l.shares(); got["first"] != 4 {
			t.Errorf("the shares are %v", got)
		}
		a.end(t)
		synctest.Wait()
		if got := l.shares(); got["second"] != 4 {
			t.Errorf("then the shares are %v", got)
		}
		b.end(t)
	})
}

// A second call of Run of the same Manager would share its locks: two owners of a shard, with
// one token. It is refused until the first has returned, however it spells the id.
func TestF304_RunOfTheSameManager(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		m, other := c.Open("a"), c.Open("b")
		finish := make(chan struct{})
		slow := func(ctx context.Context, s shards.Shard) error {
			defer l.own("first", s)()
			<-ctx.Done()
			<-finish
			return nil
		}
		first := start(m, options("first", 4), slow)
		c.Until("it has them", func() bool { return l.assigned(4, "first") })
		second := start(m, options("second", 4), l.work("second"))
		recipetest.Later(time.Minute)
		second.stop()
		recipetest.WantErr(t, "the second run", second.wait(), shards.ErrRunning)
		first.stop()
		recipetest.Later(time.Minute)
		second = start(m, options("second", 4), l.work("second"))
		recipetest.Later(time.Second)
		second.stop()
		recipetest.WantErr(t, "run, while a function of the first is at work", second.wait(), shards.ErrRunning)
		close(finish)
		recipetest.WantErr(t, "the first run", first.wait(), context.Canceled)
		second = start(m, options("second", 4), l.work("second"))
		third := start(other, options("third", 4), l.work("third"))
		c.Until("another Manager shares them", func() bool { return l.assigned(4, "second", "third") })
		second.end(t)
		third.end(t)
	})
}

// A process that divides the shards as an older version did is not joined by one that would
// divide them otherwise: the two would never agree on who is to have what.
func TestF307_AnotherDivision(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		recipetest.WantErr(t, "create", c.Srv.CreateAll(dir+"/spec", []byte(`{"shards":4,"algorithm":"bounded-rendezvous-fnv1a-1"}`)), nil)
		err := shards.Run(t.Context(), m, options("a", 4), nil)
		recipetest.WantErr(t, "run", err, shards.ErrMismatch)
		for _, want := range []string{dir + "/spec", "fnv1a-1", "fnv1a-2", "delete"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
	})
}

// A member that comes and goes more often than the group is to be at rest delays what the others
// give up, and does not stop it. One that changes its data does not even delay it.
func TestF308_GroupWithoutRest(t *testing.T) {
	const n, settle = 8, time.Second
	type row struct {
		unrest func(ctx context.Context, g *members.Group)
		within time.Duration // after b has come
	}
	recipetest.Bubbles(t, map[string]row{
		"a member comes and goes": {func(ctx context.Context, g *members.Group) {
			me, err := g.Join(ctx, "flaps", nil)
			if err == nil {
				<-time.After(900 * time.Millisecond)
				_ = me.Leave(ctx)
			}
		}, 11 * settle},
		"a member changes its data": {func(ctx context.Context, g *members.Group) {
			if me, err := g.Join(ctx, "talks", nil); err == nil {
				for i := byte(0); ctx.Err() == nil; i++ {
					<-time.After(300 * time.Millisecond)
					_ = me.Set(ctx, []byte{i})
				}
			}
		}, 2 * settle},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		l := newLedger(c)
		o := options("a", n)
		o.Settle = settle
		a := start(c.Open("a"), o, l.work("a"))
		c.Until("one has them", func() bool { return l.assigned(n, "a") })
		g, err := members.New(c.Open("restless"), "orders/members")
		recipetest.WantErr(t, "members", err, nil)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				tt.unrest(ctx, g)
				<-time.After(900 * time.Millisecond)
			}
		})
		recipetest.Later(10 * settle)
		o.ID = "b"
		b := start(c.Open("b"), o, l.work("b"))
		recipetest.Later(tt.within)
		if got := l.shares(); got["b"] < 2 {
			t.Errorf("%v after the second process has come the shares are %v", tt.within, got)
		}
		stop()
		wg.Wait()
		a.end(t)
		b.end(t)
	})
}

// A member that ZooKeeper takes for alive, although its process is dead, queues for no shard. What
// it is to have stands still for no longer than half the session timeout: an owner keeps what it
// has, and the living take what the dead have left. When the process comes to life, it gets its
// share.
func TestF336_HeirIsDead(t *testing.T) {
	const n = 30
	recipetest.Bubbles(t, map[string][]string{
		"one is dead":   {"x"},
		"three are":     {"x", "y", "z"},
		"of two with a": {"b", "x"},
	}, func(t *testing.T, c *recipetest.Cluster, dead []string) {
		l := newLedger(c)
		living := []string{"a", "c"}
		runs := []*run{start(c.Open("a"), options("a", n), l.work("a")), start(c.Open("c"), options("c", n), l.work("c"))}
		dies := c.Open("dies")
		last := start(dies, options("dies", n), l.work("dies"))
		c.Until("three have the shards", func() bool { return l.assigned(n, "a", "c", "dies") })
		g, err := members.New(c.Open("ghosts"), "orders/members")
		recipetest.WantErr(t, "members", err, nil)
		var ghosts []*members.Member
		for _, id := range dead {
			m, err := g.Join(t.Context(), id, nil)
			recipetest.WantErr(t, "join", err, nil)
			ghosts = append(ghosts, m)
		}
		half, before := dies.Access().Session().Timeout()/2, l.count()
		owned := func() (all int) {
			for _, k := range l.shares() {
				all += k
			}
			return all
		}
		recipetest.Later(half)
		want, was := 0, shards.Assign(n, []string{"a", "c", "dies"})
		for i, id := range shards.Assign(n, append([]string{"a", "c", "dies"}, dead...)) {
			if id != was[i] && !slices.Contains(dead, id) {
				want++
			}
		}
		if got, moves := owned(), l.count()-before; got != n || moves != want {
			t.Errorf("%v have come to have shards, and are dead: %d of %d are owned, and %d have moved, want %d", dead, got, n, moves, want)
		}
		c.Srv.ExpireSession(recipetest.SessionOf(dies))
		last.stop()
		<-last.done
		recipetest.Later(half)
		if got := owned(); got != n {
			t.Errorf("an owner has died, and %v are dead: %d of %d are owned", dead, got, n)
		}
		for i, m := range ghosts {
			recipetest.WantErr(t, "leave", m.Leave(t.Context()), nil)
			living = append(living, dead[i])
			runs = append(runs, start(c.Open(dead[i]), options(dead[i], n), l.work(dead[i])))
		}
		c.Until("all that live now have their share", func() bool { return l.assigned(n, living...) })
		for _, r := range runs {
			r.end(t)
		}
	})
}

// An heir that was slow, and not dead, waits for what others have. They give it up although the
// group does not change any more.
func TestF336_HeirIsLate(t *testing.T) {
	const n = 10
	recipetest.Bubbles(t, map[string]bool{"its shards were taken": true, "its shards were kept": false}, func(t *testing.T, c *recipetest.Cluster, heirFirst bool) {
		l := newLedger(c)
		var a *run
		begin := func() {
			a = start(c.Open("a"), options("a", n), l.work("a"))
			recipetest.Later(time.Minute)
		}
		slow := c.Open("slow")
		g, err := members.New(slow, "orders/members")
		recipetest.WantErr(t, "members", err, nil)
		if !heirFirst {
			begin()
		}
		late, err := g.Join(t.Context(), "late", nil)
		recipetest.WantErr(t, "join", err, nil)
		if heirFirst {
			begin()
		}
		recipetest.Later(time.Minute)
		if got := l.shares(); got["a"] != n {
			t.Errorf("the heir does not come, and the shares are %v", got)
		}
		for index, id := range shards.Assign(n, []string{"a", "late"}) {
			if id == "a" {
				continue
			}
			lock, err := slow.Exclusive(fmt.Sprint("orders/shards/", index))
			recipetest.WantErr(t, "lock", err, nil)
			ctx, cancel := context.WithTimeout(t.Context(), slow.Access().Session().Timeout()/2)
			recipetest.WantErr(t, "the heir waits", recipetest.ErrOf(lock.Lock(ctx)), nil)
			cancel()
		}
		if got := l.shares(); got["a"] != n/2 {
			t.Errorf("the heir has come, and the shares are %v", got)
		}
		timeout := slow.Access().Session().Timeout()
		recipetest.Later(2 * timeout)
		if counts := c.Count(func() { recipetest.Later(timeout) }); counts[zktest.OpMultiRead] > 0 {
			t.Errorf("the heir has come, and others look on: %v", counts)
		}
		recipetest.WantErr(t, "leave", late.Leave(t.Context()), nil)
		recipetest.WantErr(t, "close", slow.Close(), nil)
		c.Until("the heir has gone", func() bool { return l.assigned(n, "a") })
		a.end(t)
	})
}

// The member that is to have what a dead heir has left is dead, too: the next one takes it.
func TestF336_DeputyIsDead(t *testing.T) {
	const n = 4
	// Ids with which a shard that the dying process has goes to x, and without x to y.
	var x, y string
	for i := 0; y == ""; i++ {
		ghost, other := fmt.Sprint("x", i), fmt.Sprint("y", i)
		two, four := shards.Assign(n, []string{"a", "dies"}), shards.Assign(n, []string{"a", "dies", ghost, other})
		three, rest := shards.Assign(n, []string{"a", ghost, other}), shards.Assign(n, []string{"a", other})
		fits := false
		for s := range n {
			if four[s] == "a" || two[s] == "a" && four[s] != "dies" {
				continue // it is a's already
			}
			if three[s] == other { // it is silent as an heir
				fits = false
				break
			}
			fits = fits || three[s] == ghost && rest[s] == other
		}
		if fits {
			x, y = ghost, other
		}
	}
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		l := newLedger(c)
		dies := c.Open("dies")
		a, last := start(c.Open("a"), options("a", n), l.work("a")), start(dies, options("dies", n), l.work("dies"))
		c.Until("two have the shards", func() bool { return l.assigned(n, "a", "dies") })
		g, err := members.New(c.Open("ghosts"), "orders/members")
		recipetest.WantErr(t, "members", err, nil)
		for _, id := range []string{x, y} {
			recipetest.WantErr(t, "join", recipetest.ErrOf(g.Join(t.Context(), id, nil)), nil)
		}
		half := dies.Access().Session().Timeout() / 2
		recipetest.Later(half)
		c.Srv.ExpireSession(recipetest.SessionOf(dies))
		last.stop()
		<-last.done
		recipetest.Later(half)
		if got := l.shares(); got["a"] != n {
			t.Errorf("only a lives, and the shares are %v", got)
		}
		a.end(t)
	})
}

// Run gives its shards up when it ends, also if the Manager's other locks linger: another process
// has them, and its functions are called, without a word from this one.
func TestF237_RunEndsOfALingerer(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 4
		l := newLedger(c)
		a := start(c.Open("a", func(cfg *manager.Config) { cfg.Linger = time.Hour }), options("a", n), l.work("a"))
		c.Until("it has them", func() bool { return l.assigned(n, "a") })
		a.end(t)
		for i := range n {
			if left := c.Srv.Children(fmt.Sprintf("%s/shards/%d", dir, i)); len(left) > 0 {
				t.Errorf("Run has returned, and shard %d has %v", i, left)
			}
		}
	})
}

// The longest Settle there can be keeps the shards where they are.
func TestF231_SettleForEver(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 20
		l := newLedger(c)
		o := options("a", n)
		o.Settle = math.MaxInt64
		a := start(c.Open("a"), o, l.work("a"))
		defer a.end(t)
		c.Until("one has them", func() bool { return l.assigned(n, "a") })
		b := start(c.Open("b"), options("b", n), l.work("b"))
		defer b.end(t)
		recipetest.Later(time.Hour)
		if !l.assigned(n, "a") {
			t.Errorf("%v have the shards", l.shares())
		}
	})
}
