// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// marked is an exclusive lock that reports when its holder was interrupted, and markPath
// is the mark.
const (
	marked   = "marked"
	marksDir = root + "/_held_/"
	markPath = marksDir + marked
)

// marks judges the reports that a holder was interrupted, by what the workers have done
// and by the mark, which it looks at before each request that the server carries out.
//
// A grant whose holder was interrupted is one that was lost or closed while a worker was
// inside, whose function panicked, or whose worker was told of an interruption and did not
// recover. The next grant must be told. A grant that was released in good order must not
// be reported. There are grants that no worker has seen, so a report names the contender
// whose mark was found.
type marks struct {
	w *world

	mu     sync.Mutex // protects what follows
	grants map[string]*markedGrant
	seen   sighting
	from   map[string]sighting // by the contender that took the mark over: what it was before
}

// A sighting is a look at the mark.
type sighting struct {
	node  string // the contender whose mark it was; "" if there was none
	czxid int64
	at    time.Time // of the last look that has shown it
}

// A markedGrant is what workers know about one grant.
type markedGrant struct {
	node        string // its contender's
	token       uint64
	who         string
	told        bool
	left        bool // the process deleted the node
	recovered   bool
	interrupted bool // but for a worker that was told and did not recover
}

func newMarks(w *world) *marks {
	return &marks{w: w, grants: make(map[string]*markedGrant), from: make(map[string]sighting)}
}

// delay is the lock-delay.
func (ms *marks) delay() time.Duration {
	if ms.w.plan.seed%2 == 0 {
		return 0
	}
	return ms.w.plan.timeout / 5
}

// hasDeleted reports whether the nemesis has deleted the node at path.
func (r *referee) hasDeleted(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deleted[path]) > 0
}

// look looks at the mark.
func (ms *marks) look() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.lookLocked()
}

func (ms *marks) lookLocked() {
	now := sighting{at: time.Now()}
	if data, stat, ok := ms.w.srv.Get(markPath); ok {
		var says struct{ Node string }
		_ = json.Unmarshal(data, &says) // otherwise it says nothing
		now.node, now.czxid = says.Node, stat.Czxid
	}
	// A mark that was deleted and made again has another czxid.
	if now.node != ms.seen.node && now.czxid == ms.seen.czxid && now.node != "" {
		ms.from[now.node] = ms.seen
	}
	ms.seen = now
}

// enter notes that a worker has been granted the lock.
func (ms *marks) enter(who string, h manager.Hold, g manager.Grant) *markedGrant {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.lookLocked()
	node := name(g.Path)
	if known := ms.grants[node]; known != nil {
		return known
	}
	first, _, _ := h.Granted().Poll() // h.Grant forgets what another worker has recovered from
	known := &markedGrant{node: node, token: g.Token, who: who, told: first.Abandoned}
	ms.grants[node] = known
	h.Released().OnDone(func(_ struct{}, err error) {
		// Otherwise the node may have gone with its session.
		alive := slices.ContainsFunc(ms.w.srv.Sessions(), func(s zktest.SessionInfo) bool { return s.ID == g.Session })
		left := err == nil && alive && !ms.w.ref.hasDeleted(g.Path)
		ms.note(func() { known.left = left })
	})
	if before, ok := ms.from[node]; known.told && ok && time.Since(before.at) < ms.delay() {
		ms.w.fail("%s is granted %s %v after it has taken the mark over, and the lock-delay is %v", who, node, time.Since(before.at), ms.delay())
	}
	return known
}

// note changes what is known about a grant.
func (ms *marks) note(change func()) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	change()
}

// clean reports whether the grant's holders have all left in good order.
func (g *markedGrant) clean() bool {
	return g.left && !g.interrupted && (!g.told || g.recovered)
}

// end judges what was told.
func (ms *marks) end() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	all := slices.SortedFunc(maps.Values(ms.grants), func(a, b *markedGrant) int { return cmp.Compare(a.token, b.token) })
	for i, g := range all {
		if i > 0 {
			before := all[i-1]
			if (before.interrupted || before.told && !before.recovered) && !g.told {
				ms.w.fail("%s was interrupted (token %d), and %s is not told (token %d)", before.who, before.token, g.who, g.token)
			}
			if before.interrupted && g.told {
				ms.w.did("interruption reported")
			}
		}
		if !g.told {
			continue
		}
		before, ok := ms.from[g.node]
		if known := ms.grants[before.node]; !ok {
			ms.w.fail("%s is told of an interruption (token %d), and no mark was there", g.who, g.token)
		} else if known != nil && known.clean() {
			ms.w.fail("%s is told of an interruption (token %d), and %s has released the lock in good order (token %d)", g.who, g.token, known.who, known.token)
		}
	}
}

// marked visits the lock that reports interruptions.
func (k *worker) marked() {
	k.w.did("marked")
	l, err := k.pr.exclusive(marked)
	if err == nil {
		err = l.ReportAbandoned(k.w.marks.delay())
	}
	if !k.result("marked", err) {
		<-after(100 * time.Millisecond) // until the process has a new manager, or longer
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(2*k.w.plan.timeout))
	defer cancel()
	if k.rng.IntN(3) > 0 {
		h, err := l.Lock(ctx)
		if k.result("marked lock", err, context.DeadlineExceeded) {
			k.seen(h)
			k.mark(h)
			h.Release()
		}
		return
	}
	defer func() {
		if p := recover(); p != nil && p != k {
			panic(p)
		}
	}()
	err = l.Do(ctx, func(_ context.Context, h manager.Hold) error {
		k.seen(h)
		if g := k.mark(h); g != nil && k.rng.IntN(3) == 0 {
			k.say("panics")
			k.w.marks.note(func() { g.interrupted = true })
			panic(k)
		}
		return nil
	})
	k.result("marked do", err, context.DeadlineExceeded)
}

// mark works under the lock that reports interruptions. It returns nil if the lock was
// lost before.
func (k *worker) mark(h manager.Hold) *markedGrant {
	v := k.w.ref.enter(k.pr.label, h, true)
	if v == nil {
		return nil
	}
	defer k.w.ref.left(v)
	g := k.w.marks.enter(k.name, h, v.grant)
	k.say("inside %s, token %d, told %t", marked, g.token, g.told)
	if k.rng.IntN(3) == 0 {
		<-after(k.upTo(k.w.plan.timeout))
	} else {
		k.pause(50 * time.Millisecond)
	}
	if g.told && k.rng.IntN(3) > 0 && h.Recovered() == nil {
		k.say("recovered")
		k.w.marks.note(func() { g.recovered = true })
	}
	if err := h.Err(); errors.Is(err, manager.ErrLost) || errors.Is(err, manager.ErrClosed) {
		k.say("interrupted")
		k.w.marks.note(func() { g.interrupted = true })
	}
	return g
}

// exclusive returns a lock of the process's present manager.
func (pr *process) exclusive(name string) (*manager.Lock, error) {
	pr.mu.Lock()
	m := pr.m
	pr.mu.Unlock()
	return m.Exclusive(name)
}
