// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Cron runs Job for each time that is due, on the process that leads.
type Cron struct {
	Done  string // the path of the node that says up to which time Job was run
	Every time.Duration
	Job   func(ctx context.Context, due time.Time) error // may be run again for the same time
}

// Lead is for [election.Election.Run]. It returns when Job fails.
func (c *Cron) Lead(ctx context.Context, l *election.Leadership) error {
	done := time.Now().Truncate(c.Every) // so begins the first leader
	text, _, err := l.Get(ctx, c.Done)
	if err == nil {
		done, err = time.Parse(time.RFC3339Nano, string(text))
	} else if errors.Is(err, zkio.ErrNoNode) {
		err = c.note(ctx, l, done)
	}
	for err == nil {
		done = done.Add(c.Every)
		select {
		case <-time.After(time.Until(done)): // at once, if it is past
		case <-ctx.Done():
		}
		if err := cmp.Or(context.Cause(ctx), l.Err()); err != nil {
			return err // even if the time has come
		}
		if err = c.Job(ctx, done); err == nil {
			err = c.note(ctx, l, done)
		}
	}
	return err
}

// note notes that Job was run up to that time.
func (c *Cron) note(ctx context.Context, l *election.Leadership, done time.Time) error {
	text := []byte(done.Format(time.RFC3339Nano))
	_, err := l.Guard(ctx, zkio.SetOp(c.Done, text, -1))
	if errors.Is(err, zkio.ErrNoNode) {
		_, err = l.Guard(ctx, zkio.CreateOp(c.Done, text, nil))
	}
	if errors.Is(err, manager.ErrUnknownOutcome) {
		return nil // the next note says it all
	}
	return err
}
