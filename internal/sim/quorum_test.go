// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// In one of three simulations the processes have an ensemble of servers, which are cut off from
// each other, elect leaders, stop, and pass things on late. What a process is told of a server that
// is cut off counts for nothing at the others, and its session may be ended while all that it asks
// is answered. Its lease must be over by then: the referee looks at that whenever the end of a
// session is committed.
//
// A lease that is too long by a part of a tick is found only if the server is cut off right after
// the write that it rests on, and if a lock is held until it is lost. So one fault waits for such
// a write, and in half of these simulations holders stay.

// A quorum is what the seed decides about the servers.
type quorum struct {
	servers, observers int
	relayed            bool
	syncLimit          int
	stay               bool // holders stay, so that what is cut off has only the lease
	seed               uint64
}

// newQuorum returns the quorum of a seed. Those that have a single server are as they would be
// without this file.
func newQuorum(seed uint64) quorum {
	rng := rand.New(rand.NewPCG(seed, 60))
	if rng.IntN(3) > 0 {
		return quorum{servers: 1}
	}
	return quorum{
		servers:   pick(rng, 3, 3, 3, 5),
		observers: pick(rng, 0, 0, 0, 1),
		relayed:   rng.IntN(2) == 0,
		syncLimit: pick(rng, 5, 10, 20),
		stay:      rng.IntN(2) == 0,
		seed:      seed,
	}
}

// chained reports whether an observer follows a server that follows the leader. A lease is
// too long there if the link of these two fails in one direction, and then in the other, or if a
// server that is cut off comes back just before the leader ends its sessions: see
// docs/zookeeper.md.
func (q quorum) chained() bool { return q.relayed && q.observers > 0 }

// start starts the servers.
func (q quorum) start(cfg zktest.Config) *zktest.Ensemble {
	return zktest.NewEnsemble(zktest.EnsembleConfig{
		Config: cfg, Servers: q.servers, Observers: q.observers, Relayed: q.relayed, SyncLimit: q.syncLimit, Seed: q.seed,
	})
}

// adapt adapts the plan of a seed with several servers.
func (q quorum) adapt(p *plan) {
	if q.servers == 1 {
		return
	}
	least := 2 * p.tick
	if q.chained() {
		least = 4 * p.tick // see leaseTracker
	}
	p.timeout = max(p.timeout, least)
	if q.stay {
		if p.stingy = q.seed%2 == 0; p.stingy {
			p.timeout = max(least, time.Second)
			p.workers, p.pause = 1, p.timeout
			p.margin, p.stall = min(p.margin, p.timeout/10), min(p.stall, p.timeout/50)
		}
		p.long, p.ops, p.faults, p.quiet = 2, p.ops/4, 10, 2*p.timeout
	}
}

// addresses returns the addresses of the servers that a process knows. Where holders stay, that
// is one: the process is cut off together with its server.
func (q quorum) addresses(e *zktest.Ensemble, label string) []string {
	all := e.Addresses()
	if !q.stay {
		return all
	}
	i := int(label[len(label)-1]) % len(all)
	return all[i : i+1]
}

// linkFaults are those of the network between two servers. The last one is what the terms w and p
// of the lease rule are for: see docs/zookeeper.md.
var linkFaults = []fault{
	{"two servers are cut off from each other", 2, func(n *nemesis) bool {
		a, b := n.pair()
		n.w.ens.CutLink(a, b)
		time.AfterFunc(n.outage(), n.w.ens.Heal)
		return true
	}},
	{"a slow link", 2, func(n *nemesis) bool {
		a, b := n.pair()
		n.w.ens.SlowLink(a, b, n.upTo(pick(n.rng, 5*time.Millisecond, 50*time.Millisecond, n.w.plan.tick)))
		time.AfterFunc(n.outage(), func() { n.w.ens.SlowLink(a, b, 0) })
		return true
	}},
	{oneWay, 1, (*nemesis).failOneWay},
}

// oneWay is the kind of the fault in which a server hears nothing of its leader, but for what
// answers a client's write, and then the leader nothing of the server.
const oneWay = "a link fails in one direction, then in the other"

// failOneWay picks a process whose server follows the leader, and has it write late in the first
// of the two failures, as a process does that has more to do than to hold locks.
func (n *nemesis) failOneWay() bool {
	leader, timeout := n.w.ens.Leader(), n.w.plan.timeout
	s := pick(n.rng, n.w.procs...).manager().Access().Session()
	server := n.serverOf(s.ID())
	if leader == 0 || server == 0 || server == leader {
		return false
	}
	lasts, then := timeout/3+n.upTo(timeout/6), n.upTo(timeout/50)
	n.w.ens.Deafen(server, leader)
	n.strangers.Go(func() {
		<-after(lasts)
		n.strangers.Go(func() { _, _ = s.Set(root, nil, -1) })
		<-after(then)
		n.w.ens.Deafen(leader, server)
		<-after(timeout + n.w.plan.tick)
		n.w.ens.Heal()
	})
	return true
}

