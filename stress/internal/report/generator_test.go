// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A scenario is a synthetic history with its verdict.
type scenario struct {
	header  history.Header
	verdict verdict.Verdict
	log     []history.Event
}

func (s scenario) events() iter.Seq[history.Event] { return slices.Values(s.log) }

// A plan says what a scenario has.
type plan struct {
	processes, workers, locks int
	duration                  time.Duration
	faults                    int
	violation                 bool
	think                     time.Duration // mean
}

// tenMinutes is the size of run that the report is made for.
var tenMinutes = plan{processes: 4, workers: 16, locks: 8, duration: 10 * time.Minute, faults: 60, think: 120 * time.Millisecond}

const (
	origin  = int64(7_234_000_000_000) // of the machine's clock
	second  = int64(time.Second)
	milli   = int64(time.Millisecond)
	timeout = 4 * second
)

// faultKinds are what happens in a scenario, with how long each takes.
var faultKinds = []struct {
	kind string
	takes,
	target string
}{
	{"kill-worker", "0s", "process"},
	{"pause-worker", "7s", "process"},
	{"kill-leader", "3s", "server"},
	{"isolate-follower", "6s", "server"},
	{"blackhole-connection", "6s", "process"},
	{"delay-link", "5s", "process"},
	{"delete-holder", "0s", "process"},
	{"revoke", "0s", "process"},
	{"restart-server", "2s", "server"},
	{"swallow-answer", "1s", "process"},
	{"foreign-contenders", "4s", "lock"},
	{"pause-leader", "4s", "server"},
}

// A world simulates processes that contend for locks, roughly as Holdfast does: a process
// holds a lock for all its workers that wait for it at that moment.
type world struct {
	plan
	chance  *rand.Rand
	now     int64
	queue   agenda
	log     []history.Event
	locks   []*worldLock
	stopped []int64 // until when each process gets no answers
	dead    []bool
	inc     []int
	op      []uint64
	session []uint64
	token   uint64
	injured []verdict.Hit
	waits   []int64
	holds   []int64
	overs   []int64
}

type worldLock struct {
	name     string
	owner    int // -1: none
	token    uint64
	inside   []entry
	waiting  []entry
	freed    int64
	freeFrom int64 // a session that ended keeps the lock until then
}

type entry struct {
	process, worker, inc int
	op                   uint64
	at                   int64
}

