// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"
)

// A finishing counts the functions that Shutdown waits for. In contrast to a sync.WaitGroup, it
// lets the wait end early, and functions come while another goroutine waits. The zero value is
// ready to use. All methods may be called concurrently.
type finishing struct {
	mu   sync.Mutex // protects what follows; held for a few instructions
	n    int
	none chan struct{} // closed when n falls to 0; nil if no goroutine waits for that
}

func (f *finishing) add() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *finishing) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// wait reports whether there was a moment without such functions before ctx ended.
func (f *finishing) wait(ctx context.Context) bool {
	none := f.pending()
	if none == nil {
		return true
	}
	select {
	case <-none:
		return true
	case <-ctx.Done():
		return false
	}
}

// pending returns a channel that is closed when there is no function; nil if there is none now.
func (f *finishing) pending() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n > 0 && f.none == nil {
		f.none = make(chan struct{})
	}
	if f.n == 0 {
		return nil
	}
	return f.none
}
