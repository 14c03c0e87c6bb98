// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// An own is a Lock in the role of what this process holds and waits for. Each answer to that is
// given here: to State and ReleaseIdle, to Holder, CachedHolder and Ask, to the mailbox and Revoke,
// to Locks and Close.
//
// A process holds a lock by its present round, or by a place of LockAll, which is in no
// chain; readers can do so by several. It is first in a queue with a node of a round that
// is still FETCHING if that does not know yet, or if LockAll waits for another lock.
type own Lock

func (l *Lock) own() *own { return (*own)(l) }

// groups are the calls of LockAll that are not over.
type groups struct {
	mu sync.Mutex // protects the map; no other lock is taken while it is held

	// places are those in the queue of each lock. A slice in it never changes. A lock that has
	// an entry has state.Together noted.
	places map[*Lock][]*place
}

func (gs *groups) add(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.places == nil {
		gs.places = make(map[*Lock][]*place)
	}
	for _, p := range g.places {
		l := p.round.lock
		gs.places[l] = append(slices.Clip(gs.places[l]), p)
		l.noted.Raise(state.Together)
	}
}

// remove takes g out, if it is there.
func (gs *groups) remove(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, p := range g.places {
		l := p.round.lock
		rest := slices.DeleteFunc(slices.Clone(gs.places[l]), func(other *place) bool { return other == p })
		if len(rest) > 0 {
			gs.places[l] = rest
			continue
		}
		delete(gs.places, l)
		l.noted.Take(state.Together)
	}
}

// places returns those that calls of LockAll have in the lock's queue, or want there.
func (l *own) places() []*place {
	if !l.noted.Load().Has(state.Together) {
		return nil
	}
	gs := &l.m.groups
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return gs.places[(*Lock)(l)]
}

// live ranges over the rounds in which callers of this process hold the lock, wait for it, or
// have left it a moment ago: those of the chain, from the present one on, and those of
// LockAll.
func (l *own) live() iter.Seq[*round] {
	return func(yield func(*round) bool) {
		var before, again *round
		for r := l.cur.Load(); r != nil; {
			if r != again && r.word.Load().Phase() != state.Free && !yield(r) {
				return
			}
			next := r.next.Load()
			if next == passed {
				// The present one has moved on meanwhile, or r was merged into it.
				next, again = l.cur.Load(), before
			}
			before, r = r, next
		}
		for _, p := range l.places() {
			if !yield(p.round) {
				return
			}
		}
	}
}

// State returns the lock's phase and the number of callers in this process that
// hold it or wait for it, at this moment. If some hold it, those that wait for the next grant
// are not counted, nor are they while the lock is being released. Callers of LockAll count
// as others do. A lock that lingers is state.Retained with 0 holders. It does not block.
func (l *Lock) State() (state.Phase, int) {
	phase, n := state.Free, 0
	for r := range l.own().live() {
		w := r.word.Load()
		switch p := w.Phase(); {
		case p == phase:
			n += w.Holders()
		case p == state.Retained, p == state.Releasing && phase != state.Retained, p == state.Fetching && phase == state.Free:
			phase, n = p, w.Holders()
		}
	}
	return phase, n
}

// waiting returns how many callers in this process wait for the lock.
func (l *own) waiting() (n int) {
	for r := range l.live() {
		if w := r.word.Load(); w.Phase() == state.Fetching {
			n += w.Holders()
		}
	}
	return n
}

// yields reports whether newcomers to the round, by which this process holds the lock, must let
// other processes go first. No newcomer can enter what LockAll holds.
func (r *round) yields() bool {
	return r.flags.Load().Has(state.GateClosed) && r.io().place() == nil
}

// contends reports whether this process holds the lock, or another one of its pair, or waits for
// one of them.
func (l *own) contends() bool {
	for range l.live() {
		return true
	}
	if l.rw != nil {
		for other := range l.rw.locks() {
			for range other.own().live() {
				return true
			}
		}
	}
	return false
}

// inForce returns the tenure of the round if this process holds the lock by it; else nil.
func (r *round) inForce() *tenure {
	if r.word.Load().Phase() != state.Retained {
		return nil
	}
	if n := r.io().tenure; n.lease.InForce() {
		return n
	}
	return nil
}