// An agenda has what is to happen, in the order of time.
type agenda []item
type item struct {
	at int64
	n  int
	do func()
}

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].n, a[j].n)) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(item)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// generate returns the scenario of a plan. It depends on nothing else.
func generate(p plan) scenario {
	w := &world{plan: p, chance: rand.New(rand.NewPCG(7, 7)), now: origin, stopped: make([]int64, p.processes),
		dead: make([]bool, p.processes), inc: make([]int, p.processes), op: make([]uint64, p.processes), session: make([]uint64, p.processes), token: 0x100000010}
	header := history.Header{
		Version: 1, Command: fmt.Sprintf("go run ./stress -ensemble 3 -nemesis all -processes %d -goroutines %d -locks %d -duration %v -seed 7 -report out", p.processes, p.workers, p.locks, p.duration),
		Seed: 7, Workload: "default", Processes: p.processes, Goroutines: p.workers, SessionTimeout: timeout, Tenure: 50 * milli,
		Servers: []string{"127.0.0.1:21811", "127.0.0.1:21812", "127.0.0.1:21813"}, Begin: origin, BeginWall: "2026-03-01T14:03:07.123Z",
		Planned: int64(p.duration), Go: "go1.26.8", ZooKeeper: "3.8.4",
	}
	for i := range p.locks {
		name := fmt.Sprintf("stress/L%d", i)
		header.Locks = append(header.Locks, history.Lock{Name: name, Mode: history.Exclusive})
		w.locks = append(w.locks, &worldLock{name: name, owner: -1})
	}
	for _, k := range faultKinds {
		header.Nemesis = append(header.Nemesis, k.kind)
	}
	for process := range p.processes {
		w.start(process)
	}
	for i := range p.faults {
		kind := faultKinds[i%len(faultKinds)]
		at := int64(float64(p.duration)*(float64(i)+0.5)/float64(p.faults)) + w.chance.Int64N(3*second)
		w.in(at, func() { w.fault(kind.kind, kind.takes, kind.target) })
	}
	end := origin + int64(p.duration)
	w.in(end-origin-2*second, func() { w.write(history.Event{Kind: history.Stopping, Process: history.Harness}) })
	for len(w.queue) > 0 && w.queue[0].at < end {
		next := heap.Pop(&w.queue).(item)
		w.now = max(w.now, next.at)
		next.do()
	}
	slices.SortStableFunc(w.log, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	s := scenario{header: header, log: w.log}
	s.verdict = w.judge()
	if p.violation {
		s.violate()
	}
	return s
}

func (w *world) in(d int64, do func()) { heap.Push(&w.queue, item{w.now + d, len(w.queue), do}) }

func (w *world) write(e history.Event) {
	if e.At == 0 {
		e.At = w.now
	}
	w.log = append(w.log, e)
}

func (w *world) exp(mean int64) int64 { return int64(w.chance.ExpFloat64() * float64(mean)) }

func (w *world) sessionName(process int) string { return fmt.Sprintf("0x1000%08x", w.session[process]) }

func (w *world) start(process int) {
	w.dead[process] = false
	w.op[process] = 0
	w.session[process] = uint64(w.chance.Uint32())
	w.write(history.Event{Kind: history.Started, Process: process, Incarnation: w.inc[process]})
	w.write(history.Event{Kind: history.Session, Process: process, Incarnation: w.inc[process], Session: w.sessionName(process), Text: history.SessionBegan})
	for worker := range w.workers {
		inc := w.inc[process]
		w.in(w.exp(int64(w.think)), func() { w.ask(process, worker, inc) })
	}
}

func (w *world) ask(process, worker, inc int) {
	if w.inc[process] != inc || w.dead[process] {
		return
	}
	if w.stopped[process] > w.now {
		w.in(w.stopped[process]-w.now+w.exp(5*milli), func() { w.ask(process, worker, inc) })
		return
	}
	l := w.locks[w.chance.IntN(len(w.locks))]
	w.op[process]++
	e := entry{process, worker, inc, w.op[process], w.now}
	w.event(history.Request, e, l, "")
	if w.chance.IntN(50) == 0 && l.owner >= 0 && l.owner != process {
		w.event(history.Refused, e, l, "held by another process")
		w.again(e)
		return
	}
	l.waiting = append(l.waiting, e)
	w.grant(l)
}

func (w *world) again(e entry) {
	w.in(w.exp(int64(w.think)), func() { w.ask(e.process, e.worker, e.inc) })
}

func (w *world) event(kind history.Kind, e entry, l *worldLock, text string) {
	event := history.Event{Kind: kind, Process: e.process, Incarnation: e.inc, Worker: e.worker, Op: e.op, Lock: l.name, Mode: history.Exclusive, Text: text}
	switch kind {
	case history.Granted, history.Lost, history.Write:
		event.Token, event.Session = l.token, w.sessionName(e.process)
		event.OK = true
	}
	w.write(event)
}

// grant gives a free lock to the process that has waited for longest.
func (w *world) grant(l *worldLock) {
	if l.owner >= 0 || len(l.waiting) == 0 {
		return
	}
	first := l.waiting[0]
	ready := max(l.freeFrom, w.stopped[first.process])
	if ready > w.now {
		w.in(ready-w.now+milli, func() { w.grant(l) })
		return
	}
	l.owner = first.process
	w.token += 1 + uint64(w.chance.IntN(4))
	l.token = w.token
	if l.freed > 0 {
		w.overs = append(w.overs, w.now-l.freed)
	}
	l.inside, l.waiting = slices.DeleteFunc(slices.Clone(l.waiting), func(e entry) bool { return e.process != l.owner }),
		slices.DeleteFunc(l.waiting, func(e entry) bool { return e.process == l.owner })
	for _, e := range slices.Clone(l.inside) {
		w.waits = append(w.waits, w.now-e.at)
		w.event(history.Granted, e, l, "")
		w.event(history.Write, e, l, "")
		granted := w.now
		w.in(milli+w.exp(25*milli), func() { w.leave(l, e, granted) })
	}
}

func (w *world) leave(l *worldLock, e entry, granted int64) {
	i := slices.Index(l.inside, e)
	if i < 0 {
		return // it was lost
	}
	if w.stopped[e.process] > w.now {
		w.in(w.stopped[e.process]-w.now+milli, func() { w.leave(l, e, granted) })
		return
	}
	l.inside = slices.Delete(l.inside, i, i+1)
	w.holds = append(w.holds, w.now-granted)
	w.event(history.Release, e, l, "")
	took := milli/2 + w.exp(milli)
	at := w.now
	w.in(took, func() { w.event(history.Released, e, l, "") })
	w.again(e)
	if len(l.inside) == 0 {
		w.in(took, func() {
			l.owner, l.freed = -1, at
			w.grant(l)
		})
	}
}

// lose makes a process lose its locks, or one of them.
func (w *world) lose(process int, most int, freeFrom int64, cause string) (lost []string) {
	for _, l := range w.locks {
		if l.owner != process || len(l.inside) == 0 || len(lost) == most {
			continue
		}
		for _, e := range l.inside {
			w.event(history.Lost, e, l, cause)
			w.in(milli, func() { w.event(history.Release, e, l, ""); w.event(history.Released, e, l, "holdfast: lock lost") })
			w.again(e)
		}
		l.inside, l.owner, l.freed, l.freeFrom = nil, -1, 0, freeFrom
		lost = append(lost, fmt.Sprintf("lock %q by process %d", l.name, process))
		w.in(freeFrom-w.now+milli, func() { w.grant(l) })
	}
	return lost
}

func (w *world) fault(kind, takes, what string) {
	d, _ := time.ParseDuration(takes)
	process := w.chance.IntN(w.processes)
	target := fmt.Sprintf("process %d", process)
	switch {
	case what == "lock":
		target = "lock " + w.locks[w.chance.IntN(len(w.locks))].name
	case strings.HasSuffix(kind, "leader"):
		target = fmt.Sprintf("server %d (leader)", 1+w.chance.IntN(3))
	case what == "server":
		target = fmt.Sprintf("server %d (follower)", 1+w.chance.IntN(3))
	}
	n := len(w.injured)
	w.injured = append(w.injured, verdict.Hit{Fault: n + 1, Kind: kind, Target: target, Began: w.now, Ended: w.now + int64(d)})
	w.write(history.Event{Kind: history.FaultBegan, Process: history.Harness, Fault: n + 1, Target: target, Text: kind})
	w.write(history.Event{Kind: history.FaultEnded, At: w.now + int64(d), Process: history.Harness, Fault: n + 1, Target: target, Text: kind})
	lost := func(all []string) { w.injured[n].Lost = append(w.injured[n].Lost, all...) }
	suspend := func(p int, d int64) {
		w.stopped[p] = max(w.stopped[p], w.now+d)
		w.write(history.Event{Kind: history.Session, Process: p, Incarnation: w.inc[p], Session: w.sessionName(p), Text: history.SessionSuspended})
	}
	resume := func(p int) {
		w.write(history.Event{Kind: history.Session, Process: p, Incarnation: w.inc[p], Session: w.sessionName(p), Text: history.SessionResumed})
	}
	expire := func(p int, at int64) {
		w.write(history.Event{Kind: history.Expired, At: at, Process: history.Harness, Session: w.sessionName(p)})
		w.write(history.Event{Kind: history.Session, At: at + 2*second, Process: p, Incarnation: w.inc[p], Session: w.sessionName(p), Text: history.SessionEnded})
		w.session[p] = uint64(w.chance.Uint32())
	}
	switch kind {
	case "kill-worker":
		if w.dead[process] {
			return
		}
		w.write(history.Event{Kind: history.Ended, Process: process, Incarnation: w.inc[process], Text: "killed"})
		for _, l := range w.locks {
			if l.owner == process {
				l.inside, l.owner, l.freed, l.freeFrom = nil, -1, 0, w.now+timeout
				w.in(timeout+milli, func() { w.grant(l) })
			}
			l.waiting = slices.DeleteFunc(l.waiting, func(e entry) bool { return e.process == process })
		}
		w.dead[process] = true
		w.inc[process]++
		w.in(1500*milli, func() { w.start(process) })
	case "pause-worker":
		w.stopped[process] = max(w.stopped[process], w.now+int64(d))
		ended := w.now + timeout + 300*milli
		w.in(int64(d), func() {
			lost(w.lose(process, 2, w.now+100*milli, "the session ended while the process was stopped: the lease had run out 1.634s before"))
			expire(process, ended)
			for range 2 {
				w.write(history.Event{Kind: history.Write, Process: process, Incarnation: w.inc[process], Worker: 3, Lock: w.locks[0].name, Token: 4})
			}
		})
	case "blackhole-connection":
		suspend(process, int64(d)+200*milli)
		w.in(timeout*2/3, func() {
			lost(w.lose(process, 3, w.now+timeout/3+200*milli, "the lease ran out: no answer from 127.0.0.1:21812 for 2.67s"))
			expire(process, w.now+timeout/3+w.chance.Int64N(300*milli))
		})
	case "kill-leader", "pause-leader":
		for p := range w.processes {
			suspend(p, int64(d)/2)
			w.in(int64(d)/2+w.chance.Int64N(200*milli), func() { resume(p) })
		}
	case "isolate-follower", "restart-server", "swallow-answer":
		suspend(process, 800*milli)
		w.in(800*milli+w.chance.Int64N(100*milli), func() { resume(process) })
	case "delete-holder":
		w.in(10*milli, func() { lost(w.lose(process, 1, w.now+2*milli, "the lock's node was deleted by another client")) })
	case "revoke":
		for _, l := range w.locks {
			if l.owner >= 0 && len(l.inside) > 0 {
				w.event(history.Revoked, l.inside[0], l, "asked by the nemesis")
			}
		}
	}
}

// judge sums up what the world knows of itself.
func (w *world) judge() verdict.Verdict {
	v := verdict.Verdict{Outcome: verdict.OK, Injected: w.injured, Grants: uint64(len(w.waits)), Waits: spread(w.waits), HandOvers: spread(w.overs), Holds: spread(w.holds), MarginLeast: 1021, MarginMedian: 1340, Margins: 12, StaleAttempts: 10, PausedOverlaps: 2}
	for _, e := range w.log {
		if e.Kind == history.Request {
			v.Requests++
		}
	}
	for _, k := range faultKinds {
		f := verdict.Fault{Kind: k.kind}
		for _, h := range w.injured {
			if h.Kind == k.kind {
				f.N++
				f.Lost += len(h.Lost)
			}
		}
		f.Held, f.Waiting, f.Releasing = f.N, f.N, f.N/2
		v.LostHolds += f.Lost
		v.Faults = append(v.Faults, f)
	}
	slices.SortFunc(v.Faults, func(a, b verdict.Fault) int { return cmp.Compare(a.Kind, b.Kind) })
	for i, name := range []string{"no two processes inside at once", "tokens rise", "the register refuses old tokens", "linearizable", "every wait ends", "told of a loss in time", "released once", "nothing is left"} {
		v.Checks = append(v.Checks, verdict.Check{Name: name, Judged: v.Grants / uint64(i+1)})
	}
	v.Checks[3].Note = "12 windows of 40,211 could not be judged in time"
	return v
}

// violate makes the history one of locks that failed.
func (s *scenario) violate() {
	var hold, other history.Event
	for i, e := range s.log {
		if e.At > origin+second && e.Kind == history.Granted && hold.Kind == "" {
			for _, r := range s.log[i:] {
				if r.Kind == history.Release && r.Op == e.Op && r.Process == e.Process && r.Incarnation == e.Incarnation && r.At-e.At > 30*milli {
					hold = e
				}
			}
		}
	}
	other = hold
	other.Process, other.Op, other.Worker = (hold.Process+1)%s.header.Processes, 1_000_000, 9
	other.At += 12 * milli
	ask := other
	ask.Kind, ask.At = history.Request, other.At-40*milli
	leave := other
	leave.Kind, leave.At = history.Release, other.At+9*milli
	s.log = append(s.log, ask, other, leave)
	slices.SortStableFunc(s.log, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	v := &s.verdict
	v.Outcome, v.Found = verdict.Violation, 2
	v.Findings = []verdict.Finding{
		{Check: "no two processes inside at once", Lock: hold.Lock, At: other.At, Faults: []int{1, 2}, Text: fmt.Sprintf("process %d (worker %d) was granted %s with token %d while process %d (worker %d) held it with the same token, granted 12ms before", other.Process, other.Worker, hold.Lock, hold.Token, hold.Process, hold.Worker)},
		{Check: "tokens rise", Lock: hold.Lock, At: other.At, Text: fmt.Sprintf("token %d was granted to two processes", hold.Token)},
	}
	v.Checks[0].Found, v.Checks[1].Found = 1, 1
}

func spread(all []int64) verdict.Spread {
	if len(all) == 0 {
		return verdict.Spread{}
	}
	slices.Sort(all)
	s := verdict.Spread{N: uint64(len(all))}
	at := func(share float64) float64 {
		return float64(all[int(math.Min(share*float64(len(all)), float64(len(all)-1)))]) / 1e6
	}
	s.Median, s.P90, s.P99, s.Most = at(0.5), at(0.9), at(0.99), at(1)
	for _, d := range all {
		i := max(bits.Len64(uint64(max(d, 0)/1000))-1, 0)
		for len(s.Buckets) <= i {
			s.Buckets = append(s.Buckets, 0)
		}
		s.Buckets[i]++
	}
	return s
}
