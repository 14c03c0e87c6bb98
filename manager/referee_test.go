// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A referee watches who is inside a lock, by rules of its own: the code under
// test has no part in them. Each holder enters when it was granted the lock and
// leaves before it releases it, so an overlap that the referee sees is real. A
// holder that was told of its loss counts as outside.
//
// A nil referee watches nothing.
type referee struct {
	t *testing.T

	mu      sync.Mutex
	inside  []visit
	entries int
	rounds  int               // how many tokens there were
	writes  map[uint64]string // who was inside with a writer's token
	newest  uint64            // the highest of them
	reads   []uint64          // tokens of readers
}

type visit struct {
	who   string
	write bool
	token uint64 // 0 if it is not known
	hold  Hold   // zero for other clients
}

func (v visit) String() string {
	kind := "reader"
	if v.write {
		kind = "writer"
	}
	return fmt.Sprintf("%s of %s (token %d)", kind, v.who, v.token)
}

func newReferee(t *testing.T) *referee { return &referee{t: t, writes: make(map[uint64]string)} }

// enter notes that h, of manager m, is inside, unless it is lost already, and
// complains if it must not be. The function that it returns notes that h leaves.
func (r *referee) enter(m *Manager, h Hold) (leave func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The others are asked first: if h is good after that, all of them were good
	// at one moment.
	others := slices.DeleteFunc(slices.Clone(r.inside), func(o visit) bool { return o.hold != Hold{} && o.hold.Err() != nil })
	g, err := h.Grant()
	if err != nil {
		return func() {}
	}
	v := visit{who: fmt.Sprintf("%s (%p)", m.cfg.Label, m), write: !reads(h.Lock()), token: g.Token, hold: h}
	return r.enterLocked(v, others)
}

// enterStranger is enter for another client.
func (r *referee) enterStranger(who string, write bool, token uint64) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enterLocked(visit{who: who, write: write, token: token}, r.inside)
}

func (r *referee) enterLocked(v visit, others []visit) (leave func()) {
	for _, o := range others {
		if o.who != v.who && (o.write || v.write) {
			r.t.Errorf("%v comes in while %v is inside", v, o)
		}
	}
	if v.token != 0 {
		r.checkTokenLocked(v)
	}
	r.inside = append(r.inside, v)
	r.entries++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(r.inside, v); i >= 0 {
			r.inside = slices.Delete(r.inside, i, i+1)
		}
	}
}

// checkTokenLocked checks that a writer's token is above all before it, and a
// reader's above every earlier writer's, but for a downgraded read, which has
// its writer's.
func (r *referee) checkTokenLocked(v visit) {
	writer, written := r.writes[v.token]
	if written && writer != v.who {
		r.t.Errorf("%v has the token of %s", v, writer)
	}
	if written {
		return
	}
	if v.token < r.newest || v.write && len(r.reads) > 0 && v.token <= slices.Max(r.reads) {
		r.t.Errorf("%v has a token below an earlier one: writers up to %d, readers %v", v, r.newest, r.reads)
	}
	if v.write {
		r.rounds++
		r.writes[v.token], r.newest = v.who, max(r.newest, v.token)
	} else if !slices.Contains(r.reads, v.token) {
		r.rounds++
		r.reads = append(r.reads, v.token)
	}
}

// leave notes that h is about to be released, or was lost.
func (r *referee) leave(h Hold) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = slices.DeleteFunc(r.inside, func(v visit) bool { return v.hold == h })
}

// leaveAll notes that all have left.
func (r *referee) leaveAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = nil
}
