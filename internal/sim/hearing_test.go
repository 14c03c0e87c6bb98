// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A hearing is what a process was told about who holds a lock. It checks that no answer
// is older than what the process was told before it asked: once a call has said that
// another contender holds the lock, none that begins later may name the one before. A
// node does not come back, and if another has its name, its token differs.
//
// A process that reads beside others names itself, and later, when it has left, the
// first of them, so of a read/write lock its own nodes do not count.
type hearing struct {
	w     *world
	title string
	both  bool // it is of a read/write lock

	mu     sync.Mutex // protects what follows
	clock  int
	told   map[znode]int // when a call first named the node
	passed map[znode]int // when a later call first named another
}

func newHearing(w *world, title string, both bool) *hearing {
	return &hearing{w: w, title: title, both: both, told: make(map[znode]int), passed: make(map[znode]int)}
}

// begin returns the time at which a call begins.
func (h *hearing) begin() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// end notes, and checks, what a call has said that began at that time.
func (h *hearing) end(what string, began int, c *manager.Contender) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	var now znode
	if c != nil {
		if h.both && c.Own {
			return
		}
		now = znode{c.Path, int64(c.Token)}
		if at, ok := h.passed[now]; ok && at < began {
			h.w.fail("%s of %s names %s (%d), and the process was told of another since", what, h.title, name(c.Path), c.Token)
		}
		if _, ok := h.told[now]; !ok {
			h.told[now] = h.clock
		}
	}
	for node, at := range h.told {
		if node != now && at < began {
			h.passed[node] = h.clock
			delete(h.told, node)
		}
	}
}

// holder asks who holds the lock.
func (k *worker) holder(l lock) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := l.heard.begin()
	c, err := l.Holder(ctx)
	if k.result("holder", err, context.DeadlineExceeded) {
		l.heard.end("Holder", began, c)
	}
}

// cached asks the same of the process's memory, perhaps several times.
func (k *worker) cached(l lock) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 1 + k.rng.IntN(4) {
		began := l.heard.begin()
		c, err := l.CachedHolder(ctx)
		if !k.result("cached holder", err, context.DeadlineExceeded) {
			return
		}
		l.heard.end("CachedHolder", began, c)
		k.pause(20 * time.Millisecond)
	}
}

// watch follows who holds the lock for a while.
func (k *worker) watch(l lock) {
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(3*time.Second))
	defer cancel()
	most := 1 + k.rng.IntN(10)
	slow := pick(k.rng, 0, 0, 100*time.Millisecond)
	err := l.follow(ctx, func(*manager.Contender) bool {
		if slow > 0 {
			<-after(k.upTo(slow))
		}
		most--
		return most > 0
	})
	if err != nil {
		k.result("watch holder", err, context.DeadlineExceeded)
	}
}

// follow calls fn with each holder until it returns false, and checks that none comes
// twice.
func (l lock) follow(ctx context.Context, fn func(*manager.Contender) bool) error {
	seen := make(map[znode]bool)
	var last *manager.Contender
	first := true
	for c, err := range l.WatchHolder(ctx) {
		if err != nil {
			return err
		}
		if c != nil {
			node := znode{c.Path, int64(c.Token)}
			if seen[node] {
				l.heard.w.fail("WatchHolder of %s tells of %s twice", l.title, name(c.Path))
			}
			seen[node] = true
		} else if last == nil && !first {
			l.heard.w.fail("WatchHolder of %s tells twice in a row that it is free", l.title)
		}
		first, last = false, c
		if !fn(c) {
			return nil
		}
	}
	return nil
}

// A follower follows a lock of a process all the time.
type follower struct {
	pr   *process
	lock int // its index

	mu   sync.Mutex // protects last
	last *manager.Contender
}

// run follows the lock, in one manager after the other, until ctx ends.
func (f *follower) run(ctx context.Context) {
	for {
		l := f.pr.all()[f.lock]
		err := l.follow(ctx, func(c *manager.Contender) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.last = c
			return true
		})
		switch {
		case ctx.Err() != nil:
			return
		case !errors.Is(err, manager.ErrClosed):
			f.pr.w.fail("WatchHolder of %s in %s: %v", l.title, f.pr.label, err)
			return
		}
		<-after(time.Second) // until the process has a new manager
	}
}

// check checks that the last that it was told is that the lock is free.
func (f *follower) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		f.pr.w.fail("WatchHolder of %s in %s has told last that %s holds it, which is free", f.pr.all()[f.lock].title, f.pr.label, name(f.last.Path))
	}
}
