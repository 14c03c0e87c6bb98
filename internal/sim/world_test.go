// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const (
	root      = "/holdfast"
	jobs      = "jobs"  // an exclusive lock
	more      = "more"  // another one
	table     = "table" // a read/write lock
	workEnds  = time.Hour
	quietEnds = 10 * time.Minute
	mostLines = 500_000 // of the log; most simulations have some thousand
)

// A world is one simulation, in one synctest bubble.
type world struct {
	t       *testing.T
	plan    plan
	start   time.Time
	ens     *zktest.Ensemble
	servers []*zktest.Server
	srv     *zktest.Server // the first of them, by which all data can be seen
	procs   []*process
	ref     *referee
	leases  *leases
	bench   *bench
	nemesis *nemesis
	ops     atomic.Int64
	struck  atomic.Int64 // faults
	working atomic.Bool
	silence atomic.Pointer[time.Time] // when a process was last cut off
	futures promises
	marks   *marks

	mu     sync.Mutex // protects what follows
	lines  []string
	hits   map[string]int // faults by kind
	counts map[string]int // operations by kind
}

// An outcome is the result of one simulation.
type outcome struct {
	Seed       uint64         `json:"seed"`
	Hash       string         `json:"hash"` // of the log
	Operations map[string]int `json:"operations"`
	Faults     map[string]int `json:"faults"`
	Branches   map[string]int `json:"branches"`
	Entries    int            `json:"entries"` // grants that the referee judged
	Virtual    time.Duration  `json:"virtual"`
	Margin     time.Duration  `json:"margin"` // the shortest time between the report of a loss and the session's end; 0: none
	Lost       int            `json:"lost"`   // how many losses were reported before the session's end
}

