// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package delay

import (
	"sync"
	"time"
)

// An alarm waits for points in time, as exactly as Go's timers do. It is for one
// goroutine.
type alarm struct {
	closed chan struct{}
	once   sync.Once // closes it
}

func newAlarm() (*alarm, error) { return &alarm{closed: make(chan struct{})}, nil }

// close ends an until, and makes further ones return at once. Unlike until, it may be
// called by another goroutine.
func (a *alarm) close() { a.once.Do(func() { close(a.closed) }) }

// until waits until t.
func (a *alarm) until(t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.closed:
	}
}
