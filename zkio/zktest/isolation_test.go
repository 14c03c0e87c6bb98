// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The timing of the ensembles in these tests.
const (
	ensembleTick = 500 * time.Millisecond
	halfTick     = ensembleTick / 2
	limit        = 10 * ensembleTick // for how long a server waits for news of its leader
	timeout      = 4 * time.Second   // of sessions
	interval     = 50 * time.Millisecond
)

// An isolation is something that happens to the leader of three servers, or to a follower, and
// what its clients notice of it. Times count from then.
type isolation struct {
	name   string
	what   func(c cluster, leader, on int)
	leader bool // the clients are the leader's, or else a follower's
	served span // the last answers to pings and reads
	synced bool // syncs are answered as long as those; writes never are
	ended  span // the clients' connections

	// elected is when a new leader serves. It ends the clients' sessions between a timeout and a
	// tick more after that. If there is none, the leader from which their server is cut off ends
	// them; see endedByLeader.
	elected span
}

type span struct{ from, to time.Duration }

// never is the last answer before the fault.
var never = span{-2 * interval, 0}

var isolations = []isolation{
	{ // It hears of its leader each half tick, at least.
		name:   "a follower cut off from its leader",
		what:   func(c cluster, _, on int) { c.isolate(on) },
		served: span{limit - halfTick - interval, limit},
		ended:  span{limit - halfTick, limit + interval},
	},
	{ // It looks once a tick whether it has heard of a quorum. It asks none before it answers a sync.
		name:    "a leader cut off from its followers",
		what:    func(c cluster, leader, _ int) { c.isolate(leader) },
		leader:  true,
		served:  span{limit - 2*interval, limit + ensembleTick},
		synced:  true,
		ended:   span{limit - interval, limit + ensembleTick},
		elected: span{limit - halfTick, limit + ensembleTick},
	},
	{
		name:    "a leader killed",
		what:    func(c cluster, leader, _ int) { c.kill(leader) },
		served:  never,
		ended:   span{0, interval},
		elected: span{0, 2 * ensembleTick},
	},
}

// endedByLeader reports whether a session, on a server that is cut off from the leader, ended in
// time: a timeout and at most one and a half ticks after a sign of life. It counts for the leader
// when it is told of it, which is each half tick. So what comes in the last half tick before the
// cut may count, or the sign of life before it.
func endedByLeader(l *lifeline, slack time.Duration) bool {
	in := func(sign time.Duration) bool {
		age := l.ended - sign
		return age > timeout && age <= timeout+3*halfTick+slack
	}
	return in(l.last) || l.last > -halfTick-slack && in(l.before)
}

// A cluster is an ensemble of three servers, which are numbered from 1.
type cluster struct {
	dial    func(server int) (net.Conn, error)
	isolate func(server int)
	kill    func(server int)
}

// client opens a session at a server, on a connection that sends nothing by itself.
func (c cluster) client(t *testing.T, server int) (p *peer, opened bool) {
	p = newRecord(t, func(string) (net.Conn, error) { return c.dial(server) }).peer("A")
	p.base = 0
	return p, strings.HasPrefix(p.do("connect timeout="+timeout.String()), "S1 ")
}

// A lifeline is a session's: its signs of life before the fault, and its end.
type lifeline struct {
	path         string // of its node
	before, last time.Duration
	ended        time.Duration
}

// A probe asks the same all the time, of a server that something happens to.
type probe struct {
	verb            string
	answered, ended time.Duration // the last request that was answered, and the end of the connection
}

