// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
)

const storePath = "/holdfast/store"

// Processes stand, lead, proclaim and resign while faults strike them.
func TestSim(t *testing.T) {
	recipetest.Simulate(t, 200, func(w *recipetest.World) {
		judge := newJudge(w)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		var candidates []*candidate
		for i := range 2 + w.N(3) {
			c := &candidate{judge: judge, p: w.Process(fmt.Sprintf("p%d", i))}
			c.e = newElection(w.T, c.p.M, c.p.Name)
			c.e.OnEvent(c.events.note)
			candidates = append(candidates, c)
			for range 1 + w.N(2) {
				all.Go(func() { c.stand(ctx) })
			}
		}
		watcher := w.Process("observer")
		observer := newElection(w.T, watcher.M, watcher.Name)
		watching, unwatch := context.WithCancel(context.Background())
		leaders := observer.Observe(watching)
		var told sync.WaitGroup
		told.Go(func() { judge.observe(leaders) })

		w.Harm(4+w.N(8), 2*time.Second, judge.nodes)
		w.Heal()
		stop()
		all.Wait()

		// All is well again: the next candidate is elected, and the observer told.
		last := campaign(w.T, observer)
		judge.elected(watcher, last)
		w.Until("the observer is told of the last leader", func() bool { return judge.lastTold() == last.Token() })
		resign(w.T, last)
		w.Until("the observer is told that it has resigned", func() bool { return judge.lastTold() == 0 })
		unwatch()
		told.Wait()
		recipetest.Later(30 * time.Second)
		if left := w.Srv.Children(lockDir); len(left) > 0 {
			w.T.Errorf("left: %v", left)
		}
		judge.judgeWrites()
		for _, c := range candidates {
			checkEvents(w.T, c.p.Name, c.events.all())
		}
	})
}

// A candidate is a process of the simulation that stands.
type candidate struct {
	*judge
	p *recipetest.Process
	e *election.Election

	events events
}

// stand stands over and over until ctx ends, in one of several ways.
func (c *candidate) stand(ctx context.Context) {
	for ctx.Err() == nil {
		c.w.Pause(ctx, time.Second)
		patience, cancel := context.WithTimeout(ctx, c.w.UpTo(10*time.Second))
		var err error
		switch c.w.N(3) {
		case 0:
			var l *election.Leadership
			if l, err = c.e.Campaign(patience); err == nil {
				c.lead(ctx, l)
				_ = l.Resign(context.Background())
			}
		case 1:
			l := c.e.Stand(patience)
			if _, err = l.Elected().Wait(patience); err == nil {
				c.lead(ctx, l)
			}
			_ = l.Resign(context.Background())
		case 2:
			err = c.e.Run(patience, func(ctx context.Context, l *election.Leadership) error {
				c.lead(ctx, l)
				return nil
			})
		}
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, manager.ErrUnconfirmed) {
			c.w.T.Errorf("%s: %v", c.p.Name, err)
		}
	}
}

// lead does what a leader does.
func (c *candidate) lead(ctx context.Context, l *election.Leadership) {
	c.elected(c.p, l)
	for range c.w.N(4) {
		c.w.Pause(ctx, time.Second)
		text := fmt.Sprintf("%s's %d", c.p.Name, c.w.N(1000))
		if err := l.Proclaim(ctx, []byte(text)); err == nil {
			c.w.Note("%s proclaims %s", c.p.Name, text)
		}
		results, err := l.Guard(ctx, zkio.SetOp(storePath, nil, -1))
		if err == nil {
			c.wrote(results[0].Stat.Mzxid, l.Token())
		}
	}
	c.w.Note("%s leaves, token %d: %v", c.p.Name, l.Token(), l.Err())
}

// A judge notes what happens in a simulation, and says what must not.
type judge struct {
	w *recipetest.World

	mu      sync.Mutex // protects what follows
	terms   map[uint64]*term
	highest uint64
	writes  []write
	told    uint64 // the token of the last leader that the observer was told of
}

