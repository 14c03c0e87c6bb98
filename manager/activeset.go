// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"sync"
)

// An activeSet has the rounds of a Manager that have, or may have, a node: see roundIO.index.
type activeSet struct {
	mu  sync.Mutex // protects what follows, and the rounds' indices; held for a few instructions
	all []*roundIO
}

// add adds t to the rounds that may have a node. What ends sessions or
// leases looks for them there.
func (a *activeSet) add(t *roundIO) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.index == 0 {
		a.all = append(a.all, t)
		t.index = int32(len(a.all))
	}
}

func (a *activeSet) remove(t *roundIO) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.index == 0 {
		return
	}
	end := len(a.all) - 1
	last := a.all[end]
	a.all[t.index-1], last.index = last, t.index
	a.all[end], t.index = nil, 0
	a.all = a.all[:end]
	if cap(a.all) > 1024 && end < cap(a.all)/4 {
		a.all = slices.Clip(slices.Clone(a.all)) // there were many once
	}
}

func (a *activeSet) has(t *roundIO) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return t.index != 0
}

// any returns one of the rounds; nil if there is none.
func (a *activeSet) any() *roundIO {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return nil
	}
	return a.all[0]
}

func (a *activeSet) list() []*roundIO {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}