// held ranges over the rounds by which this process holds the lock, or another one of its
// pair, and their tenures.
func (l *own) held() iter.Seq2[*round, *tenure] {
	return func(yield func(*round, *tenure) bool) {
		if l.rw == nil {
			l.heldAlone(yield)
			return
		}
		for other := range l.rw.locks() {
			if !other.own().heldAlone(yield) {
				return
			}
		}
	}
}

// heldAlone is held for the lock itself. It reports whether to go on. Of the chain, only the
// present round is ever granted.
func (l *own) heldAlone(yield func(*round, *tenure) bool) bool {
	r := l.cur.Load()
	if n := r.inForce(); n != nil && !yield(r, n) {
		return false
	}
	for _, p := range l.places() {
		if n := p.round.inForce(); n != nil && !yield(p.round, n) {
			return false
		}
	}
	return true
}

// asHolder returns this process as the holder of the lock, or of another lock of the
// pair; nil if it holds none.
func (l *own) asHolder() *Contender {
	for r, n := range l.held() {
		l := r.lock
		own, _ := queue.ParseName(lastSegment(n.path))
		c := l.contender(own)
		c.describe(l.m.nodeData(l.kind.String()), zkio.Stat{EphemeralOwner: n.session.ID()})
		c.Token, c.Holds = n.token, true
		c.Since = l.m.start.Add(time.Duration(n.since)).Round(0)
		return &c
	}
	return nil
}

// A holding says what a node of this process is to it.
type holding struct {
	lock  *Lock  // in whose queue it is; nil: this process has no such lock
	mutex *Mutex // that it is the private lock of; else nil
	round *round // whose node it is; nil: of none any more
	grant Grant  // by which the round holds the lock; zero: it waits, as far as it knows
}

// holds reports whether this process holds the lock by the node.
func (h holding) holds() bool { return h.grant.Path != "" }

// waits reports whether the node is, or may be, that of a round that waits.
func (h holding) waits() bool { return h.round != nil && !h.holds() }

// holdingAt returns what the node at path is to this process. If a round waits, it may not know
// yet which node is its own: of a request without an answer, perhaps. Then a node of which
// it is not known that it is another round's passes for its own.
func (m *Manager) holdingAt(path string) (h holding) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return h
	}
	name := path[i+1:]
	if h.lock, h.mutex = m.lockOf(path[:i], name); h.lock == nil || !m.owns(name) {
		return h
	}
	for r := range h.lock.own().live() {
		t := r.io()
		if p := t.place(); p != nil && p.group.rank != rankOf(name) || p == nil && !m.shares(name) {
			continue
		}
		switch r.word.Load().Phase() {
		case state.Fetching:
			h.round = r
			return h
		case state.Retained:
			if held := r.inForce(); held != nil && held.path == path {
				h.round, h.grant = r, held.grant()
			}
			return h // if the round has another node, this one is an earlier round's
		default:
			if g, err, granted := t.granted.Future().Poll(); granted && err == nil && g.Path == path {
				return h
			}
			// It goes on with the next round, whose node may have come in the same request.
		}
	}
	return h
}

// lockOf returns the lock of this process for which contenders called name queue in the
// directory at path, and the mutex that it belongs to, if it does.
func (m *Manager) lockOf(path, name string) (*Lock, *Mutex) {
	c, ok := queue.ParseName(name)
	if !ok {
		return nil, nil
	}
	switch open := m.registry.at(path); {
	case open.lock != nil && c.Kind == queue.Exclusive && c.Latch == open.lock.latch:
		return open.lock, nil
	case open.mutex != nil && c.Kind == queue.Exclusive:
		return open.mutex.lock, open.mutex
	case open.rw != nil && c.Kind == queue.Read:
		return &open.rw.reader, nil
	case open.rw != nil && c.Kind == queue.Write:
		return open.rw.writer, nil
	case open.rw != nil && c.Kind == queue.Upgradable:
		return open.rw.third.Load(), nil
	}
	return nil, nil
}