// simulate runs a simulation. It must be called in a synctest bubble.
func simulate(t *testing.T, p plan, lines *[]string) outcome {
	w := &world{
		t: t, plan: p, start: time.Now(),
		ens:    p.quorum.start(zktest.Config{TickTime: p.tick, Logger: slog.New(slog.DiscardHandler)}),
		hits:   make(map[string]int),
		counts: make(map[string]int),
	}
	for i := range w.ens.Addresses() {
		w.servers = append(w.servers, w.ens.Server(i+1))
	}
	w.srv = w.servers[0]
	w.ref, w.leases, w.bench, w.nemesis, w.marks = newReferee(w), newLeases(w), newBench(w), newNemesis(w), newMarks(w)
	defer func() { *lines = w.lines }()
	w.log("plan", "%v", p)
	w.onRequest(w.request())
	w.ens.OnExpire(w.ref.expired)
	for _, name := range []string{jobs, more, table} {
		if p.sequence > 0 {
			if err := w.srv.CreateAll(root+"/"+name, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.srv.SetSequence(root+"/"+name, p.sequence); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range p.processes {
		w.procs = append(w.procs, w.newProcess(i))
	}

	following, stop := context.WithCancel(context.Background())
	var followers []*follower
	var follows sync.WaitGroup
	for i := range p.followers {
		f := &follower{pr: w.procs[i%len(w.procs)], lock: []int{0, 3, 1}[i%3]}
		followers = append(followers, f)
		follows.Go(func() { f.run(following) })
	}
	w.working.Store(true)
	var nemesis, workers sync.WaitGroup
	nemesis.Go(w.nemesis.run)
	nemesis.Go(w.ref.watch)
	for _, pr := range w.procs {
		for i := range p.workers {
			workers.Go(newWorker(pr, i).run)
		}
	}
	workersEnd := make(chan struct{})
	go func() { workers.Wait(); close(workersEnd) }()
	select {
	case <-workersEnd:
	case <-after(workEnds):
		// The bubble cannot end while they wait, and nothing can make them stop.
		panic(fmt.Sprintf("after %v of virtual time goroutines are still waiting in seed %d:\n%s", workEnds, p.seed, strings.Join(w.lines, "\n")))
	}
	w.working.Store(false)
	nemesis.Wait()
	w.settle(func() {
		for _, f := range followers {
			f.check()
		}
		stop()
		follows.Wait()
	})
	return w.outcome()
}

// onRequest has all servers call fn before each request.
func (w *world) onRequest(fn func(session int64, op zktest.Op, path string)) {
	for _, srv := range w.servers {
		srv.OnRequest(fn)
	}
}

// request returns the function that the server calls before each request. It
// delays requests at random, and tells the nemesis and the referee of reads.
func (w *world) request() func(session int64, op zktest.Op, path string) {
	var mu sync.Mutex // protects rng
	rng := rand.New(rand.NewPCG(w.plan.seed, 1))
	return func(session int64, op zktest.Op, path string) {
		if w.plan.latency > 0 {
			mu.Lock()
			d := w.plan.upTo(rng, w.plan.latency)
			if rng.IntN(2) == 0 {
				d = 0
			}
			mu.Unlock()
			<-after(d)
		}
		w.marks.look()
		w.nemesis.asked(session, op)
		w.leases.asked(session, op)
		switch op {
		case zktest.OpGetData:
			w.nemesis.reads(session, path)
			w.ref.sawLook(session, path)
		case zktest.OpMulti:
			w.nemesis.writes(session, path)
		}
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.ens.Heal()
	for i, srv := range w.servers {
		srv.Faults().Clear()
		srv.Start()
		w.ens.Resume(i + 1)
		for j := range i {
			w.ens.SlowLink(i+1, j+1, 0)
		}
	}
	for _, pr := range w.procs {
		pr.refused.Store(false)
	}
}

// settle waits until no lock is in use, calls free a little later, and checks that
// nothing is left.
func (w *world) settle(free func()) {
	w.heal()
	w.onRequest(nil)
	var left []string
	for began := time.Now(); time.Since(began) < quietEnds; <-after(time.Second) {
		if left = w.left(); len(left) == 0 {
			break
		}
		w.yieldAll() // also what was withdrawn at the very end
	}
	for _, what := range left {
		w.fail("%v after the end: %s", quietEnds, what)
	}
	<-after(5 * time.Second) // until all that watch a lock have looked, some with a new manager
	free()
	w.checkLinger()
	w.ref.end()
	w.marks.end()
	for _, pr := range w.procs {
		if err := pr.m.Close(); err != nil {
			w.fail("%s: close: %v", pr.label, err)
		}
	}
	for _, what := range w.futures.pending() {
		w.fail("never settled: %s", what)
	}
	// If the reply to a handshake was lost, no client knows of the session: it
	// has to time out.
	<-after(2*w.plan.timeout + 2*w.plan.tick)
	synctest.Wait()
	if n := len(w.srv.Sessions()); n > 0 {
		w.fail("%d sessions are left", n)
	}
	for _, srv := range w.servers {
		if n := srv.AllWatches(); n != (zktest.WatchCount{}) {
			w.fail("watches are left: %+v", n)
		}
	}
	w.stop()
}

// left returns what should be gone when all workers have finished.
func (w *world) left() (what []string) {
	for _, path := range w.srv.Nodes() {
		rest, ok := strings.CutPrefix(path, root+"/")
		depth := strings.Count(rest, "/")
		if mailbox := strings.HasPrefix(rest, "_asks_/"); mailbox {
			depth-- // a mailbox is a container, which the server removes some time
		}
		if path == markPath { // the last holder was interrupted
			continue
		}
		if ok && depth > 0 {
			what = append(what, "node "+path)
		}
	}
	for _, pr := range w.procs {
		for _, l := range pr.withForts() {
			if phase, n := l.State(); phase != state.Free || n != 0 {
				what = append(what, fmt.Sprintf("%s of %s is %v/%d", l.Path(), pr.label, phase, n))
			}
		}
		what = append(what, pr.left()...)
	}
	return what
}

func (w *world) stop() {
	if err := w.ens.Close(); err != nil {
		w.fail("close of the server: %v", err)
	}
}

// log adds a line to the log.
func (w *world) log(who, format string, args ...any) {
	line := fmt.Sprintf("%12v %-7s %s", time.Since(w.start), who, fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines = append(w.lines, line); len(w.lines) > mostLines {
		panic(fmt.Sprintf("seed %d is in an endless loop:\n%s", w.plan.seed, strings.Join(w.lines[:1000], "\n")))
	}
}

// fail reports a violation.
func (w *world) fail(format string, args ...any) {
	w.log("FAIL", format, args...)
	w.t.Errorf(format, args...)
}

// did counts an operation.
func (w *world) did(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// kinds returns how many kinds of faults have struck.
func (w *world) kinds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hits)
}

// strike counts a fault.
func (w *world) strike(kind string) {
	w.mu.Lock()
	w.hits[kind]++
	w.mu.Unlock()
	w.struck.Add(1)
}

func (w *world) outcome() outcome {
	o := outcome{
		Seed:       w.plan.seed,
		Operations: w.counts,
		Faults:     w.hits,
		Entries:    w.ref.check.Entries(),
		Virtual:    time.Since(w.start),
		Margin:     w.ref.margin,
		Lost:       w.ref.lost,
	}
	h := fnv.New64a()
	for _, line := range w.lines {
		_, _ = io.WriteString(h, line+"\n")
	}
	o.Hash = fmt.Sprintf("%016x", h.Sum64())
	total := 0
	for _, n := range w.counts {
		total += n
	}
	if total < w.plan.ops || w.struck.Load() < int64(w.plan.faults) || len(w.hits) < 3 {
		w.fail("void: %d operations, %d faults of %d kinds", total, w.struck.Load(), len(w.hits))
	}
	return o
}

// A process stands for an operating-system process: a manager and the goroutines
// that use it. It may close its manager and open a new one.
type process struct {
	w       *world
	label   string
	refused atomic.Bool // its connections are refused

	// replacing is a lock of the worker that replaces the manager. It is not a
	// mutex, since virtual time stands still while a goroutine waits for one.
	replacing chan struct{}

	mu    sync.Mutex // protects what follows
	m     *manager.Manager
	locks []lock
	mutex *manager.Mutex // nil: the seed uses none
	forts []fort         // none: the seed has no sieges

	crowded []lock // that are acquired at once; none: the seed has no crowds
}

type shared = manager.Lock

// A lock is one that a process can acquire.
type lock struct {
	*shared
	title string
	write bool          // or exclusive
	other *manager.Lock // of a write lock: the read lock to downgrade to
	heard *hearing      // of its directory, in this manager
}

func processLabel(i int) string { return fmt.Sprintf("p%d", i) }

func (w *world) newProcess(i int) *process {
	pr := &process{w: w, label: processLabel(i), replacing: make(chan struct{}, 1)}
	if err := pr.open(); err != nil {
		w.t.Fatal(err)
	}
	return pr
}

// open opens a manager. Only one goroutine may call it at a time.
func (pr *process) open() error {
	w := pr.w
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	m, err := manager.Open(ctx, manager.Config{
		Servers: w.plan.quorum.addresses(w.ens, pr.label),
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if pr.refused.Load() {
				return nil, errors.New("connection refused")
			}
			return w.ens.Dial(ctx, network, address)
		},
		Root:           root,
		Label:          pr.label,
		Logger:         slog.New(slog.DiscardHandler),
		SessionTimeout: w.plan.timeout,
		LostMargin:     w.plan.margin,
		Tenure:         w.plan.tenure,
		Linger:         w.plan.lingers(pr.label),
		Workers:        9 + len(pr.label),
		CloseTimeout:   2 * time.Second,
		OnAsk: func(ctx context.Context, q manager.Question) ([]byte, error) {
			if len(q.From.Label)%2 == 0 {
				select {
				case <-after(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			return []byte(pr.label + " " + q.Grant.Path), nil
		},
	})
	if err != nil {
		return err
	}
	rw, err := m.ReadWrite(table)
	one, err1 := m.Exclusive(jobs)
	two, err2 := m.Exclusive(more)
	var mutex *manager.Mutex
	var err3 error
	if w.plan.mutex {
		mutex, err3 = m.Mutex(turns)
	}
	forts, err4 := pr.openForts(m)
	crowd, err5 := pr.openCrowd(m)
	if err := errors.Join(err, err1, err2, err3, err4, err5); err != nil {
		return err
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.m, pr.mutex, pr.forts, pr.crowded = m, mutex, forts, crowd
	both := newHearing(w, table, true)
	pr.locks = []lock{
		{one, jobs, true, nil, newHearing(w, jobs, false)}, {two, more, true, nil, newHearing(w, more, false)},
		{rw.Reader(), table + " for reading", false, nil, both}, {rw.Writer(), table + " for writing", true, rw.Reader(), both},
		{rw.Upgradable(), table + ", upgradable", false, nil, both},
	}
	return nil
}

// all returns the locks of the process's present manager.
func (pr *process) all() []lock {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.locks
}

// session returns a random session, or 0 if there is none, and the server that it was last at.
func (w *world) session(rng *rand.Rand) (id int64, at *zktest.Server) {
	sessions := w.srv.Sessions()
	if len(sessions) == 0 {
		return 0, w.srv
	}
	s := sessions[rng.IntN(len(sessions))]
	return s.ID, w.servers[s.Server-1]
}

// promises are the futures that workers have seen.
type promises struct {
	mu   sync.Mutex // protects seen
	seen []promise
}

type promise struct {
	what string
	done <-chan struct{}
}

func (ps *promises) add(what string, done <-chan struct{}) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !slices.ContainsFunc(ps.seen, func(p promise) bool { return p.done == done }) {
		ps.seen = append(ps.seen, promise{what, done})
	}
}

func (ps *promises) pending() (what []string) {
	for _, p := range ps.seen {
		select {
		case <-p.done:
		default:
			what = append(what, p.what)
		}
	}
	return what
}
