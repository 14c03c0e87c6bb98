// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"sync"
)

// A roster lists what is under way, in no particular order. The zero value is empty. Its
// methods may be called concurrently.
//
// The rounds that have nodes are listed otherwise, since a process can have 100,000: see
// Manager.active.
type roster[T comparable] struct {
	mu  sync.Mutex // protects what follows; no other lock is taken while it is held
	all []T
	at  map[T]int // the index of each in all; made on first use
}

func (r *roster[T]) add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = make(map[T]int)
	}
	r.at[v] = len(r.all)
	r.all = append(r.all, v)
}

// remove takes v out, if it is there.
func (r *roster[T]) remove(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.at[v]
	if !ok {
		return
	}
	end := len(r.all) - 1
	last := r.all[end]
	r.all[i], r.at[last] = last, i
	r.all = slices.Delete(r.all, end, end+1) // which forgets it
	delete(r.at, v)
}

// list returns a copy of what is there.
func (r *roster[T]) list() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
