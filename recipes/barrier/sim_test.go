// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A checker hears what the members of a double barrier do, and says what must not happen. All
// methods may be called concurrently.
type checker struct {
	size int
	fail func(format string, args ...any)
	gone func(*Stage) bool // its node was taken away at once, which no process can know before

	mu     sync.Mutex // protects what follows
	rounds map[uint64]*checkedRound
	broken int              // rounds in which members have died
	ended  map[string]int64 // the sessions of processes that ended in good order, and had lost nothing, by label
}

type checkedRound struct {
	members []string
	inside  map[*Stage]bool // false: it has called Leave, or its node is known to be gone
	died    []string        // as the first that left was told; nil: none was told yet
	told    bool
}

func newChecker(size int, fail func(format string, args ...any), gone func(*Stage) bool) *checker {
	return &checker{size: size, fail: fail, gone: gone, rounds: make(map[uint64]*checkedRound), ended: make(map[string]int64)}
}

func (c *checker) entered(st *Stage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rounds[st.Round]
	if r == nil {
		r = &checkedRound{members: st.Members, inside: make(map[*Stage]bool)}
		c.rounds[st.Round] = r
	}
	r.inside[st] = true
	switch {
	case len(st.Members) != c.size:
		c.fail("round %d has %d members", st.Round, len(st.Members))
	case !slices.Equal(r.members, st.Members):
		c.fail("round %d has the members %v, and %v", st.Round, r.members, st.Members)
	case len(r.inside) > c.size:
		c.fail("%d have entered round %d", len(r.inside), st.Round)
	}
}

// leaves is called before Leave is, and when a member is told that it is lost.
func (c *checker) leaves(st *Stage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds[st.Round].inside[st] = false
}

// left is called with what Leave has returned.
func (c *checker) left(st *Stage, err error) {
	died := []string{}
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		died = broken.Died
	} else if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rounds[st.Round]
	for other, inside := range r.inside {
		if inside && other.Err() == nil && !c.gone(other) {
			c.fail("%s left round %d while another member was inside", st.name, st.Round)
		}
	}
	if r.told && !slices.Equal(r.died, died) {
		c.fail("round %d: one member was told that %v have died, another %v", st.Round, r.died, died)
	}
	if !r.told && len(died) > 0 {
		c.broken++
	}
	r.told, r.died = true, died
}

// shutDown is called when a process has ended in good order, although its callers had given up
// just before.
func (c *checker) shutDown(label string, session int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[label] = session
}

// alive checks that none is said to have died that ended in good order, unless its session was
// over before.
func (c *checker) alive(expired []zktest.Expiry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, r := range c.rounds {
		for _, id := range r.died {
			label, _, _ := strings.Cut(id, "@")
			session, ended := c.ended[label]
			if ended && !slices.ContainsFunc(expired, func(e zktest.Expiry) bool { return e.Session == session }) {
				c.fail("round %d: %s is said to have died, and has ended in good order", number, id)
			}
		}
	}
}

// In each seed, processes go through rounds together while faults strike: none leaves while
// another is inside, all are told the same, and no process hears later than the others that
// it has lost its place. Some end when they have given up: they have not died. In the end rounds
// go on, and nothing is left.
func TestSim(t *testing.T) {
	var rounds, broken, ended int
	recipetest.Simulate(t, 200, func(w *recipetest.World) {
		const size = 3
		var offered sync.Map // the nodes that the administrator may have deleted
		c := newChecker(size, w.T.Errorf, func(st *Stage) bool {
			if w.Srv.Exists(st.node.Path()) {
				return false
			}
			_, deleted := offered.Load(st.node.Path())
			return deleted || slices.ContainsFunc(w.Srv.Expired(), func(e zktest.Expiry) bool {
				return e.Forced && e.Session == st.node.Session().ID()
			})
		})
		ctx, stop := context.WithCancel(w.T.Context())
		defer stop()
		var all sync.WaitGroup
		quiet := make(chan struct{})
		done := make([]int, size+w.N(2)) // rounds of each process once all is quiet
		for i := range done {
			p := w.Process(fmt.Sprint("p", i))
			all.Go(func() { simulate(ctx, w, c, p, quiet, &done[i]) })
		}
		w.Harm(3+w.N(10), 2*time.Second, func() (paths []string) {
			if w.N(4) > 0 {
				return nil
			}
			for _, name := range w.Srv.Children("/holdfast/b/members") {
				if strings.HasPrefix(name, inPrefix) {
					paths = append(paths, "/holdfast/b/members/"+name)
					offered.Store("/holdfast/b/members/"+name, true)
				}
			}
			return paths
		})
		close(quiet)
		w.Until("rounds go on", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return total(done) >= 3*size
		})
		stop()
		all.Wait()
		recipetest.Later(time.Minute)
		for _, name := range w.Srv.Children("/holdfast/b/members") {
			if strings.HasPrefix(name, inPrefix) {
				w.T.Errorf("%s is left", name)
			}
		}
		if w.Faults["delete"] == 0 { // without its node it has died
			c.alive(w.Srv.Expired())
		}
		rounds += len(c.rounds)
		broken += c.broken
		ended += len(c.ended)
	})
	t.Logf("%d rounds, %d with deaths inside; %d processes ended in good order", rounds, broken, ended)
}

