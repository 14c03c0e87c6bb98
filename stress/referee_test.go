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

// court is what a lock's processes share, within one test: the file, and a list
// of what their referees have seen. An flock belongs to an open file, so two
// referees that have opened it exclude each other as if they were in two processes.
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

// kinds returns what has been seen.
func (c *court) kinds() (kinds []violationKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.seen {
		kinds = append(kinds, v.Kind)
	}
	return kinds
}

// Each row is a course of events in words: "A1+5" is that worker 1 of process A
// enters an exclusive lock with token 5, "A1w5" the write lock, "A1r5" the read
// lock, "A1-" that it leaves, "lost5" that the rounds of token 5 are lost.
func TestReferee(t *testing.T) {
	tests := []struct {
		name   string
		course string
		want   []violationKind
	}{
		// What a lock that works does.
		{"one after the other", "A1+5 A1- B1+6 B1- A1+7 A1-", nil},
		{"together in one process", "A1+5 A2+5 A1- A3+5 A2- A3- B1+6 B1-", nil},
		{"all of a round are out for a moment", "A1+5 A1- A2+5 A2- B1+6 B1-", nil},
		{"a process again, nobody between", "A1+5 A1- A1+6 A1-", nil},
		{"a round that was lost is still inside when the process's next one begins", "A1+5 lost5 A2+6 A1- A2- B1+7 B1-", nil},
		{"and goes later than that one", "A1+5 lost5 A2+6 A2- A1- B1+7 B1-", nil},

		// What it must not do.
		{"two processes", "A1+5 B1+6 B1- A1-", []violationKind{overlap}},
		{"two processes, in a round that is under way", "A1+5 A2+5 A1- B1+6 A2- B1-", []violationKind{overlap}},
		{"one overlap is reported once for each round", "A1+5 B1+6 B2+6 B1- B3+6 B2- B3- A1-", []violationKind{overlap}},
		{"who was refused does not take the other's flock away", "A1+5 B1+6 B1- C1+7 C1- A1-", []violationKind{overlap, overlap}},
		{"nor writes into the other's file", "A1+5 B1+9 B1- A1- C1+6 C1-", []violationKind{overlap}},
		{"nor keeps out whoever comes when the other has left", "A1+5 B1+6 A1- B1- C1+7 C1-", []violationKind{overlap}},
		{"a lost round, in another process's way", "A1+5 lost5 B1+6 A1- B1-", []violationKind{overlap}},
		{"a token that fell", "A1+5 A1- B1+4 B1-", []violationKind{tokenFell}},
		{"a token that fell below the highest, not the last", "A1+5 A1- B1+4 B1- C1+4 C1-", []violationKind{tokenFell, tokenFell}},
		{"a process's own token that fell", "A1+5 A1- A1+4 A1-", []violationKind{tokenFell}},
		{"one token for two processes", "A1+5 A1- B1+5 B1-", []violationKind{tokenShared}},
		{"two rounds at once", "A1+5 A2+6 A1- A2-", []violationKind{twoRounds}},
		{"two rounds at once, in the wrong order", "A1+6 A2+5 A1- A2-", []violationKind{twoRounds, tokenFell}},

		// What a read/write lock that works does.
		{"readers together", "A1r5 B1r6 C1r7 A1- A2r5 B1- A2- C1-", nil},
		{"readers together, in any order of their tokens", "C1r7 A1r5 B1r6 A1- B1- C1-", nil},
		{"a writer, readers, a writer", "A1w5 A1- A1r6 B1r7 A1- B1- B1w8 B1- A1r9 A1-", nil},
		{"writers one after the other", "A1w5 A1- B1w6 B1- A1w7 A1-", nil},
		{"a reader beside its own writer", "A1w5 A2r5 A2- A1- B1w6 B1-", nil},
		{"and the reader stays", "A1w5 A2r5 A1- A2- B1w6 B1-", nil},
		{"others read beside a downgraded reader", "A1w5 A2r5 A1- B1r6 A2- B1- B1w7 B1-", nil},
		{"the writer's round goes on after one was downgraded", "A1w5 A2r5 A1- A3w5 A2- A3- B1r6 B1-", nil},
		{"the reader of a write round is first at the referee", "A1r5 A2w5 A2- A1- B1w6 B1-", nil},
		{"that round once more, when all were out", "A1w5 A2r5 A1- A2- A3w5 A3- A4r5 A4- B1w6 B1-", nil},
		{"a lost reader is still inside when its process writes", "A1r5 lost5 A2w6 A1- A2- B1w7 B1-", nil},
		{"and goes later than the writer", "A1r5 lost5 A2w6 A2- A1- B1w7 B1-", nil},
		{"a lost reader beside its process's next one", "A1r5 lost5 A2r6 A1- B1r7 A2- B1- C1w8 C1-", nil},

		// What it must not do.
		{"two writers", "A1w5 B1w6 B1- A1-", []violationKind{overlap}},
		{"a reader beside another process's writer", "A1w5 B1r6 B1- A1-", []violationKind{overlap}},
		{"a writer beside another process's reader", "A1r5 B1w6 B1- A1-", []violationKind{overlap}},
		{"beside readers of two", "A1r5 B1r6 C1w7 C1- A1- B1-", []violationKind{overlap}},
		{"beside one that came in later than the first, who has left", "A1r5 B1r6 A1- C1w7 B1- C1-", []violationKind{overlap}},
		{"a reader who was refused does not take the writer's flocks away", "A1w5 B1r6 B1- C1r7 C1- A1-", []violationKind{overlap, overlap}},
		{"a writer who was refused does not take the reader's flock away", "A1r5 B1w6 B1- C1w7 C1- A1-", []violationKind{overlap, overlap}},
		{"nor keeps anybody out later", "A1r5 B1w6 A1- B1- C1w7 C1- A1r8 A1-", []violationKind{overlap}},
		{"a writer between a downgrade's two nodes", "A1w5 A2r5 A1- B1w6 B1- A2-", []violationKind{overlap}},
		{"a writer, when the reader of a write round has left", "A1w5 A2r5 A2- B1w6 B1- A1-", []violationKind{overlap}},
		{"a reader, when the reader of a write round has left", "A1w5 A2r5 A2- B1r6 B1- A1-", []violationKind{overlap}},
		{"a writer, after a downgrade and back", "A1w5 A2r5 A1- A3w5 A2- B1w6 B1- A3-", []violationKind{overlap}},
		{"a reader, after a downgrade and back", "A1w5 A2r5 A1- A3w5 A2- B1r6 B1- A3-", []violationKind{overlap}},
		{"a process writes beside its own reader and another's", "A1r5 lost5 B1r6 A2w7 A2- C1w8 C1- A1- B1-", []violationKind{overlap, overlap}},
		{"who was refused for its own lost reader still has that one inside", "A1r5 lost5 B1r6 A2w7 A2- B1- C1w8 C1- A1-", []violationKind{overlap, overlap}},
		{"a reader beside a writer who was refused for a reader", "A1r5 B1w6 C1r7 C1- B1- A1-", []violationKind{overlap, overlap}},
		{"who was refused, downgraded", "A1r5 B1w6 B2r6 A1- B1- C1w7 C1- B2-", []violationKind{overlap, overlap}},
		{"a lost reader, in another process's way", "A1r5 lost5 B1w6 A1- B1-", []violationKind{overlap}},
		{"a writer's token that fell", "A1w5 A1- B1w4 B1-", []violationKind{tokenFell}},
		{"a writer's token below a reader's", "A1r5 A1- B1r7 B1- A1w6 A1-", []violationKind{tokenFell}},
		{"and below one that the reader's process has had before", "A1r7 A1- A1r5 A1- B1w6 B1-", []violationKind{tokenFell}},
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

func TestViolationSaysWhoItWas(t *testing.T) {
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
		t.Errorf("got %+v, want pid 2 with token 18 against pid 1 with token 17", v)
	}
	for _, part := range []string{"overlap", `"l"`, "pid 2", "18", "pid 1", "17"} {
		if text := c.seen[0].String(); !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

// sharedLock is a lock that processes own and goroutines share, made of a mutex:
// what the referee is to judge, with a switch to break it.
type sharedLock struct {
	mu     sync.Mutex // held by the process that owns the lock, from its first holder to its last
	token  uint64     // of the last round; protected by mu
	broken bool       // rounds end before their last holder has left
}

// sharedLockProcess is a process's part of it.
type sharedLockProcess struct {
	lock *sharedLock

	mu      sync.Mutex // held also while the process waits for the lock, as all its newcomers then wait
	holders int
	token   uint64
	lost    chan struct{}
}

func (p *sharedLockProcess) acquire() (token uint64, lost <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders == 0 {
		p.lock.mu.Lock()
		p.lock.token++
		p.token, p.lost = p.lock.token, make(chan struct{})
	}
	p.holders++
	return p.token, p.lost
}

func (p *sharedLockProcess) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders--
	if p.holders == 0 {
		p.lock.mu.Unlock()
	}
}

// Many goroutines of several processes go in and out as fast as they can. With
// a lock that works nothing may be seen, whatever the schedule; with one that
// lets go before its holders leave, something must.
func TestRefereeAgainstALockThatIsKnown(t *testing.T) {
	for _, broken := range []bool{false, true} {
		name := map[bool]string{false: "works", true: "broken"}[broken]
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			lock := &sharedLock{broken: broken}
			var workers sync.WaitGroup
			for pid := range 3 {
				r, p := c.process(pid+1), &sharedLockProcess{lock: lock}
				for g := range 4 {
					rng := rand.New(rand.NewPCG(uint64(pid), uint64(g)))
					workers.Go(func() {
						for range 300 {
							visit(t, r, p, rng)
						}
					})
				}
			}
			workers.Wait()
			if got := c.kinds(); (len(got) > 0) != broken {
				t.Errorf("saw %d violations, the first of %q", len(got), slices.Compact(got))
			}
		})
	}
}

