// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// The stages of a Manager, in order.
const (
	open         int32 = iota
	shuttingDown       // newcomers are refused, waiters fail, holders go on
	closingDown        // all rounds end
)

// A life is how far a Manager is between Open and the end of Close, and what ends with it.
type life struct {
	stage  atomic.Int32 // open, shuttingDown, closingDown
	closed atomic.Bool  // the client is closed: nothing more can be sent

	ctx       context.Context         // ends when Close begins; see Access.Context
	accepting context.Context         // ends when Shutdown or Close begins; see Access.Accepting
	cancel    context.CancelCauseFunc // of ctx
	refuse    context.CancelCauseFunc // of accepting

	closeBegun atomic.Bool
	closeDone  chan struct{} // closed when Close is done
	closeErr   error         // written before closeDone is closed
	cut        error         // what holders are told that Close ends; written before stage is closingDown
	done       chan struct{} // closed when the manager's own goroutines are to end

	wg      sync.WaitGroup // those goroutines: rotate, and see spawn
	joining sync.Mutex     // protects joined; held for a few instructions
	joined  bool           // Close waits for wg, or has

	finishing finishing // what Shutdown waits for beside locks
}

func (f *life) begin() {
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.accepting, f.refuse = context.WithCancelCause(f.ctx)
	f.closeDone, f.done = make(chan struct{}), make(chan struct{})
}

// closing reports whether newcomers are refused.
func (f *life) closing() bool { return f.stage.Load() != open }

// spawn runs fn on a goroutine that Close joins; once Close has joined them, on
// the caller's.
func (f *life) spawn(fn func()) {
	f.joining.Lock()
	joined := f.joined
	if !joined {
		f.wg.Add(1)
	}
	f.joining.Unlock()
	if joined {
		fn()
		return
	}
	go func() {
		defer f.wg.Done()
		fn()
	}()
}

// join ends the goroutines of wg, and waits for them.
func (f *life) join() {
	close(f.done)
	f.joining.Lock()
	f.joined = true
	f.joining.Unlock()
	f.wg.Wait()
}

// isClosed reports whether c is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pause waits for d, and reports false as soon as the manager is done.
func (f *life) pause(d time.Duration) bool {
	if d <= 0 {
		return !isClosed(f.done)
	}
	select {
	case <-f.done:
		return false
	case <-time.After(d):
		return true
	}
}
