// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// A Starter starts processes. Its methods are safe for concurrent use.
//
// Linux kills a child when the thread that started it ends, and not only when the process
// does. So a Starter is a thread, which it keeps until Close.
type Starter struct {
	orders chan order
	end    func()
	done   chan struct{} // closed when the goroutine that has the thread has ended
}

// An order is a command to start.
type order struct {
	cmd    *exec.Cmd
	result chan<- error // has room
}

// errClosed is returned by Start after Close.
var errClosed = errors.New("child: start a process: the Starter is closed")

// NewStarter returns a Starter. The caller closes it when the processes have ended.
func NewStarter() *Starter {
	s, err := newStarter(func() error { return nil })
	if err != nil {
		panic(err) // of a function that returns nil
	}
	return s
}

// NewStarterWithClock returns a Starter of processes whose monotonic clock, and the clock
// that counts time in which the machine is suspended, are ahead of the machine's by
// offset. It takes Linux 6.3 or newer, and the right to make namespaces: [ClocksCanDiffer]
// tells.
func NewStarterWithClock(offset time.Duration) (*Starter, error) {
	return newStarter(func() error { return setClock(offset) })
}

// newStarter returns a Starter whose thread has been prepared.
func newStarter(prepare func() error) (*Starter, error) {
	stop := make(chan struct{})
	s := &Starter{orders: make(chan order), end: sync.OnceFunc(func() { close(stop) }), done: make(chan struct{})}
	prepared := make(chan error, 1)
	onOwnThread(func() {
		defer close(s.done)
		err := prepare()
		if prepared <- err; err != nil {
			return
		}
		for {
			select {
			case o := <-s.orders:
				o.result <- o.cmd.Start()
			case <-stop:
				return
			}
		}
	})
	if err := <-prepared; err != nil {
		<-s.done
		return nil, err
	}
	return s, nil
}

// onOwnThread calls fn on a goroutine that has a thread of its own, which ends when fn
// returns: what fn does to the thread concerns no other goroutine.
func onOwnThread(fn func()) {
	go func() {
		// The goroutine keeps the thread for good, so the runtime ends the thread with it.
		runtime.LockOSThread()
		if !onMainThread() {
			fn()
			return
		}
		// The runtime cannot end a program's first thread. While this goroutine has that,
		// another one gets another.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			fn()
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
}

// Start starts cmd as cmd.Start does, and ties it to this process.
func (s *Starter) Start(cmd *exec.Cmd) error {
	tie(cmd)
	result := make(chan error, 1)
	select {
	case s.orders <- order{cmd, result}:
		return <-result
	case <-s.done:
		return errClosed
	}
}

// Close ends the Starter. On Linux it kills the processes that still run. A second Close
// does nothing.
func (s *Starter) Close() {
	s.end()
	<-s.done
}

// ClocksCanDiffer returns nil if [NewStarterWithClock] works here.
func ClocksCanDiffer() error {
	s, err := NewStarterWithClock(time.Second)
	if err != nil {
		return err
	}
	defer s.Close()
	cmd := exec.Command("/bin/true")
	if err := s.Start(cmd); err != nil {
		return fmt.Errorf("child: start a process with another clock, which takes Linux 6.3: %w", err)
	}
	return cmd.Wait()
}
