// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// An RWLock is a pair of locks in one queue: any number of processes can hold the
// read lock together, and one process the write lock alone. A reader waits for
// the writers ahead of it, and a writer for every contender ahead of it, so
// neither starves the other. Get an RWLock from [Manager.ReadWrite].
//
// As with a [Lock], only processes exclude each other. In one process, readers
// and the writer may hold their locks together: while the process holds the write
// lock, its own readers enter at once, which is a downgrade if the write lock is
// then released. In the other direction, a goroutine that holds the read lock and
// asks for the write lock would wait for itself; it gets [ErrUpgrade] if its
// context comes from [Hold.Context]. For that there is a third lock,
// [RWLock.Upgradable].
type RWLock struct {
	reader Lock // not a pointer: one allocation for the pair and its reader
	writer *Lock
	third  atomic.Pointer[Lock] // made on first use: see Upgradable
}

// ReadWrite returns the read/write lock called name. It relates to Exclusive as
// an RWMutex does to a Mutex, and is like it in all other respects.
func (m *Manager) ReadWrite(name string) (*RWLock, error) {
	e, err := m.open("readwrite", name, func(e *locks, path string) bool {
		if *e == (locks{}) {
			e.rw = newRWLock(m, path)
		}
		return e.rw != nil
	})
	return e.rw, err
}

// Reader returns the read lock.
func (rw *RWLock) Reader() *Lock { return &rw.reader }

// Writer returns the write lock.
func (rw *RWLock) Writer() *Lock { return rw.writer }

func newRWLock(m *Manager, path string) *RWLock {
	rw := &RWLock{writer: newLock(m, path, queue.Write)}
	rw.reader.init(m, path, queue.Read)
	rw.reader.rw, rw.writer.rw = rw, rw
	return rw
}

// locks are the locks of the pair that there are.
func (rw *RWLock) locks() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		if !yield(rw.writer) {
			return
		}
		if l := rw.third.Load(); l != nil && !yield(l) {
			return
		}
		yield(&rw.reader)
	}
}
