// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
)

// A role returns a server to hit, and what it is in its ensemble.
type role func(ctx context.Context, f *fault, s Servers) (id int, as string, err error)

func leader(ctx context.Context, _ *fault, s Servers) (int, string, error) {
	id, err := s.Leader(ctx)
	return id, "leader", err
}

func follower(ctx context.Context, f *fault, s Servers) (int, string, error) {
	ids, err := s.Followers(ctx)
	if err != nil {
		return 0, "", err
	}
	return ids[f.rng.IntN(len(ids))], "follower", nil
}

// anyServer returns the leader in one of three cases.
func anyServer(ctx context.Context, f *fault, s Servers) (int, string, error) {
	if f.rng.IntN(3) == 0 {
		return leader(ctx, f, s)
	}
	return follower(ctx, f, s)
}

// A harm is what can be done to a server, and how it is undone.
type harm struct {
	do   func(s Servers, id int) error
	undo func(ctx context.Context, s Servers, id int) error
}

var (
	killed = harm{
		Servers.Kill,
		func(ctx context.Context, s Servers, id int) error { return s.Restart(ctx, id) },
	}
	paused = harm{
		Servers.Pause,
		func(_ context.Context, s Servers, id int) error { return s.Resume(id) },
	}
	isolated = harm{
		Servers.Isolate,
		func(_ context.Context, s Servers, _ int) error { s.Heal(); return nil },
	}
)

// slowDisk keeps all servers from writing their logs. With the log of one stalled, the others are
// a majority, and clients see nothing.
func slowDisk(ctx context.Context, f *fault) error {
	s := f.env.Servers()
	if s == nil {
		return fmt.Errorf("%w: the harness has no ensemble of its own", errNoTarget)
	}
	choice, cancel := context.WithTimeout(ctx, unsettledLimit)
	_, err := s.Settled(choice)
	cancel()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTarget, err)
	}
	f.begin("all servers", "")
	resume, err := s.StallLogs()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTarget, err)
	}
	f.last(ctx)
	err = resume()
	f.ended(err == nil)
	return err
}

// onServer returns a way of injecting a fault that harms a server of that role.
func onServer(r role, h harm) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		s := f.env.Servers()
		if s == nil {
			return fmt.Errorf("%w: the harness has no ensemble of its own", errNoTarget)
		}
		choice, cancel := context.WithTimeout(ctx, unsettledLimit)
		id, as, err := r(choice, f, s)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", errNoTarget, err)
		}
		f.begin(fmt.Sprintf("server %d (%s)", id, as), "")
		err = h.do(s, id)
		if err == nil {
			f.last(ctx)
		}
		undo, cancel := undoing(ctx)
		defer cancel()
		undone := h.undo(undo, s, id)
		f.ended(err == nil)
		return errors.Join(err, undone)
	}
}
