// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"fmt"
)

// A role returns a server to hit, and what the history calls it.
type role func(ctx context.Context, f *fault, s Servers) (id int, target string, err error)

func leader(ctx context.Context, _ *fault, s Servers) (int, string, error) {
	id, err := s.Leader(ctx)
	return id, fmt.Sprintf("server %d (leader)", id), err
}

func follower(ctx context.Context, f *fault, s Servers) (int, string, error) {
	ids, err := s.Followers(ctx)
	if err != nil {
		return 0, "", err
	}
	id := ids[f.rng.IntN(len(ids))]
	return id, fmt.Sprintf("server %d (follower)", id), nil
}

// anyServer returns the leader in one of three cases.
func anyServer(ctx context.Context, f *fault, s Servers) (int, string, error) {
	if f.rng.IntN(3) == 0 {
		return leader(ctx, f, s)
	}
	return follower(ctx, f, s)
}

// allServers are hit once they have settled.
func allServers(ctx context.Context, _ *fault, s Servers) (int, string, error) {
	_, err := s.Settled(ctx)
	return 0, "all servers", err
}

// A harm is what can be done to a server, and returns how it is undone, which is tried also
// after an error.
type harm func(s Servers, id int) (undo func(ctx context.Context) error, err error)

func killed(s Servers, id int) (undo func(context.Context) error, err error) {
	return func(ctx context.Context) error { return s.Restart(ctx, id) }, s.Kill(id)
}

func paused(s Servers, id int) (undo func(context.Context) error, err error) {
	return func(context.Context) error { return s.Resume(id) }, s.Pause(id)
}

func isolated(s Servers, id int) (undo func(context.Context) error, err error) {
	return func(context.Context) error { s.Heal(); return nil }, s.Isolate(id)
}

// stalled keeps all servers from writing their logs. With the log of one stalled, the others
// are a majority, and clients see nothing.
func stalled(s Servers, _ int) (undo func(context.Context) error, err error) {
	resume, err := s.StallLogs()
	if err != nil {
		return func(context.Context) error { return nil }, fmt.Errorf("%w: %w", errNoTarget, err)
	}
	return func(context.Context) error { return resume() }, nil
}

// onServer returns a way of injecting a fault that harms a server of that role.
func onServer(r role, harm harm) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		s := f.env.Servers()
		if s == nil {
			return fmt.Errorf("%w: the harness has no ensemble of its own", errNoTarget)
		}
		choice, cancel := context.WithTimeout(ctx, unsettledLimit)
		id, target, err := r(choice, f, s)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", errNoTarget, err)
		}
		var undo func(context.Context) error
		return f.hit(ctx, target, "", func() (err error) {
			undo, err = harm(s, id)
			return err
		}, func() error {
			whole, cancel := undoing(ctx)
			defer cancel()
			return undo(whole)
		})
	}
}
