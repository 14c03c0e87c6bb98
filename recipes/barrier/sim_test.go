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
	broken int // rounds in which members have died
}

type checkedRound struct {
	members []string
	inside  map[*Stage]bool // false: it has called Leave, or its node is known to be gone
	died    []string        // as the first that left was told; nil: none was told yet
	told    bool
}

func newChecker(size int, fail func(format string, args ...any), gone func(*Stage) bool) *checker {
	return &checker{size: size, fail: fail, gone: gone, rounds: make(map[uint64]*checkedRound)}
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

// In each seed, processes go through rounds together while faults strike: none leaves while
// another is inside, all are told the same, and no process hears later than the others that
// it has lost its place. In the end rounds go on, and nothing is left.
func TestSim(t *testing.T) {
	var rounds, broken int
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
			d, err := NewDouble(p.M, "b", size)
			if err != nil {
				w.T.Fatal(err)
			}
			all.Go(func() { simulate(ctx, w, c, p.Name, d, quiet, &done[i]) })
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
		rounds += len(c.rounds)
		broken += c.broken
	})
	t.Logf("%d rounds, %d with deaths inside", rounds, broken)
}

func total(all []int) (n int) {
	for _, i := range all {
		n += i
	}
	return n
}

// simulate is what a process does.
func simulate(ctx context.Context, w *recipetest.World, c *checker, name string, d *Double, quiet chan struct{}, done *int) {
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
			}
			continue
		}
		w.Note("%s entered round %d", name, st.Round)
		c.entered(st)
		inside := time.After(w.UpTo(2 * time.Second))
		select {
		case <-st.Lost():
			w.Note("%s lost its place in round %d: %v", name, st.Round, st.Err())
		case <-inside:
		}
		c.leaves(st)
		patience, cancel = context.WithCancel(ctx)
		if !isQuiet() && w.N(6) == 0 {
			patience, cancel = context.WithTimeout(ctx, w.UpTo(time.Second))
		}
		err = st.Leave(patience)
		w.Note("%s left round %d: %v", name, st.Round, err)
		c.left(st, err)
		switch {
		case err == nil:
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
