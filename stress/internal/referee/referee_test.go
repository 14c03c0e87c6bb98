// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/flock"
	"github.com/holdfast-go/holdfast/manager"
)

// court stands for the processes that share a lock, within one test: it has the
// files, and the violations seen by their referees. An flock belongs to an open
// file, so two referees exclude each other as if they were in two processes.
type court struct {
	t    *testing.T
	path string

	mu   sync.Mutex
	seen []Violation // protected by mu
}

func newCourt(t *testing.T) *court {
	if flock.Unsupported != "" {
		t.Fatal(flock.Unsupported)
	}
	return &court{t: t, path: filepath.Join(t.TempDir(), "lock")}
}

// process returns the referee of a process.
func (c *court) process(pid int) *Referee {
	c.t.Helper()
	r, err := New("l", c.path, pid, func(v Violation) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, v)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			c.t.Error(err)
		}
	})
	r.pid = pid
	return r
}

// kinds returns the kinds of violations seen.
func (c *court) kinds() (kinds []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.seen {
		kinds = append(kinds, v.Kind)
	}
	return kinds
}

// run has processes A, B and C enter and leave as the course says.
func (c *court) run(course string) {
	c.t.Helper()
	processes := map[byte]*Referee{'A': c.process(1), 'B': c.process(2), 'C': c.process(3)}
	lost := map[string]chan struct{}{}
	lostOf := func(token string) chan struct{} {
		if lost[token] == nil {
			lost[token] = make(chan struct{})
		}
		return lost[token]
	}
	leave := map[string]func() error{}
	kinds := map[byte]manager.Kind{'+': manager.KindExclusive, 'r': manager.KindRead, 'w': manager.KindWrite, 'u': manager.KindUpgradable}
	for word := range strings.FieldsSeq(course) {
		if token, ok := strings.CutPrefix(word, "lost"); ok {
			close(lostOf(token))
		} else if word[2] == 'm' {
			worker, token, turn := word[:2], word[3:4], word[4]-'0'
			r := processes[word[0]]
			r.Alone = true
			out, err := r.EnterTurn(manager.KindExclusive, uint64(token[0]-'0'), uint64(turn), lostOf(token))
			if err != nil {
				c.t.Fatal(err)
			}
			leave[worker] = out
		} else if kind, ok := kinds[word[2]]; ok {
			worker, token := word[:2], word[3:]
			out, err := processes[word[0]].Enter(kind, uint64(token[0]-'0'), lostOf(token))
			if err != nil {
				c.t.Fatal(err)
			}
			leave[worker] = out
		} else if err := leave[strings.TrimSuffix(word, "-")](); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestReferee has the referee judge the courses in testdata/courses.txt.
func TestReferee(t *testing.T) {
	text, err := os.ReadFile("testdata/courses.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, ": ")
		course, want, found := strings.Cut(rest, " => ")
		if !found {
			t.Fatalf("no course: %s", line)
		}
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			c.run(course)
			if got := cmp.Or(strings.Join(c.kinds(), ", "), "correct"); got != want {
				t.Errorf("saw %s, want %s", got, want)
			}
		})
	}
}

