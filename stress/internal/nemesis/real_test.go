// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/zkio"
)

// realTimeout is the session timeout of all clients here.
const realTimeout = 2 * time.Second

var realLocks = []string{"a", "b"}

// envWorker makes the test binary a worker process with these servers.
const envWorker = "NEMESIS_TEST_WORKER"

// work contends for the locks until its standard input ends, and says on its standard output
// what it sees, one thing a line.
func work(servers string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	text, err := os.ReadFile("/proc/uptime")
	if err == nil {
		say("clock %s", strings.Fields(string(text))[0])
	}
	helper, err := sentinel.Start(sentinel.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		say("failed %v", err)
		os.Exit(1)
	}
	m, err := manager.Open(context.Background(), manager.Config{
		Servers:        strings.Split(servers, ","),
		Root:           "/locks",
		Sentinel:       helper,
		SessionTimeout: realTimeout,
		Tenure:         50 * time.Millisecond,
		Logger:         slog.New(slog.DiscardHandler),
		Observer: func(e manager.Event) {
			switch e.Kind {
			case manager.EventSessionBegan:
				say("session %d", e.Session)
			case manager.EventGranted, manager.EventLost, manager.EventRevoked:
				say("%v %s %s", e.Kind, e.Lock, e.Cause())
			case manager.EventConnectionLost, manager.EventConnectionResumed, manager.EventSessionOver:
				say("%s", strings.ReplaceAll(e.Kind.String(), " ", "-"))
			}
		},
	})
	if err != nil {
		say("failed %v", err)
		os.Exit(1)
	}
	ctx := context.Background()
	for _, name := range realLocks {
		l, err := m.Exclusive(name)
		if err != nil {
			say("failed %v", err)
			os.Exit(1)
		}
		go func() {
			for {
				if h, err := l.Lock(ctx); err == nil {
					wait(h.Lost(), 30*time.Millisecond)
					h.Release()
				}
			}
		}()
	}
	go func() {
		for {
			began := time.Now()
			if err := m.Sync(ctx); err == nil {
				say("sync %d", time.Since(began).Microseconds())
			}
			wait(nil, 50*time.Millisecond)
		}
	}()
	_, _ = io.ReadAll(os.Stdin)
	os.Exit(0)
}

// wait waits for d, or until done is closed.
func wait(done <-chan struct{}, d time.Duration) {
	select {
	case <-done:
	case <-time.After(d):
	}
}

// A realRun is worker processes that contend for locks on a real ensemble.
type realRun struct {
	t       *testing.T
	cluster *realzk.Cluster
	client  *zkio.Client // the harness's
	manager *manager.Manager
	dirs    map[string]string
	began   time.Time
	links   []*realzk.Links // of each worker process
	pinned  []*pinned       // clients of one server each
	void    bool            // the servers contradict each other

	mu      sync.Mutex // protects what follows
	workers []*realWorker
	said    []line
	events  []history.Event
	notes   []string
}

// A line is what a worker process has said.
type line struct {
	at      time.Duration // since the run began
	process int
	word    string
	rest    string
}

type realWorker struct {
	cmd     *exec.Cmd
	starter *child.Starter
	stdin   io.Closer
	read    chan struct{} // closed when all that it has said was read
	session int64         // protected by realRun.mu
}

