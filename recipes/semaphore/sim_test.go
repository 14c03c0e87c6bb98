// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A history is what a checker judges: the permits that were granted, and the numbers that the
// semaphore had, by ZooKeeper's transactions.
type history struct {
	mu     sync.Mutex // protects what follows
	grants []*grant
	sizes  []sizeFrom
}

// A grant is of permits that were granted by the transaction at, and were there up to the
// transaction until, at least.
type grant struct {
	who       string
	weight    int
	try       bool
	made      int64
	at, until int64
	permits   *Permits
}

type sizeFrom struct {
	zxid int64
	n    int
}

func (h *history) granted(who string, p *Permits) *grant {
	g := &grant{who: who, weight: p.weight, try: !p.claim.turn, made: p.claim.czxid, at: p.claim.counted, until: p.claim.counted, permits: p}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants = append(h.grants, g)
	return g
}

// verify notes that the permits are there now, if they are.
func (g *grant) verify(srv *zktest.Server) {
	now := srv.Zxid()
	for _, path := range g.permits.claim.paths {
		if !srv.Exists(path) {
			return
		}
	}
	g.until = now
}

// resized notes the number of permits that there is now.
func (h *history) resized(srv *zktest.Server, path string) {
	data, stat, there := srv.Get(path)
	if !there {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sizes = append(h.sizes, sizeFrom{stat.Mzxid, sizeOf(data, stat.Version).n})
}

func (h *history) sizeAt(zxid int64) int {
	n := h.sizes[0].n
	for _, s := range h.sizes {
		if s.zxid <= zxid {
			n = s.n
		}
	}
	return n
}

// check returns what is wrong: a grant by which more permits were in use than there are, or
// one that was overtaken while it was first in line.
func (h *history) check() (wrong []string) {
	for _, g := range h.grants {
		used := 0
		for _, other := range h.grants {
			if other.at <= g.at && g.at <= other.until {
				used += other.weight
			}
			if !g.try && !other.try && g.made < other.made && other.made < g.at {
				wrong = append(wrong, fmt.Sprintf("%s, first in line from %#x to %#x, was overtaken by %s at %#x", g.who, g.made, g.at, other.who, other.made))
			}
		}
		if n := h.sizeAt(g.at); used > n {
			wrong = append(wrong, fmt.Sprintf("at %#x, when %s got %d, %d of %d permits are in use", g.at, g.who, g.weight, used, n))
		}
	}
	return wrong
}

// Processes acquire and release permits while faults strike them, and, in some seeds, while
// the number changes, an administrator deletes nodes, and a process is closed.
func TestSim(t *testing.T) {
	grants := 0
	recipetest.Simulate(t, 200, func(w *recipetest.World) {
		h := simulate(w)
		for _, wrong := range h.check() {
			w.T.Error(wrong)
		}
		grants += len(h.grants)
	})
	t.Logf("%d grants", grants)
}

const simPermits = 4

func simulate(w *recipetest.World) *history {
	t, h := w.T, new(history)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	var users []user
	join := func(name string) user {
		m := w.Process(name).M
		s, err := New(m, "db", Options{Permits: simPermits * (1 - int(w.Seed%2))})
		if err != nil {
			t.Fatal(err)
		}
		u := newUser(s, w.Cluster, m)
		users = append(users, u)
		for g := range 3 {
			wg.Go(func() { u.play(ctx, w, h, fmt.Sprintf("%s-%d", name, g)) })
		}
		return u
	}
	first := open(w.Cluster, "first", simPermits)
	unlock(t, first.lock(1))
	h.resized(w.Srv, first.number)
	for _, name := range []string{"a", "b", "c"} {
		join(name)
	}
	steady := newUser(must(New(w.Steady("steady"), "db", Options{})), w.Cluster, nil)
	wg.Go(func() {
		for ctx.Err() == nil {
			steady.waitNoLongerThan(w, h, recipetest.SessionTimeout/2+w.Outage())
			w.Pause(ctx, time.Second)
		}
	})
	if w.Seed%4 == 1 {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.Pause(ctx, 3*time.Second)
				n := 3 + w.N(3)
				err := first.Resize(context.Background(), n)
				h.resized(w.Srv, first.number)
				w.Note("resize to %d: %v", n, err)
			}
		})
	}
	if w.Seed%4 == 3 {
		wg.Go(func() {
			w.Pause(ctx, 10*time.Second)
			w.Note("close of %s: %v", "a", users[0].m.Close())
			join("again")
		})
	}
	w.Harm(10, 2*time.Second, func() (paths []string) {
		for _, dir := range []string{first.leases, first.dir + "/locks"} {
			for _, name := range w.Srv.Children(dir) {
				paths = append(paths, dir+"/"+name)
			}
		}
		return paths
	})
	stop()
	wg.Wait()
	w.Heal()
	synctest.Wait()
	n := must(first.State(t.Context())).Permits
	p := first.lock(n)
	unlock(t, p)
	first.wantState(n, 0, 0)
	return h
}

