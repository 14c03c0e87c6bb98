// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/manager"
)

// A Cache keeps data that processes change under the write lock of a pair.
type Cache[T any] struct {
	reader *manager.Lock
	load   func() (T, error) // reads the data where they are kept

	mu     sync.Mutex // protects what follows; not held during I/O
	token  uint64     // of the grant under which loaded loads
	loaded func() (T, error)
	loads  int
}

// Get returns the data as they are at some moment during the call. It blocks while
// another process writes, but not longer than until ctx ends. After [manager.ErrLost],
// call it again.
func (c *Cache[T]) Get(ctx context.Context) (data T, err error) {
	hold, err := c.reader.Lock(ctx)
	if err != nil {
		return data, err
	}
	defer hold.Release()
	grant, err := hold.Grant()
	if err != nil {
		return data, err
	}
	data, err = c.under(hold, grant.Token)()
	if lost := hold.Err(); lost != nil { // another process may have written meanwhile
		err = lost
	}
	if err != nil {
		c.forget(grant.Token)
	}
	return data, err
}

// under returns the function that loads the data under a grant when it is called for
// the first time, and remembers them.
func (c *Cache[T]) under(hold manager.Hold, token uint64) func() (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != token {
		c.loads++
		c.token, c.loaded = token, sync.OnceValues(func() (T, error) {
			c.keep(hold)
			return c.load()
		})
	}
	return c.loaded
}

// keep holds the lock until another process wants to write. Otherwise the process would
// give it up, and the data with it, whenever no call of Get is inside.
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
func (c *Cache[T]) forget(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = 0
	}
}