// A term is what the judge knows about one.
type term struct {
	process string
	node    string
	session int64
	l       *election.Leadership
}

type write struct {
	zxid  int64
	token uint64
}

func newJudge(w *recipetest.World) *judge {
	if err := w.Srv.CreateAll(storePath, nil); err != nil {
		w.T.Fatal(err)
	}
	return &judge{w: w, terms: make(map[uint64]*term)}
}

// elected notes that l was elected in the process.
func (j *judge) elected(p *recipetest.Process, l *election.Leadership) {
	j.mu.Lock()
	defer j.mu.Unlock()
	process, token := p.Name, l.Token()
	j.w.Note("%s leads, token %d: %v", process, token, l.Err())
	leads := func() bool { return !p.Unwarned() && l.Err() == nil } // in this order: it may hear of it just now
	if known := j.terms[token]; known != nil {
		if known.process != process {
			j.w.T.Errorf("%s and %s lead with the token %d", known.process, process, token)
		}
		return
	}
	if token < j.highest && leads() {
		j.w.T.Errorf("%s leads with the token %d, after %d", process, token, j.highest)
	}
	j.highest = max(j.highest, token)
	var node string
	var session int64
	for _, name := range j.w.Srv.Children(lockDir) {
		if _, stat, _ := j.w.Srv.Get(lockDir + "/" + name); uint64(stat.Czxid) == token {
			node, session = lockDir+"/"+name, stat.EphemeralOwner
		}
	}
	for _, other := range j.terms {
		if other.process != process && other.l.Err() == nil && leads() && !j.endedByForce(other) {
			j.w.T.Errorf("%s leads, and %s does so still", process, other.process)
		}
	}
	j.terms[token] = &term{process: process, node: node, session: session, l: l}
}

// endedByForce reports whether an administrator ended the term, or its session: then its
// process learns of it when the news arrive.
func (j *judge) endedByForce(t *term) bool {
	for _, e := range j.w.Srv.Expired() {
		if e.Session == t.session {
			return e.Forced
		}
	}
	return !j.w.Srv.Exists(t.node)
}

// wrote notes a guarded write of the leader with this token.
func (j *judge) wrote(zxid int64, token uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writes = append(j.writes, write{zxid, token})
}

// judgeWrites checks that the terms do not overlap in ZooKeeper's order.
func (j *judge) judgeWrites() {
	slices.SortFunc(j.writes, func(a, b write) int { return cmp.Compare(a.zxid, b.zxid) })
	if !slices.IsSortedFunc(j.writes, func(a, b write) int { return cmp.Compare(a.token, b.token) }) {
		j.w.T.Errorf("a leader has written after its successor: %v", j.writes)
	}
}

// observe checks what an observer is told.
func (j *judge) observe(leaders <-chan election.Leader) {
	var highest uint64
	for l := range leaders {
		j.w.Note("observer: %d %s %q", l.Token, l.ID, l.Data)
		if l.Err != nil {
			j.w.T.Error(l.Err)
		}
		if l.Token != 0 && (l.Token < highest || l.ID == "") {
			j.w.T.Errorf("the observer is told %+v, after the token %d", l, highest)
		}
		highest = max(highest, l.Token)
		j.mu.Lock()
		if t := j.terms[l.Token]; t != nil && t.process != l.ID {
			j.w.T.Errorf("the observer is told that %s leads with the token of %s", l.ID, t.process)
		}
		j.told = l.Token
		j.mu.Unlock()
	}
}

func (j *judge) lastTold() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.told
}

// nodes returns the nodes of the candidates.
func (j *judge) nodes() []string {
	synctest.Wait()
	var paths []string
	for _, name := range j.w.Srv.Children(lockDir) {
		paths = append(paths, lockDir+"/"+name)
	}
	return paths
}