// visit is what a worker does: in with a hold, out before it is released. With
// a broken lock the hold is worth nothing from the moment it is given.
func visit(t *testing.T, r *referee, p *sharedLockProcess, rng *rand.Rand) {
	token, lost := p.acquire()
	if p.lock.broken {
		p.release()
	} else {
		defer p.release()
	}
	leave, err := r.enter(manager.KindExclusive, token, lost)
	if err != nil {
		t.Error(err)
		return
	}
	for range rng.IntN(100) {
		runtime.Gosched()
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
}

// sharedRWLock is the same for a read/write lock: processes read together or one
// writes, which may read, too, and read on when it has written.
type sharedRWLock struct {
	mu      sync.Mutex
	changed *sync.Cond     // on mu; what follows has changed
	token   uint64         // of the last round
	writer  *sharedRWOwner // that has the write lock; nil: nobody
	readers int            // processes that have the read lock
	broken  bool
}

// sharedRWOwner is a process's part of it; protected by the lock's mu.
type sharedRWOwner struct {
	lock        *sharedRWLock
	read, write struct {
		holders int
		token   uint64
	}
}

func (p *sharedRWOwner) acquireRead() (token uint64) {
	l := p.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	for p.read.holders == 0 && l.writer != nil && l.writer != p {
		l.changed.Wait()
	}
	if p.read.holders++; p.read.holders == 1 {
		l.readers++
		if l.writer == p {
			p.read.token = p.write.token
		} else {
			l.token++
			p.read.token = l.token
		}
	}
	return p.read.token
}

func (p *sharedRWOwner) acquireWrite() (token uint64) {
	l := p.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	for p.write.holders == 0 && (l.writer != nil || l.readers > 0) {
		l.changed.Wait()
	}
	if p.write.holders++; p.write.holders == 1 {
		l.writer = p
		l.token++
		p.write.token = l.token
	}
	return p.write.token
}

func (p *sharedRWOwner) releaseRead() {
	l := p.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.read.holders--; p.read.holders == 0 {
		l.readers--
		l.changed.Broadcast()
	}
}

func (p *sharedRWOwner) releaseWrite() {
	l := p.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.write.holders--; p.write.holders == 0 {
		l.writer = nil
		l.changed.Broadcast()
	}
}

func TestRefereeAgainstAReadWriteLockThatIsKnown(t *testing.T) {
	for _, broken := range []bool{false, true} {
		name := map[bool]string{false: "works", true: "broken"}[broken]
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			lock := &sharedRWLock{broken: broken}
			lock.changed = sync.NewCond(&lock.mu)
			var workers sync.WaitGroup
			for pid := range 3 {
				r, p := c.process(pid+1), &sharedRWOwner{lock: lock}
				for g := range 4 {
					rng := rand.New(rand.NewPCG(uint64(pid), uint64(g)))
					workers.Go(func() {
						for range 300 {
							visitReadWrite(t, r, p, rng)
						}
					})
				}
			}
			workers.Wait()
			if got := c.kinds(); (len(got) > 0) != broken {
				t.Errorf("saw %d violations, the first of %q", len(got), slices.Compact(got))
			}
		})
	}
}

// visitReadWrite reads, or writes, or writes and reads on. With a broken lock
// nothing is left of the read lock of who has released the write lock.
func visitReadWrite(t *testing.T, r *referee, p *sharedRWOwner, rng *rand.Rand) {
	enter := func(kind manager.Kind, token uint64) (leave func()) {
		out, err := r.enter(kind, token, nil)
		if err != nil {
			t.Error(err)
		}
		for range rng.IntN(50) {
			runtime.Gosched()
		}
		return func() {
			if err := out(); err != nil {
				t.Error(err)
			}
		}
	}
	what := rng.IntN(3)
	if what == 0 {
		leave := enter(manager.KindRead, p.acquireRead())
		leave()
		p.releaseRead()
		return
	}
	leave := enter(manager.KindWrite, p.acquireWrite())
	if what == 1 {
		leave()
		p.releaseWrite()
		return
	}
	leaveRead := enter(manager.KindRead, p.acquireRead())
	if p.lock.broken {
		p.releaseRead()
	} else {
		defer p.releaseRead()
	}
	leave()
	p.releaseWrite()
	for range rng.IntN(50) {
		runtime.Gosched()
	}
	leaveRead()
}
