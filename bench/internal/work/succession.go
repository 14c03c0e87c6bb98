// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// keep does the work Keep. It does not close the session.
func keep(ctx context.Context, s Subject, j Job) (Result, error) {
	session, err := s.Open(ctx, j.Server)
	if err != nil {
		return Result{}, err
	}
	if _, err := lockAll(ctx, session, j); err != nil {
		return Result{}, err
	}
	dieWhenAsked()
	return Result{}, nil
}

// succeed does the work Succeed.
func succeed(ctx context.Context, sessions []Session, j Job) (Result, error) {
	type grant struct {
		lockers []Locker
		at      time.Time
		err     error
	}
	granted := make(chan grant, 1)
	go func() {
		lockers, err := lockAll(ctx, sessions[0], j)
		granted <- grant{lockers, time.Now(), err}
	}()
	select {
	case g := <-granted:
		if g.err == nil {
			g.err = errTwo
		}
		return Result{}, g.err
	case <-time.After(time.Duration(j.QueueMillis) * time.Millisecond):
	}
	killed := time.Now()
	if err := end(j.Kill, j.Death); err != nil {
		return Result{}, fmt.Errorf("end process %d by %s: %w", j.Kill, j.Death, err)
	}
	g := <-granted
	if g.err != nil {
		return Result{}, g.err
	}
	for _, l := range g.lockers {
		if err := l.Unlock(ctx); err != nil {
			return Result{}, fmt.Errorf("unlock: %w", err)
		}
	}
	took := g.at.Sub(killed)
	return Result{Entries: 1, Seconds: took.Seconds(), Waits: []float64{float64(took) / float64(time.Microsecond)}, Allocs: -1}, nil
}

// lockAll takes all locks of a job, at once.
func lockAll(ctx context.Context, session Session, j Job) ([]Locker, error) {
	lockers := make([]Locker, j.Locks)
	var g errgroup.Group
	for i := range lockers {
		var err error
		if lockers[i], err = j.locker(session, i); err != nil {
			return nil, err
		}
		g.Go(func() error {
			if err := lockers[i].Lock(ctx); err != nil {
				return fmt.Errorf("lock: %w", err)
			}
			return nil
		})
	}
	return lockers, g.Wait()
}
