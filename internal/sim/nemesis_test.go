// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A nemesis lets faults strike, until there were as many as planned; then it
// heals everything, and nobody has an excuse any more for waiting.
type nemesis struct {
	w   *world
	rng *rand.Rand
}

func newNemesis(w *world) *nemesis {
	return &nemesis{w: w, rng: rand.New(rand.NewPCG(w.plan.seed, 3))}
}

func (n *nemesis) run() {
	// A plan has its favourites, so that some faults come close together.
	favourites := n.rng.Perm(len(faults))[:4]
	for n.w.struck.Load() < int64(n.w.plan.faults) || n.w.kinds() < 3 {
		<-time.After(n.upTo(120 * time.Millisecond))
		i := n.rng.IntN(len(faults))
		if n.rng.IntN(2) == 0 {
			i = pick(n.rng, favourites...)
		}
		if kinds := n.w.plan.faulty; len(kinds) > 0 && n.rng.IntN(3) > 0 {
			kind := pick(n.rng, kinds...)
			i = slices.IndexFunc(faults, func(f fault) bool { return f.kind == kind })
		}
		f := faults[i]
		if n.rng.IntN(f.rarity) == 0 && f.strike(n) {
			n.w.strike(f.kind)
		}
	}
	<-time.After(n.outage())
	n.w.heal()
}

// upTo returns a random time of at most d.
func (n *nemesis) upTo(d time.Duration) time.Duration {
	return n.w.plan.upTo(n.rng, d)
}

// A fault is a kind of fault.
type fault struct {
	kind   string
	rarity int                   // it strikes once in so many times
	strike func(n *nemesis) bool // reports whether there was anything to strike
}

var faults = []fault{
	{"drop reply", 1, func(n *nemesis) bool { n.faults().DropReply(n.match()); return true }},
	{"drop request", 1, func(n *nemesis) bool { n.faults().DropRequest(n.match()); return true }},
	{"delay reply", 1, func(n *nemesis) bool {
		n.faults().DelayReply(n.match(), n.upTo(pick(n.rng, 20*time.Millisecond, time.Second, n.w.plan.timeout)))
		return true
	}},
	{"cut", 1, func(n *nemesis) bool { return n.faults().Cut(n.session()) }},
	{"cut all", 4, func(n *nemesis) bool { return n.faults().CutAll() > 0 }},
	{"silence", 3, func(n *nemesis) bool {
		hole := n.faults().Blackhole(n.session())
		now := time.Now()
		n.w.silence.Store(&now)
		time.AfterFunc(n.outage(), hole.Remove)
		return true
	}},
	{"silent connection", 2, func(n *nemesis) bool {
		hole := n.faults().BlackholeConnection(n.session())
		time.AfterFunc(n.outage(), hole.Remove)
		return true
	}},
	{"silence of all", 8, func(n *nemesis) bool {
		hole := n.faults().BlackholeAll()
		time.AfterFunc(n.outage()/2, hole.Remove)
		return true
	}},
	{"refuse all", 8, func(n *nemesis) bool {
		n.faults().RefuseFor(n.outage())
		return n.faults().CutAll() > 0
	}},
	{"refuse a process", 3, func(n *nemesis) bool {
		pr := pick(n.rng, n.w.procs...)
		pr.refused.Store(true)
		time.AfterFunc(n.outage(), func() { pr.refused.Store(false) })
		return n.faults().Cut(n.session())
	}},
	{"restart", 4, func(n *nemesis) bool { n.w.srv.Restart(); return true }},
	{"stop and start", 8, func(n *nemesis) bool {
		n.w.srv.Stop()
		time.AfterFunc(n.outage(), n.w.srv.Start)
		return true
	}},
	{"a follower that lags", 1, func(n *nemesis) bool {
		lag := n.faults().Lag(pick(n.rng, 1, 3, 10, -1), n.session())
		time.AfterFunc(n.outage(), lag.Remove)
		return true
	}},
	{"late requests", 1, func(n *nemesis) bool {
		hold := n.faults().BlockRequests(n.session())
		time.AfterFunc(n.upTo(n.w.plan.timeout/4), hold.Remove)
		return true
	}},
	{"late replies", 1, func(n *nemesis) bool {
		hold := n.faults().BlockReplies(n.session())
		time.AfterFunc(n.upTo(n.w.plan.timeout/4), hold.Remove)
		return true
	}},
	{"end a session", 6, func(n *nemesis) bool {
		id := n.session()
		n.w.ref.sin(sessionName(id))
		n.w.log("nemesis", "end session %#x", id)
		return n.w.srv.ExpireSession(id)
	}},
	{"delete a node", 3, func(n *nemesis) bool {
		path := n.node()
		if path == "" {
			return false
		}
		n.w.ref.sin(path)
		n.w.log("nemesis", "delete %s", name(path))
		return n.w.srv.Delete(path) == nil
	}},
	{"write into a node", 2, func(n *nemesis) bool {
		path := n.node()
		return path != "" && n.w.srv.Set(path, []byte("somebody was here")) == nil
	}},
	{"delete an empty directory", 2, func(n *nemesis) bool {
		return n.w.srv.Delete(root+"/"+pick(n.rng, jobs, more, table)) == nil
	}},
}

func (n *nemesis) faults() *zktest.Faults { return n.w.srv.Faults() }

func (n *nemesis) session() int64 { return n.w.session(n.rng) }

// outage returns how long something lasts that sessions may survive or not.
func (n *nemesis) outage() time.Duration {
	if n.rng.IntN(3) == 0 {
		return n.upTo(2 * n.w.plan.timeout)
	}
	return n.upTo(n.w.plan.timeout / 2)
}

// match selects a request that is likely to come soon.
func (n *nemesis) match() zktest.Match {
	ops := []zktest.Op{zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpDelete, zktest.OpGetChildren2, zktest.OpGetData,
		zktest.OpSync, zktest.OpCreate, zktest.OpCreateContainer, zktest.OpConnect, zktest.OpSetWatches, 0}
	m := zktest.Match{Op: pick(n.rng, ops...), Nth: 1 + n.rng.IntN(3), Times: 1 + n.rng.IntN(2)}
	if n.rng.IntN(2) == 0 && m.Op != zktest.OpConnect {
		m.Session = n.session()
	}
	return m
}

// node returns the path of some contender's node, or "".
func (n *nemesis) node() string {
	var nodes []string
	for _, path := range n.w.srv.Nodes() {
		if strings.Contains(path, "/_c_") {
			nodes = append(nodes, path)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return pick(n.rng, nodes...)
}
