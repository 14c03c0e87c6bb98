// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"time"
)

// clockLasts is how long what is known of ZooKeeper's clock is used to wake elements.
const clockLasts = time.Minute

// A clock is what this process knows about ZooKeeper's clock: the time of a transaction, and
// when this process had sent it and got the answer. Its methods may be called concurrently.
type clock struct {
	mu             sync.Mutex // protects what follows
	stamp          time.Time
	sent, answered time.Time
}

// set notes that a transaction, sent then and answered now, was carried out at ms.
func (c *clock) set(ms int64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stamp, c.sent, c.answered = time.UnixMilli(ms), sent, time.Now()
}

// latest returns a time that ZooKeeper's clock has not passed yet, and earliest one that it has
// reached.
func (c *clock) latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A stamp has whole milliseconds, and so has what is made of the result.
	return c.stamp.Add(time.Since(c.sent) + 2*time.Millisecond)
}

func (c *clock) earliest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamp.Add(time.Since(c.answered))
}

func (c *clock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.answered) > clockLasts
}
