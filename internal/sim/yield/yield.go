// SPDX-License-Identifier: Apache-2.0

// Package yield has the functions that woven code calls: see the weave command.
// Only simulations contain it.
package yield

import (
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var (
	random atomic.Uint64 // the state of a splitmix64 generator
	oneIn  atomic.Uint32 // a point yields once in this many times; 0: never
	stall  atomic.Int64  // the longest stall, in nanoseconds

	mu      sync.Mutex // protects reached
	reached = make(map[string]int)
)

// Seed decides which points yield, one in n on average or none if n is 0, and for
// how long a goroutine may stall. In a woven program seed also decides every
// choice that the runtime makes at random.
func Seed(seed uint64, n uint32, longest time.Duration) {
	random.Store(seed)
	oneIn.Store(n)
	stall.Store(int64(longest))
	seedRuntime(seed)
}

// Point stands before every atomic operation of a woven package, and lets other
// goroutines run before it: sometimes a few, rarely many.
func Point() {
	n := oneIn.Load()
	if n == 0 {
		return
	}
	r := next()
	if uint32(r)%n != 0 {
		return
	}
	times := 1
	switch r := r >> 32; {
	case r%16 == 0:
		times = 1 + int(r>>4)%40
	case r%4 == 0:
		times = 1 + int(r>>4)%5
	}
	for range times {
		runtime.Gosched()
	}
}

// Stall takes the place of Point in functions that are never called with a mutex
// held. It can also hold a goroutine up for a while, as a busy scheduler would.
// (Virtual time stands still while a goroutine waits for a mutex.)
func Stall() {
	n, longest := oneIn.Load(), stall.Load()
	if n == 0 {
		return
	}
	if r := next(); uint32(r)%(2*n) == 0 && longest > 0 {
		// Not time.After(0): see after in package sim.
		if d := time.Duration(int64(r>>33) % longest).Truncate(time.Millisecond); d > 0 {
			<-time.After(d)
		}
		return
	}
	Point()
}

// Lag stands at the beginning of functions whose goroutine can fall behind. In one
// of four calls it lets the others run until most of them have nothing to do at
// the present moment of virtual time.
func Lag() {
	if oneIn.Load() == 0 || next()%4 != 0 {
		return
	}
	for range 100 {
		runtime.Gosched()
	}
}

func next() uint64 {
	z := random.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Reached counts one use of a branch.
func Reached(branch string) {
	mu.Lock()
	defer mu.Unlock()
	reached[branch]++
}

// Counts returns how often each branch was taken.
func Counts() map[string]int {
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(reached)
}