// Readers of a process that are apart are several, and no writer may be beside them.
func TestReadersApart(t *testing.T) {
	for apart, want := range map[bool]int{true: 2, false: 3} {
		c := newCourt(t)
		r := c.process(1)
		r.Apart = apart
		var leaves []func() error
		for i, kind := range []manager.Kind{manager.KindRead, manager.KindRead, manager.KindWrite} {
			leave, err := r.Enter(kind, uint64(17+i), nil)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		for _, leave := range leaves {
			if err := leave(); err != nil {
				t.Error(err)
			}
		}
		if kinds := c.kinds(); len(kinds) != want {
			t.Errorf("apart: %t, saw %q, want %d", apart, kinds, want)
		}
	}
}

func TestViolationNamesBothProcesses(t *testing.T) {
	c := newCourt(t)
	a, b := c.process(1), c.process(2)
	leaveA, errA := a.Enter(manager.KindExclusive, 17, nil)
	leaveB, errB := b.Enter(manager.KindExclusive, 18, nil)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(leaveA(), leaveB()); err != nil {
		t.Error(err)
	}
	if len(c.seen) != 1 {
		t.Fatalf("saw %v, want one", c.seen)
	}
	if v := c.seen[0]; v.PID != 2 || v.Token != 18 || v.OtherPID != 1 || v.OtherToken != 17 || v.Lock != "l" {
		t.Errorf("got %+v, want pid 2 with token 18, and pid 1 with token 17", v)
	}
	for _, part := range []string{"overlap", `"l"`, "pid 2", "18", "pid 1", "17"} {
		if text := c.seen[0].String(); !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// A fakeLock is a correct read/write lock between processes, with a switch to
// break it: several processes may read together, or one may write, and read on
// after that.
type fakeLock struct {
	mu      sync.Mutex
	changed *sync.Cond   // signals changes to the fields below
	token   uint64       // of the last round
	writer  *fakeProcess // that has the write lock, or nil
	readers int          // processes that have the read lock
	broken  bool         // visit releases holds too early
}

// A fakeProcess is a process's part of a fakeLock, whose mu protects it.
type fakeProcess struct {
	lock        *fakeLock
	read, write struct {
		holders int
		token   uint64
	}
}

// acquire takes the lock and returns its token.
func (p *fakeProcess) acquire(kind manager.Kind) (token uint64, release func()) {
	l := p.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := &p.write
	if kind == manager.KindRead {
		mine = &p.read
	}
	for mine.holders == 0 && (l.writer != nil && l.writer != p || kind != manager.KindRead && (l.writer != nil || l.readers > 0)) {
		l.changed.Wait()
	}
	if mine.holders++; mine.holders == 1 {
		if kind == manager.KindRead && l.writer == p {
			mine.token = p.write.token // a downgrade
		} else {
			l.token++
			mine.token = l.token
		}
		if kind == manager.KindRead {
			l.readers++
		} else {
			l.writer = p
		}
	}
	token = mine.token
	release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if mine.holders--; mine.holders > 0 {
			return
		}
		if kind == manager.KindRead {
			l.readers--
		} else {
			l.writer = nil
		}
		l.changed.Broadcast()
	}
	return token, release
}

// Many goroutines of several processes enter and leave as fast as they can. The
// referee must see nothing if the lock is correct, whatever the schedule, and
// something if it releases holds too early.
func TestRefereeOfAKnownLock(t *testing.T) {
	exclusive := []manager.Kind{manager.KindExclusive}
	for _, tt := range []struct {
		name   string
		broken bool
		visits [][]manager.Kind // kinds of holds taken one after the other, and released in that order
	}{
		{"exclusive", false, [][]manager.Kind{exclusive}},
		{"broken exclusive", true, [][]manager.Kind{exclusive}},
		{"read and write", false, [][]manager.Kind{{manager.KindRead}, {manager.KindWrite}, {manager.KindWrite, manager.KindRead}}},
		{"broken read and write", true, [][]manager.Kind{{manager.KindRead}, {manager.KindWrite}, {manager.KindWrite, manager.KindRead}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCourt(t)
			lock := &fakeLock{broken: tt.broken}
			lock.changed = sync.NewCond(&lock.mu)
			var workers sync.WaitGroup
			for pid := range 3 {
				r, p := c.process(pid+1), &fakeProcess{lock: lock}
				for g := range 4 {
					rng := rand.New(rand.NewPCG(uint64(pid), uint64(g)))
					workers.Go(func() {
						for range 300 {
							visit(t, r, p, rng, tt.visits[rng.IntN(len(tt.visits))])
						}
					})
				}
			}
			workers.Wait()
			if got := c.kinds(); (len(got) > 0) != tt.broken {
				t.Errorf("saw %d violations: %q", len(got), slices.Compact(got))
			}
		})
	}
}

// visit takes the holds of a visit, enters with each, and leaves before releasing
// them. With a broken lock the last hold is void at once.
func visit(t *testing.T, r *Referee, p *fakeProcess, rng *rand.Rand, kinds []manager.Kind) {
	var leaves []func()
	for i, kind := range kinds {
		token, release := p.acquire(kind)
		if p.lock.broken && i == len(kinds)-1 {
			release()
			release = func() {}
		}
		leave, err := r.Enter(kind, token, nil)
		if err != nil {
			t.Error(err)
			return
		}
		pass(rng)
		leaves = append(leaves, func() {
			if err := leave(); err != nil {
				t.Error(err)
			}
			release()
		})
	}
	for _, leave := range leaves {
		leave()
		pass(rng)
	}
}

// pass lets other goroutines run for a moment.
func pass(rng *rand.Rand) {
	for range rng.IntN(50) {
		runtime.Gosched()
	}
}
