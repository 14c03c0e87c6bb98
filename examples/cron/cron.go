// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A Cron runs a job at intervals, on one machine of those that use the same lock.
type Cron struct {
	Lock     *manager.Lock
	Interval time.Duration
	Job      func(ctx context.Context, token uint64) error
	Log      func(format string, args ...any)
}

// unlockTimeout bounds the wait for ZooKeeper's answer. If there is none, the session's
// end releases the lock.
const unlockTimeout = 5 * time.Second

// Run waits for this machine's turn and runs the job until stop ends. A run that has
// begun by then is finished first. The error says why there can be no further run.
func (c *Cron) Run(stop context.Context) error {
	for stop.Err() == nil {
		hold, err := c.Lock.Lock(stop)
		if err == nil {
			c.lead(stop, hold)
		} else if stop.Err() == nil {
			return err
		}
	}
	return nil
}

// lead runs the job until stop ends or the lock is lost, and gives the lock up.
func (c *Cron) lead(stop context.Context, hold manager.Hold) {
	if err := c.runJobs(stop, hold); err != nil {
		c.Log("another machine may run the job: %v", err)
	}
	// Stop has ended perhaps, so this wait has a limit of its own.
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	if err := hold.Unlock(ctx); err != nil && !errors.Is(err, manager.ErrLost) {
		c.Log("no answer that the lock is free: %v", err)
	}
}

// runJobs runs the job at intervals. It returns when stop ends, and with an error when
// the lock is lost.
func (c *Cron) runJobs(stop context.Context, hold manager.Hold) error {
	ctx, cancel := hold.Context(context.WithoutCancel(stop))
	defer cancel()
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for stop.Err() == nil {
		grant, err := hold.Grant() // is this process still the one?
		if err != nil {
			return err
		}
		if err := c.Job(ctx, grant.Token); err != nil {
			c.Log("the run has failed: %v", err) // the next one may do better
		}
		select {
		case <-tick.C:
		case <-stop.Done():
		case <-hold.Lost():
		}
	}
	return nil
}
