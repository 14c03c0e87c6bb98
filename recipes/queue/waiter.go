// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
	"github.com/holdfast-go/holdfast/zkio"
)

// A waiter waits for elements, in the line of the idle processes. The first in line watches the
// queue, and the second, too, which gives the first some time: that one may be dead, and
// ZooKeeper takes it for alive until its session times out. All may be dead that are ahead. So
// each looks once in a third of the session timeout. Only the goroutine that waits uses a
// waiter, but for the channels.
type waiter struct {
	q       *consumer
	changed bell.Bell // rung when an element may have come, or have become free
	places  chan int  // has room for the last place in line that was told

	place     int // first, second, or behind them
	looks     bool
	looked    time.Time
	next      time.Time // when to look again
	fruitless int       // looks that changes have led to, close to each other, in vain
}

// The places in line.
const (
	first = iota
	second
	behind
)

const (
	// While other consumers settle elements, the list changes all the time. So a consumer that
	// looks in vain waits a little before it looks at the next change.
	breath   = 5 * time.Millisecond
	noBreath = 100 * time.Millisecond // at most
	grace    = 250 * time.Millisecond // which the second in line gives the first
)

func newWaiter(q *consumer) *waiter {
	w := &waiter{q: q, changed: bell.New(), places: make(chan int, 1), place: behind, looked: time.Now()}
	w.next = w.looked.Add(w.period())
	q.setWaits(w.changed)
	return w
}

func (q *consumer) setWaits(b bell.Bell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = b
}

// queued is called by the Listener's goroutine.
func (w *waiter) queued(p manager.Place) {
	select {
	case <-w.places: // not taken yet
	default:
	}
	w.places <- p.Position
}

// period returns how long the waiter sleeps at most.
func (w *waiter) period() time.Duration { return w.q.access.Session().Timeout() / 3 }

// look notes the waiter's place in line. Who comes to one of the first two has not watched the
// queue until now.
func (w *waiter) look(place int) {
	w.place = place
	if place > second || w.looks {
		return
	}
	w.looks = true
	w.q.access.Watch(w.q.dirs.items, w.changed)
	w.q.access.WatchChildren(w.q.dirs.consumers, w.changed)
	w.next = time.Now()
}

// hear has the waiter look soon.
func (w *waiter) hear() {
	now := time.Now()
	soon := now
	switch {
	case w.place != first:
		soon = now.Add(grace)
	case now.Sub(w.looked) > time.Second:
		w.fruitless = 0
	case w.fruitless > 0:
		soon = w.looked.Add(min(breath<<min(w.fruitless, 10), noBreath))
	}
	w.fruitless++
	if soon.Before(w.next) {
		w.next = soon
	}
}

// past is a channel from which a receive never waits.
var past = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// due returns a channel from which a receive waits until the waiter is to look again.
func (w *waiter) due() <-chan time.Time {
	if left := time.Until(w.next); left > 0 {
		return time.After(left)
	}
	return past
}

// try claims an element, if there is one.
func (w *waiter) try(ctx context.Context) (*Element, error) {
	how := plainly
	if w.looks {
		how = watching
	}
	for {
		found, err := w.q.refresh(ctx, how)
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		if e, err := w.q.claimNext(ctx); e != nil || err != nil {
			return e, err
		}
	}
	w.looked = time.Now()
	w.next = w.looked.Add(w.period())
	if due := w.q.due(); w.looks && !due.IsZero() {
		if w.place != first {
			due = due.Add(grace)
		}
		if due.Before(w.next) {
			w.next = due
		}
	}
	return nil, nil
}

// due returns when an element is due that was returned with a delay.
func (q *consumer) due() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.due
}

// end has a worker remove the watches: the caller does not wait.
func (w *waiter) end() {
	w.q.setWaits(nil)
	if w.looks {
		w.q.access.Submit(zkio.Releases, w)
	}
}

// Run is called by the pool.
func (w *waiter) Run(s *zkio.Session) {
	s.Unwatch(w.q.dirs.items, w.changed)
	s.UnwatchChildren(w.q.dirs.consumers, w.changed)
}
