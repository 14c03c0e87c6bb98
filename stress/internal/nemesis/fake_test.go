// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/zkio"
)

// A fake is a run of the harness that knows which faults are active. It complains of what
// must not be.
type fake struct {
	began time.Time

	mu       sync.Mutex // protects what follows
	harmed   map[string]int
	did      map[string]int // how often what was called
	wrong    []string
	notes    []string
	events   []history.Event
	nodes    map[string]bool // paths
	made     int             // nodes, for their numbers
	silent   bool            // no process holds or awaits a lock
	unsettle bool            // the ensemble never settles
	lame     error           // of Restart
	deaf     bool            // no process sends a request
	noOwn    bool            // the ensemble is not the harness's own
	still    string          // the lock that does not change hands
}

const (
	fakeProcesses = 4
	fakeServers   = 3
)

func newFake() *fake {
	f := &fake{began: time.Now(), harmed: make(map[string]int), did: make(map[string]int), nodes: make(map[string]bool)}
	for p := range fakeProcesses {
		f.nodes[fakeNode(p, "lock-a", 10+p)] = true
		f.nodes[fakeNode(p, "lock-b", 20-p)] = true
	}
	return f
}

// fakeNode returns the path of a node of a process in the queue of a lock.
func fakeNode(process int, lock string, sequence int) string {
	kind := "lock-"
	if lock == "lock-b" {
		kind = "__WRIT__"
	}
	return fmt.Sprintf("/root/%s/_c_%032x-%s%010d", lock, process+1, kind, sequence)
}

// set notes that something is harmed (by 1) or no longer (by -1).
func (f *fake) set(what string, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did[strings.Fields(what)[0]]++
	if f.harmed[what] += by; f.harmed[what] == 0 {
		delete(f.harmed, what)
	}
	if n := f.harmed[what]; n < 0 || n > 1 {
		f.wrong = append(f.wrong, fmt.Sprintf("%s %d times", what, n))
	}
	if f.serversHarmedLocked() > 1 {
		f.wrong = append(f.wrong, fmt.Sprintf("two servers at a time: %v", slices.Sorted(maps.Keys(f.harmed))))
	}
}

// serversHarmedLocked returns how many servers are harmed. The caller holds f.mu.
func (f *fake) serversHarmedLocked() (n int) {
	for harm := range f.harmed {
		if strings.Contains(harm, "server") {
			n++
		}
	}
	return n
}

func (f *fake) serversHarmed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.serversHarmedLocked()
}

// unset ends that something is harmed, if it is.
func (f *fake) unset(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.harmed, what)
}

func (f *fake) record(e history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

func (f *fake) Now() int64 { return int64(time.Since(f.began)) }

func (f *fake) Note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, text)
}

func (f *fake) Processes() (all []int) {
	for p := range fakeProcesses {
		all = append(all, p)
	}
	return all
}

// Replace takes a while, as a process does.
func (f *fake) Replace(ctx context.Context, process int, clock time.Duration) error {
	what := fmt.Sprintf("replaced process %d", process)
	if clock != 0 {
		what = fmt.Sprintf("clock process %d", process)
	}
	f.set(what, 1)
	defer f.set(what, -1)
	if !pause.For(ctx, 100*time.Millisecond, nil) {
		return ctx.Err()
	}
	return nil
}

func (f *fake) Pause(process int) error {
	f.set(fmt.Sprintf("paused process %d", process), 1)
	return nil
}

func (f *fake) Resume(process int) error {
	f.set(fmt.Sprintf("paused process %d", process), -1)
	return nil
}

// Helper returns one for every second process.
func (f *fake) Helper(process int) Helper {
	if process%2 == 1 {
		return nil
	}
	return fakeHelper{f, process}
}

type fakeHelper struct {
	f       *fake
	process int
}

func (h fakeHelper) set(what string, by int) {
	h.f.set(fmt.Sprintf("%s helper of process %d", what, h.process), by)
}

func (h fakeHelper) Kill() error   { h.set("killed", 1); h.set("killed", -1); return nil }
func (h fakeHelper) Pause() error  { h.set("paused", 1); return nil }
func (h fakeHelper) Resume() error { h.set("paused", -1); return nil }

func (f *fake) Links(process int) Links { return fakeLinks{f, process} }

func (f *fake) Servers() Servers {
	if f.noOwn {
		return nil
	}
	return fakeEnsemble{f}
}

func (f *fake) Tree() Tree { return fakeTree{f} }

func (f *fake) Look() (holders, waiters []Place) {
	if f.silent {
		return nil, nil
	}
	dirs := map[string]string{"a": "/root/lock-a", "b": "/root/lock-b"}
	holders, waiters, err := Look(fakeTree{f}, dirs, func(session int64) (int, bool) { return int(session) - 1, session > 0 })
	if err != nil {
		panic(err)
	}
	for _, places := range [][]Place{holders, waiters} {
		for i := range places {
			places[i].Still = places[i].Lock == f.still
		}
	}
	return holders, waiters
}

func (f *fake) Revoke(_ context.Context, lock string) error {
	f.set("revoke lock "+lock, 1)
	f.set("revoke lock "+lock, -1)
	return nil
}

type fakeLinks struct {
	f       *fake
	process int
}