// waitNoLongerThan acquires a permit and gives it back. It is a steady process's. So the
// seed fails if permits are free for longer than limit, and no process takes any in turn, while it
// waits. That others take permits out of turn is no excuse: it can do so itself.
func (u user) waitNoLongerThan(w *recipetest.World, h *history, limit time.Duration) {
	p := u.Acquire(context.Background(), 1)
	for since, last := time.Now(), ""; !p.granted.Settled(); <-time.After(20 * time.Millisecond) {
		data, _, _ := w.Srv.Get(u.number)
		claim, dir, _ := w.Srv.Get(u.leases)
		if free := sizeOf(data, 0).n - int(dir.NumChildren); free < 1 || string(claim) != last {
			since, last = time.Now(), string(claim)
		}
		if stood := time.Since(since); stood > limit {
			w.T.Errorf("permits are free, and the line has stood still for %v", stood)
			break
		}
	}
	granted(w.T, p)
	if p.Err() == nil {
		g := h.granted("steady", p)
		w.Note("steady has 1, made %#x, in turn: %v", g.made, p.claim.turn)
		h.mu.Lock()
		g.verify(w.Srv)
		h.mu.Unlock()
	}
	if err := p.Unlock(context.Background()); err != nil && !errors.Is(err, ErrLost) {
		w.T.Errorf("steady: %v", err)
	}
}

// play is one goroutine of a process.
func (u user) play(ctx context.Context, w *recipetest.World, h *history, who string) {
	for ctx.Err() == nil {
		w.Pause(ctx, time.Second)
		p := u.ask(w, 1+w.N(3))
		if p == nil {
			continue
		}
		g := h.granted(who, p)
		w.Note("%s has %d, made %#x, granted %#x", who, p.weight, g.made, g.at)
		w.Pause(ctx, 2*time.Second)
		lost := p.Err()
		if lost == nil {
			h.mu.Lock()
			g.verify(w.Srv)
			h.mu.Unlock()
		}
		err := p.Unlock(context.Background())
		w.Note("%s releases %d of %#x: %v, %v", who, p.weight, g.made, lost, err)
		for _, n := range p.nodes {
			// The node of a session that is said to be over may stay: a leader that is cut off says
			// so, and its successor keeps the session until it has not heard of it for a timeout.
			if err == nil && w.Srv.Exists(n.Path()) && !n.Session().Gone() {
				w.T.Errorf("%s has released %s, and it is there", who, n.Path())
			}
		}
		for _, e := range []error{lost, err} {
			if e != nil && !errors.Is(e, ErrLost) && !errors.Is(e, manager.ErrClosed) {
				w.T.Errorf("%s: %v", who, e)
			}
		}
		if errors.Is(err, manager.ErrClosed) {
			return
		}
	}
}

// ask asks for permits in one way or another. It returns nil if it does not get them.
func (u user) ask(w *recipetest.World, weight int) *Permits {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if w.N(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, w.UpTo(5*time.Second))
	}
	defer cancel()
	var p *Permits
	var err error
	switch w.N(4) {
	case 0:
		p, err = u.TryLock(ctx, weight)
	case 1:
		p = u.Acquire(ctx, weight)
		w.Pause(ctx, time.Second)
		if err = p.Err(); err != nil {
			_, e := p.Release().Wait(context.Background())
			if e == nil || p.claim != nil && p.Err() == nil {
				w.T.Errorf("released while pending: %v", e)
			}
			return nil
		}
	default:
		p, err = u.Lock(ctx, weight)
	}
	switch {
	case err == nil:
		return p
	case errors.Is(err, ErrNoPermits), errors.Is(err, ErrTooMany), errors.Is(err, ErrLost), errors.Is(err, manager.ErrClosed), errors.Is(err, context.DeadlineExceeded):
	default:
		w.T.Errorf("ask for %d: %v", weight, err)
	}
	return nil
}
