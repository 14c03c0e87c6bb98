// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
)

// court stands for the processes that share a lock, within one test: it has the
// files, and the violations seen by their referees. An flock belongs to an open
// file, so two referees exclude each other as if they were in two processes.
type court struct {
	t    *testing.T
	path string

	mu   sync.Mutex
	seen []violation // protected by mu
}

func newCourt(t *testing.T) *court {
	if unsupported != "" {
		t.Fatal(unsupported)
	}
	return &court{t: t, path: filepath.Join(t.TempDir(), "lock")}
}

// process returns the referee of a process.
func (c *court) process(pid int) *referee {
	c.t.Helper()
	r, err := newReferee("l", c.path, pid, func(v violation) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, v)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := r.close(); err != nil {
			c.t.Error(err)
		}
	})
	r.pid = pid
	return r
}

// kinds returns the kinds of violations seen.
func (c *court) kinds() (kinds []violationKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.seen {
		kinds = append(kinds, v.Kind)
	}
	return kinds
}

// A course is a sequence of events: "A1+5" is worker 1 of process A entering an
// exclusive lock with token 5, "A1w5" a write lock, and "A1r5" a read lock; "A1-"
// is that worker leaving; "lost5" is the loss of the rounds with token 5.
func TestReferee(t *testing.T) {
	tests := []struct {
		name   string
		course string
		want   []violationKind
	}{
		// Correct.
		{"one after the other", "A1+5 A1- B1+6 B1- A1+7 A1-", nil},
		{"together in one process", "A1+5 A2+5 A1- A3+5 A2- A3- B1+6 B1-", nil},
		{"all workers of a round are outside for a moment", "A1+5 A1- A2+5 A2- B1+6 B1-", nil},
		{"the same process again", "A1+5 A1- A1+6 A1-", nil},
		{"a lost round is still inside when the process's next one begins", "A1+5 lost5 A2+6 A1- A2- B1+7 B1-", nil},
		{"and leaves after it", "A1+5 lost5 A2+6 A2- A1- B1+7 B1-", nil},

		// Wrong.
		{"two processes", "A1+5 B1+6 B1- A1-", []violationKind{overlap}},
		{"two processes, the first of whose workers has left", "A1+5 A2+5 A1- B1+6 A2- B1-", []violationKind{overlap}},
		{"an overlap is reported once for each round", "A1+5 B1+6 B2+6 B1- B3+6 B2- B3- A1-", []violationKind{overlap}},
		{"the refused process does not take the other's flock", "A1+5 B1+6 B1- C1+7 C1- A1-", []violationKind{overlap, overlap}},
		{"nor does it write into the file", "A1+5 B1+9 B1- A1- C1+6 C1-", []violationKind{overlap}},
		{"nor does it block others after the first has left", "A1+5 B1+6 A1- B1- C1+7 C1-", []violationKind{overlap}},
		{"a lost round overlaps with another process", "A1+5 lost5 B1+6 A1- B1-", []violationKind{overlap}},
		{"a token that fell", "A1+5 A1- B1+4 B1-", []violationKind{tokenFell}},
		{"a token that fell below the highest, not the last", "A1+5 A1- B1+4 B1- C1+4 C1-", []violationKind{tokenFell, tokenFell}},
		{"a process's own token that fell", "A1+5 A1- A1+4 A1-", []violationKind{tokenFell}},
		{"one token for two processes", "A1+5 A1- B1+5 B1-", []violationKind{tokenShared}},
		{"two rounds at once", "A1+5 A2+6 A1- A2-", []violationKind{twoRounds}},
		{"two rounds at once, in the wrong order", "A1+6 A2+5 A1- A2-", []violationKind{twoRounds, tokenFell}},

		// Read/write locks, correct.
		{"readers together", "A1r5 B1r6 C1r7 A1- A2r5 B1- A2- C1-", nil},
		{"readers together, in any order of their tokens", "C1r7 A1r5 B1r6 A1- B1- C1-", nil},
		{"a writer, readers, a writer", "A1w5 A1- A1r6 B1r7 A1- B1- B1w8 B1- A1r9 A1-", nil},
		{"writers one after the other", "A1w5 A1- B1w6 B1- A1w7 A1-", nil},
		{"a reader beside its own writer", "A1w5 A2r5 A2- A1- B1w6 B1-", nil},
		{"and the reader stays", "A1w5 A2r5 A1- A2- B1w6 B1-", nil},
		{"others read beside a downgraded reader", "A1w5 A2r5 A1- B1r6 A2- B1- B1w7 B1-", nil},
		{"the writer's round goes on after one was downgraded", "A1w5 A2r5 A1- A3w5 A2- A3- B1r6 B1-", nil},
		{"the reader of a write round is first at the referee", "A1r5 A2w5 A2- A1- B1w6 B1-", nil},
		{"the write round again, after all had left", "A1w5 A2r5 A1- A2- A3w5 A3- A4r5 A4- B1w6 B1-", nil},
		{"a lost reader is still inside when its process writes", "A1r5 lost5 A2w6 A1- A2- B1w7 B1-", nil},
		{"and leaves after the writer", "A1r5 lost5 A2w6 A2- A1- B1w7 B1-", nil},
		{"a lost reader beside its process's next one", "A1r5 lost5 A2r6 A1- B1r7 A2- B1- C1w8 C1-", nil},

		// Read/write locks, wrong.
		{"two writers", "A1w5 B1w6 B1- A1-", []violationKind{overlap}},
		{"a reader beside another process's writer", "A1w5 B1r6 B1- A1-", []violationKind{overlap}},
		{"a writer beside another process's reader", "A1r5 B1w6 B1- A1-", []violationKind{overlap}},
		{"a writer beside readers of two processes", "A1r5 B1r6 C1w7 C1- A1- B1-", []violationKind{overlap}},
		{"a writer beside the second reader, after the first has left", "A1r5 B1r6 A1- C1w7 B1- C1-", []violationKind{overlap}},
		{"a refused reader does not take the writer's flocks", "A1w5 B1r6 B1- C1r7 C1- A1-", []violationKind{overlap, overlap}},
		{"a refused writer does not take the reader's flock", "A1r5 B1w6 B1- C1w7 C1- A1-", []violationKind{overlap, overlap}},
		{"nor does it block others later", "A1r5 B1w6 A1- B1- C1w7 C1- A1r8 A1-", []violationKind{overlap}},
		{"a writer between a downgrade's two nodes", "A1w5 A2r5 A1- B1w6 B1- A2-", []violationKind{overlap}},
		{"a writer, when the reader of a write round has left", "A1w5 A2r5 A2- B1w6 B1- A1-", []violationKind{overlap}},
		{"a reader, when the reader of a write round has left", "A1w5 A2r5 A2- B1r6 B1- A1-", []violationKind{overlap}},
		{"a writer, after a downgrade and back", "A1w5 A2r5 A1- A3w5 A2- B1w6 B1- A3-", []violationKind{overlap}},
		{"a reader, after a downgrade and back", "A1w5 A2r5 A1- A3w5 A2- B1r6 B1- A3-", []violationKind{overlap}},
		{"a process writes beside its own reader and another's", "A1r5 lost5 B1r6 A2w7 A2- C1w8 C1- A1- B1-", []violationKind{overlap, overlap}},
		{"a refused writer's own lost reader is still inside", "A1r5 lost5 B1r6 A2w7 A2- B1- C1w8 C1- A1-", []violationKind{overlap, overlap}},
		{"a reader beside a writer that was refused because of a reader", "A1r5 B1w6 C1r7 C1- B1- A1-", []violationKind{overlap, overlap}},
		{"a refused writer downgrades", "A1r5 B1w6 B2r6 A1- B1- C1w7 C1- B2-", []violationKind{overlap, overlap}},
		{"a lost reader overlaps with another process", "A1r5 lost5 B1w6 A1- B1-", []violationKind{overlap}},
		{"a writer's token that fell", "A1w5 A1- B1w4 B1-", []violationKind{tokenFell}},
		{"a writer's token below a reader's", "A1r5 A1- B1r7 B1- A1w6 A1-", []violationKind{tokenFell}},
		{"and below an earlier token of the reader's process", "A1r7 A1- A1r5 A1- B1w6 B1-", []violationKind{tokenFell}},
		{"a reader's token below a writer's", "A1w5 A1- B1r4 B1-", []violationKind{tokenFell}},
		{"a reader with another process's writer's token", "A1w5 A1- B1r5 B1-", []violationKind{tokenShared}},
		{"a writer with another process's reader's token", "A1r5 A1- B1r5 B1- A1w5 A1-", []violationKind{tokenShared}},
		{"a reader with a token of its own beside its writer", "A1w5 A2r6 A1- A2-", []violationKind{twoRounds}},
		{"a writer beside its process's reader", "A1r5 A2w6 A1- A2-", []violationKind{twoRounds}},
		{"two read rounds at once", "A1r5 A2r6 A1- A2-", []violationKind{twoRounds}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCourt(t)
			processes := map[byte]*referee{'A': c.process(1), 'B': c.process(2), 'C': c.process(3)}
			lost := map[string]chan struct{}{}
			lostOf := func(token string) chan struct{} {
				if lost[token] == nil {
					lost[token] = make(chan struct{})
				}
				return lost[token]
			}
			leave := map[string]func() error{}
			kinds := map[byte]manager.Kind{'+': manager.KindExclusive, 'r': manager.KindRead, 'w': manager.KindWrite}
			for word := range strings.FieldsSeq(tt.course) {
				if token, ok := strings.CutPrefix(word, "lost"); ok {
					close(lostOf(token))
				} else if kind, ok := kinds[word[2]]; ok {
					worker, token := word[:2], word[3:]
					out, err := processes[word[0]].enter(kind, uint64(token[0]-'0'), lostOf(token))
					if err != nil {
						t.Fatal(err)
					}
					leave[worker] = out
				} else if err := leave[strings.TrimSuffix(word, "-")](); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.kinds(); !slices.Equal(got, tt.want) {
				t.Errorf("saw %q, want %q", got, tt.want)
			}
		})
	}
}

func TestViolationNamesBothProcesses(t *testing.T) {
	c := newCourt(t)
	a, b := c.process(1), c.process(2)
	leaveA, errA := a.enter(manager.KindExclusive, 17, nil)
	leaveB, errB := b.enter(manager.KindExclusive, 18, nil)
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
func visit(t *testing.T, r *referee, p *fakeProcess, rng *rand.Rand, kinds []manager.Kind) {
	var leaves []func()
	for i, kind := range kinds {
		token, release := p.acquire(kind)
		if p.lock.broken && i == len(kinds)-1 {
			release()
			release = func() {}
		}
		leave, err := r.enter(kind, token, nil)
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