func startReal(t *testing.T, processes int) *realRun {
	t.Helper()
	realzk.Require(t)
	cluster, err := realzk.RunEnsemble(t.Context(), 3, realzk.SessionTimeouts(time.Second, 10*time.Second), realzk.ConfigLine("syncLimit=4"), realzk.Dir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := &realRun{t: t, cluster: cluster, began: time.Now(), dirs: make(map[string]string)}
	r.client, err = zkio.Open(t.Context(), zkio.Config{Servers: cluster.Addrs(), SessionTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.Close(context.Background()) })
	r.manager, err = manager.Open(t.Context(), manager.Config{Servers: cluster.Addrs(), Root: "/locks", SessionTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.manager.Close() })
	for _, name := range realLocks {
		r.dirs[name] = "/locks/" + name
	}
	for _, p := range cluster.Members() {
		r.pinned = append(r.pinned, pin(t, p.Addr()))
	}
	r.workers = make([]*realWorker, processes)
	for i := range processes {
		l, err := realzk.RunLinks(cluster.Addrs())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		r.links = append(r.links, l)
		if err := r.start(i, 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for i := range r.workers {
			r.stop(i)
		}
	})
	return r
}

// start starts a worker process with that clock.
func (r *realRun) start(process int, clock time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := &realWorker{cmd: exec.Command(self), read: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), envWorker+"="+strings.Join(r.links[process].Addrs(), ","))
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if clock == 0 {
		w.starter = child.NewStarter()
	} else if w.starter, err = child.NewStarterWithClock(clock); err != nil {
		return err
	}
	if err := w.starter.Start(w.cmd); err != nil {
		w.starter.Close()
		return err
	}
	go func() {
		defer close(w.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			r.mu.Lock()
			r.said = append(r.said, line{time.Since(r.began), process, word, rest})
			if word == "session" {
				w.session, _ = strconv.ParseInt(rest, 10, 64)
			}
			r.mu.Unlock()
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers[process] = w
	return nil
}

func (r *realRun) worker(process int) *realWorker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers[process]
}

// stop kills a worker process.
func (r *realRun) stop(process int) {
	w := r.worker(process)
	if w == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	<-w.read
	_ = w.cmd.Wait() // it was killed
	w.starter.Close()
}

func (r *realRun) record(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *realRun) Now() int64 { return int64(time.Since(r.began)) }

func (r *realRun) Note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

func (r *realRun) Processes() (all []int) {
	for i := range r.workers {
		all = append(all, i)
	}
	return all
}

func (r *realRun) Replace(_ context.Context, process int, clock time.Duration) error {
	r.stop(process)
	return r.start(process, clock)
}

func (r *realRun) Pause(process int) error  { return child.Pause(r.worker(process).cmd.Process) }
func (r *realRun) Resume(process int) error { return child.Resume(r.worker(process).cmd.Process) }
func (r *realRun) Helper(process int) Helper {
	if h := HelperOf(r.worker(process).cmd.Process.Pid); h != nil {
		return h
	}
	return nil
}
func (r *realRun) Links(process int) Links { return r.links[process] }
func (r *realRun) Servers() Servers        { return r.cluster }
func (r *realRun) Tree() Tree              { return r.client.Session() }

func (r *realRun) Look() (holders, waiters []Place) {
	holders, waiters, err := Look(r.Tree(), r.dirs, func(session int64) (int, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.workers, func(w *realWorker) bool { return w.session == session })
		return i, i >= 0
	})
	if err != nil {
		r.Note(err.Error())
	}
	return holders, waiters
}

func (r *realRun) Revoke(ctx context.Context, lock string) error {
	l, err := r.manager.Exclusive(lock)
	if err != nil {
		return err
	}
	return l.Revoke(ctx, "a test")
}

// since returns what a process has said from that time on; of all processes if it is -1.
func (r *realRun) since(at time.Duration, process int, word string) (lines []line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.said {
		if l.at >= at && (process < 0 || l.process == process) && l.word == word {
			lines = append(lines, l)
		}
	}
	return lines
}

// await waits until ok returns true.
func (r *realRun) await(what string, ok func() bool) {
	r.t.Helper()
	if !r.within30s(ok) {
		r.t.Errorf("%s: not seen for 30 s", what)
	}
}

// within30s waits until ok returns true, and reports whether it has.
func (r *realRun) within30s(ok func() bool) bool {
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-limit.C:
			return false
		}
	}
	return true
}

// contradiction returns what two of the ensemble's servers contradict each other in, about the
// locks' queues; "" if they do not.
func (r *realRun) contradiction() string {
	look := func() []map[string]bool {
		all := make([]map[string]bool, len(r.pinned))
		for i, p := range r.pinned {
			nodes := make(map[string]bool)
			for _, dir := range r.dirs {
				s := p.client.Session()
				if s.Sync(dir) != nil {
					return nil
				}
				names, _, err := s.Children(dir)
				if err != nil {
					return nil
				}
				for _, name := range names {
					nodes[dir+"/"+name] = true
				}
			}
			all[i] = nodes
		}
		return all
	}
	first := look()
	wait(nil, 2*time.Second)
	return lastingDifference(first, look())
}

// lastingDifference returns a node that one server has in both looks, and another in neither, with
// their numbers; "" if there is none. Nodes that come and go between the looks are none.
func lastingDifference(first, second []map[string]bool) string {
	if len(first) != len(second) {
		return "" // a server did not answer
	}
	for i := range first {
		for node := range first[i] {
			for j := range first {
				if second[i][node] && !first[j][node] && !second[j][node] {
					return fmt.Sprintf("server %d has %s, and server %d has not", i+1, node, j+1)
				}
			}
		}
	}
	return ""
}

