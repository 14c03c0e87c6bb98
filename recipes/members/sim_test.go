// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
)

// TestSim has processes join under few ids, change their data and leave, while faults
// strike. At no time do two of them have the same id. When the faults are over, all see
// the same group, and nothing is left of those who left it.
func TestSim(t *testing.T) {
	recipetest.Simulate(t, 250, simulate)
}

// A simProcess is a process of the simulation.
type simProcess struct {
	*recipetest.Process
	group *members.Group
	views *seen
}

func simulate(w *recipetest.World) {
	// Who hears late of an administrator's deletion has the id at the same time as another.
	deletes := w.N(2) == 0
	var all claims
	var processes []*simProcess
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, name := range []string{"p1", "p2", "p3"} {
		p := &simProcess{Process: w.Process(name)}
		p.group = group(w.Cluster, p.M)
		p.views = watch(ctx, p.group)
		processes = append(processes, p)
	}
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, p := range processes {
		wg.Go(func() {
			for work.Err() == nil {
				p.member(work, w, &all)
			}
		})
	}
	if !deletes {
		wg.Go(func() {
			for work.Err() == nil {
				all.check(w)
				w.Pause(work, 100*time.Millisecond)
			}
		})
	}
	w.Harm(6, 4*time.Second, func() (paths []string) {
		for _, name := range w.Srv.Children(dir) {
			if deletes {
				paths = append(paths, dir+"/"+name)
			}
		}
		return paths
	})
	stop()
	wg.Wait()

	var last []*members.Member
	for _, p := range processes {
		last = append(last, join(w.Cluster, p.group, p.Name, "last"))
	}
	for _, p := range processes {
		p.views.until(w.Cluster, "p1=last p2=last p3=last")
		wantList(w.Cluster, p.group, "p1=last p2=last p3=last")
	}
	for _, m := range last {
		recipetest.WantErr(w.T, "at the end", m.Err(), nil)
		leave(w.Cluster, m)
	}
	cancel()
	recipetest.Later(10 * time.Second)
	wantNothingLeft(w.Cluster)
}

// member is one membership, from Join to Leave.
func (p *simProcess) member(work context.Context, w *recipetest.World, all *claims) {
	id := string(rune('a' + w.N(3)))
	ctx, cancel := context.WithTimeout(work, w.UpTo(8*time.Second))
	defer cancel()
	m, err := p.group.Join(ctx, id, []byte(p.Name))
	if err != nil {
		w.Note("%s: %v", p.Name, err)
		return
	}
	w.Note("%s: joined as %s at %d", p.Name, id, m.Since())
	all.add(m, p)
	defer all.remove(m)
	w.Pause(work, 3*time.Second)
	if w.N(2) == 0 {
		err := m.Set(ctx, []byte(p.Name+"'s"))
		w.Note("%s: set as %s: %v", p.Name, id, err)
		w.Pause(work, 2*time.Second)
	}
	ctx, cancel = context.WithTimeout(context.Background(), w.UpTo(5*time.Second))
	defer cancel()
	w.Note("%s: leave as %s: %v", p.Name, id, m.Leave(ctx))
}

// claims are the memberships of all processes.
type claims struct {
	mu  sync.Mutex
	all map[*members.Member]*simProcess
}

func (c *claims) add(m *members.Member, p *simProcess) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*members.Member]*simProcess)
	}
	c.all[m] = p
}

func (c *claims) remove(m *members.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, m)
}

// check fails if two members have the same id now.
func (c *claims) check(w *recipetest.World) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, of := range c.all {
		for b := range c.all {
			since := a.Since()
			if a == b || a.ID() != b.ID() || of.Unwarned() || c.all[b].Unwarned() || a.Err() != nil || b.Err() != nil {
				continue
			}
			if a.Err() == nil && a.Since() == since { // it had the id all the time
				w.T.Errorf("%s is a member since %d, and another since %d", a.ID(), since, b.Since())
			}
		}
	}
}