func (l fakeLinks) set(what string, by int) {
	l.f.set(fmt.Sprintf("%s process %d", what, l.process), by)
}

func (l fakeLinks) Sever() int     { l.set("severed", 1); l.set("severed", -1); return 1 }
func (l fakeLinks) Blackhole()     { l.set("blackhole", 1) }
func (l fakeLinks) BlackholeUsed() { l.set("blackhole", 1) }
func (l fakeLinks) Mend()          { l.set("blackhole", -1) }

func (l fakeLinks) Delay(d time.Duration) {
	if d == 0 {
		l.set("delay", -1)
	} else {
		l.set("delay", 1)
	}
}

func (l fakeLinks) Throttle(bytesPerSecond int) {
	if bytesPerSecond == 0 {
		l.set("throttle", -1)
	} else {
		l.set("throttle", 1)
	}
}

func (l fakeLinks) SwallowAnswer() <-chan struct{} {
	l.set("swallow", 1)
	l.f.mu.Lock()
	deaf := l.f.deaf
	l.f.mu.Unlock()
	if deaf {
		return nil
	}
	dropped := make(chan struct{})
	close(dropped)
	return dropped
}

func (l fakeLinks) StopSwallowing() { l.set("swallow", -1) }

// In a fakeEnsemble server 2 leads.
type fakeEnsemble struct{ f *fake }

func (e fakeEnsemble) set(what string, id, by int) error {
	e.f.set(fmt.Sprintf("%s server %d", what, id), by)
	return nil
}

func (e fakeEnsemble) Leader(context.Context) (int, error)      { return 2, nil }
func (e fakeEnsemble) Followers(context.Context) ([]int, error) { return []int{1, 3}, nil }

// Settled waits until no server is harmed.
func (e fakeEnsemble) Settled(ctx context.Context) (int, error) {
	for e.f.unsettle || e.f.serversHarmed() > 0 {
		if !pause.For(ctx, 20*time.Millisecond, nil) {
			return 0, ctx.Err()
		}
	}
	return 2, nil
}

func (e fakeEnsemble) Kill(id int) error { return e.set("killed", id, 1) }

func (e fakeEnsemble) Restart(ctx context.Context, id int) error {
	if !pause.For(ctx, time.Second, nil) || e.f.lame != nil {
		return e.f.lame
	}
	return e.set("killed", id, -1)
}

func (e fakeEnsemble) StallLogs() (func() error, error) {
	return func() error { return e.set("stalled", 0, -1) }, e.set("stalled", 0, 1)
}
func (e fakeEnsemble) Pause(id int) error   { return e.set("paused", id, 1) }
func (e fakeEnsemble) Resume(id int) error  { return e.set("paused", id, -1) }
func (e fakeEnsemble) Isolate(id int) error { return e.set("isolated", id, 1) }

func (e fakeEnsemble) Heal() {
	for id := range fakeServers {
		e.f.unset(fmt.Sprintf("isolated server %d", id+1))
	}
}

// A fakeTree is the nodes. A deleted node of a process comes back at the end of its queue.
type fakeTree struct{ f *fake }

func (t fakeTree) Children(dir string) (names []string, _ zkio.Stat, _ error) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	for p := range t.f.nodes {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	return names, zkio.Stat{}, nil
}

// GetAll says that the node of a process belongs to the session of the number in its name.
func (t fakeTree) GetAll(paths ...string) (reads []zkio.Read) {
	for _, p := range paths {
		var owner int64
		if _, err := fmt.Sscanf(path.Base(p), "_c_%032x-", &owner); err != nil || owner > fakeProcesses {
			owner = 0
		}
		reads = append(reads, zkio.Read{Path: p, Stat: zkio.Stat{EphemeralOwner: owner}})
	}
	return reads
}

func (t fakeTree) Create(p string, _ []byte, _ []zkio.ACL) error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.f.did["stranger"]++
	t.f.nodes[p] = true
	return nil
}

func (t fakeTree) Delete(p string, _ int32) error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if !t.f.nodes[p] {
		return zkio.ErrNoNode
	}
	role := t.f.roleLocked(p)
	delete(t.f.nodes, p)
	if at := len(p) - 10; strings.HasPrefix(path.Base(p), "_c_00000000000000000000") {
		t.f.did[role+" deleted"]++
		t.f.made++
		t.f.nodes[fmt.Sprintf("%s%010d", p[:at], 100+t.f.made)] = true
	}
	return nil
}

// roleLocked returns what a node is in its queue: "holder" or "waiter". The caller holds
// f.mu.
func (f *fake) roleLocked(node string) string {
	var names []string
	for p := range f.nodes {
		if path.Dir(p) == path.Dir(node) {
			names = append(names, path.Base(p))
		}
	}
	q := queue.List(names, false, 0)
	q.Sort()
	if c, found := q.Find(path.Base(node)); found && c.Turn {
		return "holder"
	}
	return "waiter"
}

func (t fakeTree) Multi(ops ...zkio.Op) (results []zkio.OpResult, err error) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	for _, op := range ops {
		t.f.did["contender"]++
		t.f.made++
		t.f.nodes[fmt.Sprintf("%s%010d", op.Path(), 100+t.f.made)] = true
	}
	return make([]zkio.OpResult, len(ops)), nil
}

// errLame is what a fake's Restart may return.
var errLame = errors.New("it does not start")
