// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

var curatorGrants = flag.Int("curatorgrants", 200, "how many grants there are beside Curator")

// A curator is a program whose clients use Curator's semaphore: see testdata/curator.
type curator struct {
	t *testing.T
	*otherclients.Program
}

// tell sends a client a command and does not wait for the answer.
func (o *curator) tell(client, command string) {
	if err := o.Tell(client, command); err != nil {
		o.t.Error(err)
	}
}

// hear returns a client's next answer.
func (o *curator) hear(client string) string {
	select {
	case answer := <-o.Answers(client):
		return answer
	case <-time.After(time.Minute):
		return "nothing for a minute"
	}
}

func (o *curator) ask(client, command, want string) {
	o.t.Helper()
	o.tell(client, command)
	o.want(client, want)
}

func (o *curator) want(client, want string) {
	o.t.Helper()
	if got := o.hear(client); got != want {
		o.t.Fatalf("%s says %q, want %q", client, got, want)
	}
}

// silent checks that a client has nothing to say, as far as one can tell.
func (o *curator) silent(client string) {
	o.t.Helper()
	select {
	case got := <-o.Answers(client):
		o.t.Errorf("%s says %q", client, got)
	case <-time.After(200 * time.Millisecond):
	}
}

// A referee counts permits in use.
type referee struct {
	t *testing.T
	n int

	mu                  sync.Mutex // protects what follows
	used, most, entries int
}

func (r *referee) enter(w int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries++
	r.used += w
	r.most = max(r.most, r.used)
	if r.used > r.n {
		r.t.Errorf("%d of %d permits are in use", r.used, r.n)
	}
}

func (r *referee) leave(w int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= w
}

func TestCurator(t *testing.T) {
	t.Parallel()
	o := &curator{t, otherclients.Start(t, otherclients.Curator(context.Background(), t, "testdata/curator/Permits.java", realzk.Shared(t).Addr()))}
	t.Run("together", func(t *testing.T) { recipetest.OnReal(t, o.together) })
	t.Run("in turns", func(t *testing.T) { recipetest.OnReal(t, o.inTurns) })
}

// Two processes of ours and three clients of Curator's share a semaphore, and a referee
// counts.
func (o *curator) together(t *testing.T, c *recipetest.Cluster) {
	const permits = 4
	users := []user{open(c, "a", permits), open(c, "b", permits)}
	theirs := []string{"x", "y", "z"}
	unlock(t, users[0].lock(1))
	ref := &referee{t: t, n: permits}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*curatorGrants)*100*time.Millisecond)
	defer cancel()
	for _, client := range theirs {
		o.ask(client, fmt.Sprintf("open %s %d", users[0].dir, permits), fmt.Sprintf("opened %d", permits))
	}
	each := max(1, *curatorGrants/2/len(theirs))
	start := time.Now()
	var wg sync.WaitGroup
	for _, client := range theirs {
		wg.Go(func() {
			o.tell(client, fmt.Sprintf("loop %d", each))
			for {
				switch answer := o.hear(client); answer {
				case "enter":
					ref.enter(1)
				case "leave":
					ref.leave(1)
				case "done":
					return
				default:
					t.Errorf("%s says %q", client, answer)
					return
				}
				o.tell(client, "ok")
			}
		})
	}
	for g := range 4 {
		u := users[g%len(users)]
		wg.Go(func() {
			for n := range max(1, (*curatorGrants-len(theirs)*each+3)/4) {
				p, err := u.Lock(ctx, 1+(g+n)%3)
				if err != nil {
					t.Error(err)
					return
				}
				ref.enter(p.Weight())
				_, err = u.State(ctx) // some work
				ref.leave(p.Weight())
				recipetest.WantErr(t, "state", err, nil)
				recipetest.WantErr(t, "unlock", p.Unlock(ctx), nil)
			}
		})
	}
	wg.Wait()
	t.Logf("%d grants in %v, %d of them Curator's; at most %d of %d permits in use", ref.entries, time.Since(start).Round(time.Millisecond), len(theirs)*each, ref.most, permits)
	users[0].wantNothing(permits)
}

// Either side waits for the other's permits, in order, and takes the other's number.
func (o *curator) inTurns(t *testing.T, c *recipetest.Cluster) {
	a := open(c, "a", 2)
	p := a.lock(2)
	for _, client := range []string{"x", "y"} {
		o.ask(client, "open "+a.dir+" 7", "opened 2") // the number in ZooKeeper counts
	}
	o.tell("x", "acquire")
	a.wantState(2, 3, 1)
	o.silent("x")
	recipetest.WantErr(t, "trylock", recipetest.ErrOf(a.TryLock(t.Context(), 1)), ErrNoPermits)
	q := a.Acquire(t.Context(), 2)
	a.wantState(2, 3, 2)
	unlock(t, p)
	o.want("x", "acquired")
	a.wantState(2, 3, 1)
	a.pending(q)
	o.ask("x", "resize 3", "resized")
	a.granted(q)

	o.tell("y", "acquire")
	a.wantState(3, 4, 1)
	o.silent("y")
	recipetest.WantErr(t, "resize", a.Resize(t.Context(), 4), nil)
	o.want("y", "acquired")
	unlock(t, q)
	o.ask("x", "return", "returned")
	o.ask("y", "return", "returned")
	a.wantNothing(4)
}
