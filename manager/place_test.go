// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// The last caller that leaves a pending round takes its place back, perhaps just
// while a step notes it. However the two are mixed, no caller is told of a place
// that is not there: it would look for it again and again.
func TestPlaceTakenBackWhileItIsNoted(t *testing.T) {
	const times = 50_000
	var present atomic.Pointer[roundIO] // nil when its place has been taken back
	var leaver sync.WaitGroup
	leaver.Go(func() {
		for range times {
			tr := present.Load()
			for ; tr == nil; tr = present.Load() {
				runtime.Gosched()
			}
			tr.whereabouts().clear()
			present.Store(nil)
		}
	})
	wrong := 0
	for i := range times {
		tr := &roundIO{round: new(round)}
		tr.whereabouts().promise()
		present.Store(tr)
		for range i % 64 {
			present.Load() // a little later each time
		}
		tr.whereabouts().set(&position{ahead: 1})
		for present.Load() != nil {
			runtime.Gosched()
		}
		if tr.whereabouts().promise().Settled() && tr.position.Load() == nil {
			wrong++
		}
	}
	leaver.Wait()
	expect(t, wrong <= 0, "%d times of %d a place was taken back, but callers are told of it", wrong, times)
}

// A caller asks for the place just while a step notes it, or while the last caller
// that leaves takes it back: it is told, and finds the place or asks anew.
func TestWhoAsksForThePlaceIsTold(t *testing.T) {
	for i, end := range []struct {
		what string
		do   func(*roundIO)
	}{
		{"it is noted", func(tr *roundIO) { tr.whereabouts().set(&position{ahead: 1}) }},
		{"it is taken back", func(tr *roundIO) { tr.whereabouts().promise(); tr.whereabouts().clear() }},
	} {
		for turn := range 20_000 {
			tr := &roundIO{round: new(round)}
			var stepper sync.WaitGroup
			stepper.Go(func() { end.do(tr) })
			if turn%2 == 0 {
				stepper.Wait() // long before he asks
			}
			f := tr.whereabouts().known()
			stepper.Wait()
			if _, _, told := f.Poll(); !told && (i == 0 || tr.whereabouts().promised() == nil) {
				t.Fatalf("%s, and who asked is not told", end.what)
			}
		}
	}
}

// A position behind a contender that has just gone is told without its name.
func TestPositionIsToldWithoutContender(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", func(cfg *Config) { cfg.Observer = func(Event) {} })
		t := l.cur.Load().io()
		t.node = t.queuer().newNode()
		t.teller().placed(nil, &position{ahead: 2})
	})
}