func total(all []int) (n int) {
	for _, i := range all {
		n += i
	}
	return n
}

// simulate is what a process does, and those that take its place when it has ended.
func simulate(ctx context.Context, w *recipetest.World, c *checker, p *recipetest.Process, quiet chan struct{}, done *int) {
	for name, n := p.Name, 1; ; n++ {
		participate(ctx, w, c, p, quiet, done)
		if ctx.Err() != nil {
			return
		}
		p = w.Process(fmt.Sprintf("%s-%d", name, n))
	}
}

// participate is what one process does, until ctx ends or it shuts down.
func participate(ctx context.Context, w *recipetest.World, c *checker, p *recipetest.Process, quiet chan struct{}, done *int) {
	d, err := NewDouble(p.M, "b", c.size)
	if err != nil {
		c.fail("NewDouble: %v", err)
		return
	}
	name, session, lost := p.Name, recipetest.SessionOf(p.M), false
	// shutsDown is for a process whose caller has given up.
	shutsDown := func() bool {
		if ctx.Err() != nil || w.N(3) > 0 {
			return false
		}
		last := recipetest.SessionOf(p.M)
		err := p.M.Shutdown(ctx)
		w.Note("%s shut down: %v", name, err)
		if err == nil && last == session && !lost {
			c.shutDown(name, session)
		}
		return true
	}
	isQuiet := func() bool {
		select {
		case <-quiet:
			return true
		default:
			return false
		}
	}
	for ctx.Err() == nil {
		w.Pause(ctx, time.Second)
		patience, cancel := context.WithCancel(ctx)
		if !isQuiet() && w.N(4) == 0 {
			patience, cancel = context.WithTimeout(ctx, w.UpTo(3*time.Second))
		}
		st, err := d.Enter(patience)
		cancel()
		if err != nil {
			if patience.Err() == nil {
				c.fail("Enter: %v", err)
			} else if shutsDown() {
				return
			}
			continue
		}
		w.Note("%s entered round %d", name, st.Round)
		c.entered(st)
		inside := time.After(w.UpTo(2 * time.Second))
		select {
		case <-st.Lost():
			w.Note("%s lost its place in round %d: %v", name, st.Round, st.Err())
			lost = true
		case <-inside:
		}
		c.leaves(st)
		patience, cancel = context.WithCancel(ctx)
		if !isQuiet() && w.N(6) == 0 {
			patience, cancel = context.WithTimeout(ctx, w.UpTo(time.Second)*time.Duration(w.N(2)))
		}
		err = st.Leave(patience)
		w.Note("%s left round %d: %v", name, st.Round, err)
		c.left(st, err)
		lost = lost || errors.Is(err, ErrLost)
		switch {
		case err == nil:
		case patience.Err() != nil && errors.Is(err, patience.Err()):
			if shutsDown() {
				cancel()
				return
			}
		case errors.As(err, new(*BrokenError)), errors.Is(err, ErrLost), patience.Err() != nil, errors.Is(err, manager.ErrUnknownOutcome):
		default:
			c.fail("Leave: %v", err)
		}
		if isQuiet() && (err == nil || errors.As(err, new(*BrokenError))) {
			c.mu.Lock()
			*done++
			c.mu.Unlock()
		}
		cancel()
	}
}