// ZooKeeper's servers contradict each other if one has what another has not, for good.
func TestLastingDifference(t *testing.T) {
	set := func(names ...string) map[string]bool {
		m := make(map[string]bool)
		for _, name := range names {
			m[name] = true
		}
		return m
	}
	type look = []map[string]bool
	for _, test := range []struct {
		what          string
		first, second look
		want          string
	}{
		{"the same", look{set("a"), set("a")}, look{set("a"), set("a")}, ""},
		{"it was just made", look{set("a"), set()}, look{set("a"), set("a")}, ""},
		{"it was just deleted", look{set("a"), set()}, look{set(), set()}, ""},
		{"all come and go", look{set("a"), set("b")}, look{set("c"), set("d")}, ""},
		{"it is left behind", look{set("a"), set("a", "b")}, look{set("c"), set("b")}, "server 2 has b, and server 1 has not"},
		{"a server does not answer", look{set("a"), set()}, nil, ""},
	} {
		if got := lastingDifference(test.first, test.second); got != test.want {
			t.Errorf("%s: %q, want %q", test.what, got, test.want)
		}
	}
}

// A pinned client has one server only, so that it sees what becomes of that.
type pinned struct {
	client *zkio.Client

	mu   sync.Mutex // protects what follows
	lost int        // connections
}

