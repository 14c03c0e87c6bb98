// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A generator makes the history of locks that work, with faults. Each lock is granted to
// one process after the other, or to some readers at once.
type generator struct {
	random  *rand.Rand
	header  history.Header
	events  []history.Event
	now     int64 // of the lock that is being written
	token   uint64
	ops     map[int]uint64 // by processes
	session int
	faults  int
}

// A span of time, in the generator.
const ms = int64(time.Millisecond)

// upTo returns a random duration.
func (g *generator) upTo(d int64) int64 { return g.random.Int64N(d) + 1 }

// generate makes a history of about n events.
func generate(seed uint64, n int) (history.Header, []history.Event) {
	g := &generator{random: rand.New(rand.NewPCG(seed, 1)), header: header(), ops: map[int]uint64{}}
	g.header.Begin = 1000 * ms
	locks := []history.Lock{
		{Name: "a", Mode: history.Exclusive}, {Name: "b", Mode: history.Exclusive}, {Name: "m", Mode: history.Mutex},
		{Name: "rw"}, {Name: "rw2"}, {Name: "s", Mode: history.Permit, Capacity: 3},
	}
	g.header.Locks = locks
	each := n / len(locks)
	var last int64
	for _, l := range locks {
		g.now, g.token = g.header.Begin+g.upTo(ms), 100
		for end := len(g.events) + each; len(g.events) < end; {
			switch {
			case l.Mode == history.Mutex:
				g.mutex(l)
			case l.Mode == history.Permit:
				g.permits(l)
			case l.Mode == "":
				g.readWrite(l)
			default:
				g.exclusive(l)
			}
		}
		last = max(last, g.now)
	}
	g.add(last+10_000*ms, history.Event{Kind: history.Stopping, Process: history.Harness})
	slices.SortStableFunc(g.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return g.header, g.events
}

// add adds an event.
func (g *generator) add(at int64, e history.Event) {
	e.At = at
	g.events = append(g.events, e)
}

// A member is a worker that holds a lock, as one of a process.
type member struct {
	g     *generator
	event history.Event // what its events have in common
}

// member returns a new one.
func (g *generator) member(l history.Lock, process int, mode history.Mode) member {
	g.ops[process]++
	return member{g, history.Event{Process: process, Worker: g.random.IntN(4), Op: g.ops[process], Lock: l.Name, Mode: mode}}
}

func (m member) add(at int64, kind history.Kind, change ...func(*history.Event)) {
	e := m.event
	e.Kind = kind
	for _, f := range change {
		f(&e)
	}
	m.g.add(at, e)
}

// granted adds the request, some time before from, and the grant, some time after it.
func (m *member) granted(from int64, token, turn uint64) (at int64) {
	at = from + m.g.upTo(5*ms)
	m.add(at-m.g.upTo(300*ms), history.Request)
	m.event.Token, m.event.Turn = token, turn
	m.add(at, history.Granted)
	return at
}

// leaves adds the release and its end.
func (m member) leaves(from int64) (at int64) {
	at = from + m.g.upTo(5*ms)
	m.add(at, history.Release)
	m.add(at+m.g.upTo(20*ms), history.Released)
	return at
}

// next returns the next token.
func (g *generator) next() uint64 {
	g.token += uint64(g.upTo(3))
	return g.token
}

// exclusive adds what one process does that gets the lock.
func (g *generator) exclusive(l history.Lock) {
	p, token, fate := g.random.IntN(4), g.next(), g.random.IntN(40)
	if fate == 1 {
		p = 10 + g.faults // which has no other lock, so that it does nothing while it is stopped
	}
	g.session++
	all := make([]member, 1+g.random.IntN(3))
	at := g.now
	for i := range all {
		all[i] = g.member(l, p, l.Mode)
		all[i].event.Session = fmt.Sprintf("0x%x", g.session)
		at = max(at, all[i].granted(g.now, token, 0))
	}
	if g.random.IntN(2) == 0 {
		all[0].add(at+1, history.Valid)
		all[0].add(at+2, history.Write, func(e *history.Event) { e.OK = true })
		g.add(at+2, history.Event{Kind: history.Accepted, Process: history.Harness, Lock: l.Name, Token: token})
	}
	switch fate {
	case 0: // lost, and told in time
		for _, m := range all {
			m.add(at+g.upTo(5*ms)+2, history.Lost)
		}
		g.now = at + 50*ms + g.upTo(100*ms)
		g.add(g.now-10*ms, history.Event{Kind: history.Expired, Process: history.Harness, Session: all[0].event.Session})
	case 1: // stopped, and told when it continues
		g.faults++
		fault := history.Event{Kind: history.FaultBegan, Process: history.Harness, Fault: g.faults, Text: "pause-worker", Target: fmt.Sprintf("process %d", p)}
		g.add(at+3, fault)
		lost := at + 2500*ms
		g.add(lost, history.Event{Kind: history.Expired, Process: history.Harness, Session: all[0].event.Session})
		fault.Kind, fault.OK = history.FaultEnded, true
		g.add(lost+700*ms, fault)
		for _, m := range all {
			m.add(lost+700*ms+g.upTo(300*ms), history.Lost)
		}
		g.now = lost + 1
	default:
		for _, m := range all {
			g.now = max(g.now, m.leaves(at+2))
		}
	}
}

// mutex adds what the goroutines of one process do that get the lock one after the other.
func (g *generator) mutex(l history.Lock) {
	p, token := g.random.IntN(4), g.next()
	for turn := range uint64(1 + g.random.IntN(4)) {
		m := g.member(l, p, l.Mode)
		g.now = m.leaves(m.granted(g.now, token, turn+1))
	}
}

// readWrite adds a writer, some readers, or an upgradable reader.
func (g *generator) readWrite(l history.Lock) {
	switch g.random.IntN(3) {
	case 0:
		m := g.member(l, g.random.IntN(4), history.WriteMode)
		at := m.granted(g.now, g.next(), 0)
		if g.random.IntN(2) == 0 {
			m.event.Mode = history.Read
			m.add(at+1, history.Changed)
			at = max(at, g.readers(l, at+2))
		}
		g.now = max(g.now, m.leaves(at))
	case 1:
		g.now = g.readers(l, g.now)
	case 2:
		m := g.member(l, g.random.IntN(4), history.Upgradable)
		at := max(m.granted(g.now, g.next(), 0), g.readers(l, g.now))
		for _, mode := range []history.Mode{history.WriteMode, history.Upgradable} {
			at += g.upTo(ms)
			m.event.Mode = mode
			m.add(at, history.Changed)
		}
		g.now = max(m.leaves(at), g.readers(l, at))
	}
}

// readers adds some readers, and returns when they have gone.
func (g *generator) readers(l history.Lock, from int64) (until int64) {
	for _, p := range g.random.Perm(4)[:1+g.random.IntN(4)] {
		m := g.member(l, p, history.Read)
		until = max(until, m.leaves(m.granted(from, g.next(), 0)))
	}
	return until
}

// permits adds processes that have as many permits as there are.
func (g *generator) permits(l history.Lock) {
	from, until := g.now, g.now
	for left := l.Capacity; left > 0; {
		m := g.member(l, g.random.IntN(4), l.Mode)
		m.event.Permits = 1 + g.random.IntN(left)
		left -= m.event.Permits
		until = max(until, m.leaves(m.granted(from, uint64(g.upTo(1000)), 0)))
	}
	g.now = until
}