// serverFaults are those of whole servers. The last one waits for a write.
var serverFaults = []fault{
	{"a server is cut off from the others", 2, func(n *nemesis) bool {
		n.isolate(1 + n.rng.IntN(len(n.w.servers)))
		return true
	}},
	{"the leader is cut off from the others", 2, func(n *nemesis) bool {
		leader := n.w.ens.Leader()
		if leader > 0 {
			n.isolate(leader)
		}
		return leader > 0
	}},
	{"a server is paused", 2, func(n *nemesis) bool {
		server := 1 + n.rng.IntN(len(n.w.servers))
		n.w.ens.Pause(server)
		time.AfterFunc(n.outage(), func() { n.w.ens.Resume(server) })
		return true
	}},
	{"the leader is stopped", 2, func(n *nemesis) bool {
		leader := n.w.ens.Leader()
		if leader == 0 {
			return false
		}
		n.w.servers[leader-1].Stop()
		time.AfterFunc(n.outage(), n.w.servers[leader-1].Start)
		return true
	}},
	{cutOff, 1, func(n *nemesis) bool {
		timeout := n.w.plan.timeout
		lasts := n.untilAfter(timeout + n.outage())
		a := &ambush{
			silence: pick(n.rng, 0, timeout/6, timeout/4),
			after:   time.Duration(n.rng.Int64N(int64(n.w.plan.tick/2) + 1)),
			strike: func(server int) {
				n.w.log("nemesis", "server %d is cut off after a write", server)
				n.w.ens.Isolate(server)
				time.AfterFunc(lasts, n.w.ens.Heal)
				n.w.strike(cutOff)
			},
		}
		if n.rng.IntN(2) == 0 {
			n.ambush.Store(a)
			return false
		}
		// Its requests are late, so that the leader hears of none of them before the cut.
		id, f := n.session()
		late := f.BlockRequests(id)
		a.silence, a.after, a.spread = timeout/3, a.after/4, pick(n.rng, 0, 0, timeout/8)
		time.AfterFunc(timeout/3+n.upTo(timeout/3), func() {
			n.ambush.Store(a)
			late.Remove()
		})
		return false
	}},
}

// cutOff is the kind of the fault that waits for a write: see asked.
const cutOff = "a server is cut off right after a write"

// ofQuorum lets a fault of several servers strike, if there are several and its turn has come.
func (n *nemesis) ofQuorum() bool {
	if len(n.w.servers) == 1 || n.rng.IntN(2) == 0 {
		return false
	}
	faults, last := serverFaults, serverFaults[len(serverFaults)-1:]
	if !n.w.plan.quorum.chained() {
		faults, last = slices.Concat(linkFaults, serverFaults), slices.Concat(linkFaults[len(linkFaults)-1:], last)
	}
	f := pick(n.rng, faults...)
	if n.w.plan.quorum.stay && n.rng.IntN(2) == 0 {
		f = pick(n.rng, last...)
	}
	if n.rng.IntN(f.rarity) == 0 && f.strike(n) {
		n.w.strike(f.kind)
	}
	return true
}

// isolate cuts a server off, most often for so long that the sessions of its clients end.
func (n *nemesis) isolate(server int) {
	n.w.ens.Isolate(server)
	outage := n.outage()
	if n.rng.IntN(3) > 0 {
		outage += n.w.plan.timeout
	}
	time.AfterFunc(n.untilAfter(outage), n.w.ens.Heal)
}

// untilAfter returns for how long a server is cut off. Where it must not come back just before
// its sessions end, that is until after their end.
func (n *nemesis) untilAfter(d time.Duration) time.Duration {
	if n.w.plan.quorum.chained() {
		d += 2 * n.w.plan.timeout
	}
	return d
}

// pair returns two servers.
func (n *nemesis) pair() (a, b int) {
	p := n.rng.Perm(len(n.w.servers))
	return p[0] + 1, p[1] + 1
}

// An ambush waits for a write of a session, and strikes the server of that after the write. The
// write comes after a silence, but for some requests of which the first was spread or longer ago.
type ambush struct {
	silence, spread time.Duration

	after  time.Duration // how long after the write it strikes
	strike func(server int)
}

// A burst is when a session has made its last request, the first of those that were made in one
// burst with that, and the one before.
type burst struct{ last, first, before time.Time }

// asked is called when a session is about to make a request.
func (n *nemesis) asked(session int64, op zktest.Op) {
	now := time.Now()
	b := burst{now, now, now}
	if v, ok := n.heard.Load(session); ok {
		if b = v.(burst); now.Sub(b.last) > n.w.plan.timeout/6 {
			b.before, b.first = b.last, now
		}
		b.last = now
	}
	n.heard.Store(session, b)
	a := n.ambush.Load()
	switch {
	case a == nil, op != zktest.OpMulti && op != zktest.OpSetData,
		b.first.Sub(b.before) < a.silence, now.Sub(b.first) < a.spread:
		return
	}
	if server := n.serverOf(session); server > 0 && n.ambush.CompareAndSwap(a, nil) {
		time.AfterFunc(a.after, func() {
			if !n.peace.Load() {
				a.strike(server)
			}
		})
	}
}

// serverOf returns the server of a session; 0 if it has none.
func (n *nemesis) serverOf(session int64) int {
	sessions := n.w.srv.Sessions()
	if i := slices.IndexFunc(sessions, func(s zktest.SessionInfo) bool { return s.ID == session }); i >= 0 {
		return sessions[i].Server
	}
	return 0
}

// expired is called when the end of a session is committed: the lease of the process that has it
// must be over.
func (r *referee) expired(e zktest.Expiry) {
	if e.Forced {
		return
	}
	for _, pr := range r.w.procs {
		if s := pr.manager().Access().Session(); s.ID() == e.Session && s.Lease().InForce() {
			r.w.fail("session %#x of %s has ended, and its lease is in force for another %v", e.Session, pr.label, s.Lease().Remaining())
		}
	}
	r.w.did("end of a session judged")
}

// manager returns the process's present manager.
func (pr *process) manager() *manager.Manager {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.m
}
