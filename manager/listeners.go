// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// listeners are those that Access.Listen was called with, besides the Manager, and the session
// that they have been told of.
type listeners struct {
	mu  sync.Mutex // held by add and stop, for a few instructions
	all atomic.Pointer[[]*zkio.Listener]

	session *zkio.Session // nil if there is none; used by the dispatcher only
}

func (ls *listeners) add(l zkio.Listener) (stop func()) {
	entry := &l
	ls.change(func(all []*zkio.Listener) []*zkio.Listener { return append(all, entry) })
	return func() {
		ls.change(func(all []*zkio.Listener) []*zkio.Listener {
			return slices.DeleteFunc(all, func(other *zkio.Listener) bool { return other == entry })
		})
	}
}

// change replaces the list, which others may be reading.
func (ls *listeners) change(fn func([]*zkio.Listener) []*zkio.Listener) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var all []*zkio.Listener
	if old := ls.all.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = fn(all)
	ls.all.Store(&all)
}

// each calls fn for each of them. It is called by the dispatcher.
func (ls *listeners) each(fn func(zkio.Listener)) {
	if all := ls.all.Load(); all != nil {
		for _, l := range *all {
			fn(*l)
		}
	}
}