func pin(t *testing.T, server string) *pinned {
	t.Helper()
	p := &pinned{}
	c, err := zkio.Open(t.Context(), zkio.Config{Servers: []string{server}, SessionTimeout: realTimeout, Logger: slog.New(slog.DiscardHandler), Listener: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	p.client = c
	return p
}

func (p *pinned) SessionStarted(*zkio.Session)                   {}
func (p *pinned) ConnectionResumed(*zkio.Session, time.Duration) {}
func (p *pinned) ProcessPaused(time.Duration)                    {}
func (p *pinned) LeaseLapsed(*zkio.Lease)                        {}
func (p *pinned) SessionOver(*zkio.Session, error)               {}
func (p *pinned) ConnectionLost(*zkio.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost++
}

func (p *pinned) losses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// realLasts is how long each kind lasts here.
var realLasts = map[string]time.Duration{
	"pause-worker": 3500 * time.Millisecond, "late-helper": time.Second,
	"kill-server": time.Second, "kill-leader": time.Second,
	"pause-server": 2500 * time.Millisecond, "pause-leader": 2500 * time.Millisecond,
	"slow-disk":        1500 * time.Millisecond,
	"isolate-follower": 3 * time.Second, "isolate-leader": 3 * time.Second,
	"blackhole-connection": 3 * time.Second, "delay-link": 1500 * time.Millisecond, "throttle-link": 1500 * time.Millisecond,
	"swallow-answer":   3 * time.Second,
	"foreign-children": time.Second, "foreign-contenders": time.Second,
}

// Each kind of fault takes effect on a real ensemble, clients see it, and after it the
// ensemble serves and the locks are granted.
//
// If ZooKeeper's servers contradict each other after a fault, clients of one of them may wait for
// what is not there. That shows nothing about the locks, so the fault is tested again, on another
// ensemble.
func TestRealFaults(t *testing.T) {
	r := startGranting(t)
	here := Here(3)
	ensembles := 1
	for _, k := range Kinds {
		for again := true; again; {
			t.Run(k.Name, func(t *testing.T) {
				if lacks := k.Lacks(here); lacks != "" {
					t.Logf("not tested: %s needs %s", k.Name, lacks)
					return
				}
				r.t = t
				r.testKind(k)
			})
			if again = r.void; again {
				if ensembles++; ensembles > 3 {
					t.Fatal("the servers of three ensembles have contradicted each other")
				}
				r = startGranting(t)
			}
		}
	}
	for _, l := range r.since(0, -1, "failed") {
		t.Errorf("process %d failed: %s", l.process, l.rest)
	}
}

// startGranting starts three processes, and waits until each has had a lock.
func startGranting(t *testing.T) *realRun {
	t.Helper()
	r := startReal(t, 3)
	r.await("grants to every process", func() bool {
		for p := range r.workers {
			if len(r.since(0, p, "granted")) == 0 {
				return false
			}
		}
		return true
	})
	return r
}

func (r *realRun) testKind(k Kind) {
	t := r.t
	if _, err := r.cluster.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	var losses []int
	for _, p := range r.pinned {
		r.await("a connection to each server", func() bool { return p.client.Session().Connected() })
		losses = append(losses, p.losses())
	}
	r.mu.Lock()
	r.events, r.notes = nil, nil
	r.mu.Unlock()
	s := Schedule{Injections: []Injection{{Number: 1, Kind: k.Name, Lasts: realLasts[k.Name], Pick: 4}}, End: time.Minute}
	if err := Run(t.Context(), r, s, r.record); err != nil {
		t.Fatal(err)
	}
	// One that had no effect, as when the process has just lost its connection, is followed by another.
	events := r.events[max(0, len(r.events)-2):]
	if len(events) != 2 || !events[1].OK {
		t.Fatalf("events %+v, notes %q", r.events, r.notes)
	}
	began, ended := time.Duration(events[0].At), time.Duration(events[1].At)
	target := events[0].Target
	var process, server int
	if _, err := fmt.Sscanf(target, "process %d", &process); err != nil {
		process = -1
	}
	if _, err := fmt.Sscanf(target, "server %d", &server); err != nil {
		server = 0
	}
	t.Logf("%s from %v for %v; notes %q", target, began.Round(time.Millisecond), (ended - began).Round(time.Millisecond), r.notes)

	sees := func(word, part string) {
		t.Helper()
		r.await(fmt.Sprintf("%s that says %q with %q", target, word, part), func() bool {
			return slices.ContainsFunc(r.since(began, process, word), func(l line) bool { return strings.Contains(l.rest, part) })
		})
	}
	switch k.Name {
	case "kill-worker":
		sees("session", "")
	case "late-helper":
		sees("session", "")
	case "clock-offset":
		sees("clock", "")
		own, err := os.ReadFile("/proc/uptime")
		if err != nil {
			t.Fatal(err)
		}
		ahead := uptime(t, r.since(began, process, "clock")[0].rest) - uptime(t, string(own))
		if ahead < 59*time.Minute {
			t.Errorf("the clock of the process is %v ahead", ahead)
		}
	case "pause-worker":
		sees("session-over", "")
	case "cut-connection", "blackhole-connection", "swallow-answer":
		sees("connection-lost", "")
	case "delay-link", "throttle-link":
		least := map[string]time.Duration{"delay-link": 2 * linkDelay, "throttle-link": 10 * time.Millisecond}[k.Name]
		syncs := r.since(began, process, "sync")
		// The first may have begun before the fault.
		n := 0
		for i, l := range syncs {
			us, err := strconv.Atoi(l.rest)
			if took := time.Duration(us) * time.Microsecond; err != nil || i > 0 && l.at < ended && took < least {
				t.Errorf("a request took %v (%v), want at least %v", took, err, least)
			}
			if i > 0 && l.at < ended {
				n++
			}
		}
		if n < 3 {
			t.Errorf("%d requests were answered during the fault", n)
		}
	case "slow-disk":
		// What was about to be granted has been by then, and no write is answered any more.
		for _, l := range r.since(began+500*time.Millisecond, -1, "granted") {
			if l.at < ended {
				t.Errorf("process %d was granted a lock %v after no server could write its log", l.process, l.at-began)
			}
		}
		if n := len(r.since(began, -1, "session-over")); n > 0 {
			t.Errorf("%d sessions are over", n)
		}
	case "delete-holder":
		sees("lost", "deleted")
	case "revoke":
		// A holder may give the lock up before it is told.
		for try := 0; len(r.since(began, -1, "revoked")) == 0; try++ {
			if try == 30 {
				t.Error("of 30 revocations none was told")
				break
			}
			if err := Run(t.Context(), r, s, r.record); err != nil {
				t.Fatal(err)
			}
		}
	case "foreign-children", "foreign-contenders":
		for name, dir := range r.dirs {
			names, _, err := r.Tree().Children(dir)
			for _, n := range names {
				if id, ok := strings.CutPrefix(n, "_c_"); !ok || strings.Contains(id[:9], "-") {
					t.Errorf("left in the directory of %s: %s", name, n)
				}
			}
			if err != nil && !errors.Is(err, zkio.ErrNoNode) {
				t.Error(err)
			}
		}
	}
	if server > 0 {
		r.await(fmt.Sprintf("a client of server %d that loses its connection", server), func() bool { return r.pinned[server-1].losses() > losses[server-1] })
	}
	settled, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := r.cluster.Settled(settled); err != nil {
		t.Errorf("after it: %v", err)
	}
	after := time.Since(r.began)
	for _, name := range realLocks {
		for p := range r.workers {
			if r.within30s(func() bool {
				return slices.ContainsFunc(r.since(after, p, "granted"), func(l line) bool { return strings.HasPrefix(l.rest, name+" ") })
			}) {
				continue
			}
			if what := r.contradiction(); what != "" {
				t.Logf("ZooKeeper's servers contradict each other: %s", what)
				r.void = true
				return
			}
			t.Errorf("no grant of %s to process %d for 30 s", name, p)
		}
	}
	t.Logf("since it began: %d grants, %d connections lost, %d sessions over, %d holds lost; all is well after %v",
		len(r.since(began, -1, "granted")), len(r.since(began, -1, "connection-lost")), len(r.since(began, -1, "session-over")), len(r.since(began, -1, "lost")), (time.Since(r.began) - ended).Round(time.Millisecond))
}

// uptime parses the first field of /proc/uptime.
func uptime(t *testing.T, text string) time.Duration {
	t.Helper()
	seconds, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}