// try has something happen to an ensemble, and reports what is not as it should be. slack is by
// how much a real machine may be late. It returns how many sessions' last sign of life did not
// count.
func (iso isolation) try(t *testing.T, c cluster, leader int, rnd *rand.Rand, slack time.Duration) (lost int) {
	on, witness := leader%3+1, leader // the clients' server, and one where the end of their sessions is seen
	switch {
	case iso.leader:
		on, witness = witness, on
	case iso.elected != (span{}):
		witness = on
	}
	fault := time.Now().Add(2500 * time.Millisecond) // when it happens
	since := func() time.Duration { return time.Since(fault) }
	client := func(path string, flags int) *peer {
		p, opened := c.client(t, on)
		if result := p.do(fmt.Sprintf("code create %q flags=%d", path, flags)); !opened || result != "0" {
			t.Fatalf("a session at server %d, and a node: %s", on, result)
		}
		p.patience = 2 * limit
		return p
	}
	const closed = "connection closed"

	var running sync.WaitGroup
	var lines []*lifeline
	for i := range 10 {
		l := &lifeline{path: fmt.Sprintf("/%x", rnd.Uint64())}
		p := client(l.path, 1)
		l.before = since()
		lines = append(lines, l)
		last, at := "ping", -time.Duration(i)*3*halfTick/4-interval/2
		if i >= 5 {
			last, at = fmt.Sprintf("code setData %q", l.path), -time.Duration(i-5)*halfTick/3-interval/2
		}
		running.Go(func() {
			if i >= 5 {
				time.Sleep(time.Until(fault) - 1400*time.Millisecond)
				l.before = since()
				p.do("ping")
			}
			time.Sleep(time.Until(fault) + at)
			l.last = since()
			for result := p.do(last); result != closed; result = p.do("ping") {
				time.Sleep(timeout / 3)
			}
		})
	}
	var probes []*probe
	for _, verb := range []string{"ping", "exists", "sync", "setData"} {
		path := fmt.Sprintf("/%x", rnd.Uint64())
		p, probed := client(path, 0), &probe{verb: verb}
		probes = append(probes, probed)
		running.Go(func() {
			for sent := since(); p.do(fmt.Sprintf("brief %s %q", verb, path)) != closed; sent = since() {
				probed.answered = sent
				time.Sleep(interval)
			}
			probed.ended = since()
		})
	}
	time.Sleep(time.Until(fault))
	iso.what(c, leader, on)

	// The witness watches the sessions' nodes, and again whenever it has lost its connection.
	var elected time.Duration
	for left := len(lines); left > 0 && since() < limit+2*timeout; {
		w, opened := c.client(t, witness)
		if !opened {
			time.Sleep(interval / 2)
			continue
		}
		if elected == 0 {
			elected = since()
		}
		for _, l := range lines {
			w.do(fmt.Sprintf("code exists %q watch", l.path))
		}
		w.patience = timeout / 4
		for end := ""; end != closed && left > 0; {
			for _, l := range lines {
				if l.ended == 0 && strings.Contains(w.text.String(), l.path) {
					l.ended = since()
					left--
				}
			}
			if end = w.do("events 1"); end == "nothing" {
				end = w.do("ping")
			}
		}
	}
	running.Wait()
	check := func(what string, got time.Duration, want span) {
		if got < want.from-slack || got > want.to+slack {
			t.Errorf("%s: %v after the fault, want between %v and %v", what, got, want.from, want.to)
		}
	}
	for _, p := range probes {
		served, ended := iso.served, iso.ended
		if p.verb == "setData" || p.verb == "sync" && !iso.synced {
			served = never
			ended.from = min(ended.from, timeout) // a real server closes a connection that is idle
		}
		check("the last answer to "+p.verb, p.answered, served)
		check("the end of the connection that asks "+p.verb, p.ended, ended)
	}
	if iso.elected != (span{}) {
		check("a new leader", elected, iso.elected)
	}
	for i, l := range lines {
		if l.ended <= l.last+timeout {
			lost++
		}
		if iso.elected != (span{}) {
			check(fmt.Sprintf("the end of session %d", i), l.ended, span{elected + timeout - ensembleTick/4, elected + timeout + ensembleTick})
		} else if !endedByLeader(l, slack) {
			t.Errorf("session %d ended %v after the fault; its last signs of life were at %v and %v", i, l.ended, l.before, l.last)
		}
	}
	return lost
}

// TestIsolation has the embedded ensemble keep to what real ones do.
func TestIsolation(t *testing.T) {
	for _, iso := range isolations {
		t.Run(iso.name, func(t *testing.T) {
			t.Parallel()
			lost := 0
			for seed := range uint64(racing.Fewer(100)) {
				synctest.Test(t, func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(seed, 0))
					e := newEnsemble(t, zktest.EnsembleConfig{Seed: seed, SyncLimit: int(limit / ensembleTick)})
					time.Sleep(time.Duration(rnd.Int64N(int64(ensembleTick))))
					lost += iso.try(t, cluster{
						dial:    func(n int) (net.Conn, error) { return e.Server(n).Dial(context.Background(), "", "zk") },
						isolate: func(n int) { e.Isolate(n) },
						kill:    func(n int) { e.Server(n).Stop() },
					}, e.Leader(), rnd, time.Millisecond)
				})
				if t.Failed() {
					t.Fatalf("seed %d failed", seed)
				}
			}
			if (lost > 0) != (iso.elected == (span{})) {
				t.Errorf("the last sign of life of %d sessions did not count", lost)
			}
		})
	}
}

// TestIsolationReal has a real one do the same. A busy machine is late by up to a tick. Before
// ZooKeeper 3.6 a write that waits stops all of a server's clients (ZOOKEEPER-2024).
func TestIsolationReal(t *testing.T) {
	t.Parallel()
	e := realzk.StartEnsemble(t, 3, realzk.TickTime(ensembleTick), realzk.ConfigLine(fmt.Sprintf("syncLimit=%d", limit/ensembleTick)))
	servers := e.Servers()
	for seed, iso := range isolations {
		t.Run(iso.name, func(t *testing.T) {
			if realzk.Before(t, "3.6") {
				iso.served, iso.synced = never, false
			}
			leader := e.Settled()
			defer func() { e.Heal(); leader.Restart(); e.Settled() }()
			iso.try(t, cluster{
				dial:    func(n int) (net.Conn, error) { return net.Dial("tcp", servers[n-1].Addr()) },
				isolate: func(n int) { e.Isolate(servers[n-1]) },
				kill:    func(n int) { servers[n-1].Kill() },
			}, slices.Index(servers, leader)+1, rand.New(rand.NewPCG(uint64(seed), 0)), ensembleTick)
		})
	}
}
