// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
)

// A Cache keeps data that processes change under the write lock of a pair. They may be
// changed in this process, too, by Change.
type Cache[T any] struct {
	lock *manager.RWLock
	load func() (T, error) // reads the data where they are kept

	changing sync.RWMutex // excludes the readers of this process while it changes the data

	mu     sync.Mutex // protects what follows; not held during I/O
	token  uint64     // of the grant under which loaded loads
	loaded func() (T, error)
	loads  int
}

// Get returns the data as they are at some moment during the call. It blocks while
// another process writes, but not longer than until ctx ends, and while this process does.
// After [manager.ErrLost], call it again.
func (c *Cache[T]) Get(ctx context.Context) (data T, err error) {
	hold, err := c.lock.Reader().Lock(ctx)
	if err != nil {
		return data, err
	}
	defer hold.Release()
	grant, err := hold.Grant()
	if err != nil {
		return data, err
	}
	// The write lock keeps out other processes, and not the readers of its own.
	c.changing.RLock()
	defer c.changing.RUnlock()
	data, err = c.under(hold, grant.Token)()
	if lost := hold.Err(); lost != nil { // another process may have written meanwhile
		err = lost
	}
	if err != nil {
		c.forget()
	}
	return data, err
}

// Change has change write the data.
func (c *Cache[T]) Change(ctx context.Context, change func(ctx context.Context) error) error {
	return c.lock.Writer().Do(ctx, func(ctx context.Context, _ manager.Hold) error {
		c.changing.Lock()
		defer c.changing.Unlock()
		defer c.forget() // readers may have come in beside us, and loaded before we wrote
		return change(ctx)
	})
}

// under returns the function that loads the data under a grant when it is called for
// the first time, and remembers them.
func (c *Cache[T]) under(hold manager.Hold, token uint64) func() (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != token {
		c.keep(hold)
		c.token, c.loaded = token, nil
	}
	if c.loaded == nil {
		c.loads++
		c.loaded = sync.OnceValues(c.load)
	}
	return c.loaded
}

// keep holds the lock until a writer waits, in this process or in another. Otherwise the
// process would give it up, and the data with it, whenever no call of Get is inside.
func (c *Cache[T]) keep(hold manager.Hold) {
	kept, err := hold.Share()
	if err != nil {
		return // lost, as Get is going to see
	}
	go func() { // ends with the grant, at the latest when the manager is closed
		defer kept.Release()
		select {
		case <-kept.Contended():
		case <-kept.Lost():
		}
	}()
}

// forget has the next call of Get load the data again.
func (c *Cache[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = nil
}
