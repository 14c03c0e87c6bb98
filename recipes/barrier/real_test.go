// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/otherclients"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

var (
	numRounds = flag.Int("rounds", 16, "how many rounds the test with killed processes goes through")
	realTimes = flag.Int("times", 4, "how often tests repeat on a real server what they repeat on the embedded one; 20 is as often as there")
)

// times returns how often a test repeats what it does n times on the embedded server.
func times(c *recipetest.Cluster, n int) int {
	if c.Srv == nil {
		return min(n, *realTimes)
	}
	return n
}

// Rounds with two members in this process and one in another, which is killed inside in every
// second round. The first member leaves at once, and the second only when the third has left
// or is dead: the first must wait for it.
func TestF262_RealKilledMembers(t *testing.T) {
	t.Parallel()
	recipetest.OnReal(t, func(t *testing.T, c *recipetest.Cluster) {
		const lanes = 8
		var rounds, deaths, premature atomic.Int32
		var all sync.WaitGroup
		for i := range lanes {
			l := &lane{Cluster: *c, first: i, rounds: (*numRounds + i) / lanes, premature: &premature}
			l.Root = fmt.Sprintf("%s-%d", c.Root, i)
			short := func(cfg *manager.Config) { cfg.SessionTimeout = childTimeout }
			for j, label := range []string{"first", "second"} {
				l.managers[j] = l.Open(label, short)
				l.ours[j] = processOf(t, l.managers[j], 3).d
			}
			all.Go(func() {
				r, d := l.run()
				rounds.Add(r)
				deaths.Add(d)
			})
		}
		all.Wait()
		t.Logf("%d rounds with %d deaths inside: %d premature leaves", rounds.Load(), deaths.Load(), premature.Load())
	})
}

// A lane is a sequence of rounds.
type lane struct {
	recipetest.Cluster
	managers  [2]*manager.Manager
	ours      [2]*Double
	first     int // in odd rounds from this one on a member dies
	rounds    int
	premature *atomic.Int32
}

func (l *lane) run() (rounds, deaths int32) {
	other := startChild(l.T, l.Real.Addr(), l.Root)
	defer func() { other.kill() }()
	for i := range l.rounds {
		dies := (l.first+i)%2 == 1
		if !l.round(other, dies) {
			return rounds, deaths
		}
		if rounds++; dies {
			deaths++
			other = startChild(l.T, l.Real.Addr(), l.Root)
		}
	}
	return rounds, deaths
}

// round reports whether the test can go on.
func (l *lane) round(other *program, dies bool) bool {
	t := l.T
	second := recipetest.Begin(t, func() (*Stage, error) { return l.ours[1].Enter(t.Context()) })
	a, err := l.ours[0].Enter(t.Context())
	if err != nil {
		t.Error(err)
		return false
	}
	<-second.Done()
	b, err := second.Wait()
	if err != nil {
		t.Error(err)
		return false
	}
	if line := other.hear(); !strings.HasPrefix(line, "inside ") {
		t.Errorf("the other says %q", line)
		return false
	}
	first := leave(t, t.Context(), a)
	if dies {
		other.kill()
	} else {
		other.tell("leave")
	}
	for begun := time.Now(); ; {
		n := len(inside(&l.Cluster, l.managers[1], inPrefix))
		if n == 1 {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Errorf("%d are inside after a minute", n)
			return false
		}
		<-time.After(20 * time.Millisecond)
	}
	<-time.After(20 * time.Millisecond) // for a premature leave
	if first.Over() {
		l.premature.Add(1)
		t.Errorf("the first has left while the second is inside: %v", first.Err())
	}
	err = b.Leave(t.Context())
	<-first.Done()
	for _, err := range []error{err, first.Err()} {
		if dies {
			wantDied(t, err, "child")
		} else {
			wantDied(t, err)
		}
	}
	if dies {
		return true
	}
	if line := other.hear(); line != "left <nil>" {
		t.Errorf("the other says %q", line)
		return false
	}
	return true
}

// A gate is shared with Curator's DistributedBarrier, both ways.
func TestGateBesideCurator(t *testing.T) {
	t.Parallel()
	recipetest.OnReal(t, func(t *testing.T, c *recipetest.Cluster) {
		curator := startProgram(t, otherclients.Curator(t.Context(), t, "testdata/curator/Barriers.java", c.Real.Addr()))
		g := gateOf(t, c.Open("a"))
		ask := func(command string) {
			t.Helper()
			curator.tell(command + " " + g.path)
			if got := curator.hear(); got != command+" "+g.path {
				t.Fatalf("asked to %s, Curator says %q", command, got)
			}
		}
		const trials = 20
		for i := range trials {
			if i%2 == 0 {
				shut(t, g)
			} else {
				ask("set")
			}
			curator.tell("wait " + g.path)
			waits := waitAt(t, t.Context(), g)
			curator.silent()
			if waits.Over() {
				t.Errorf("round %d: ours did not wait: %v", i, waits.Err())
			}
			if i%4 < 2 {
				open(t, g)
				if got := curator.hear(); got != "wait "+g.path {
					t.Fatalf("we have opened, and Curator says %q", got)
				}
			} else {
				curator.tell("remove " + g.path)
				for range 2 { // the answer, and that of its waiter
					if got := curator.hear(); !strings.HasSuffix(got, g.path) {
						t.Fatalf("Curator has opened, and says %q", got)
					}
				}
			}
			wantOpened(t, waits)
		}
		t.Logf("%d times shut and opened, by each in turn: both waiters went on each time", trials)
	})
}
