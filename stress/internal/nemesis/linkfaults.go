// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"fmt"
	"time"
)

// reserveLinks chooses a worker process as reserve does, and returns its connections.
func (f *fault) reserveLinks(ctx context.Context) (Links, error) {
	p, err := f.reserve(ctx)
	if err != nil {
		return nil, err
	}
	l := f.env.Links(p)
	if l == nil {
		return nil, fmt.Errorf("%w: process %d does not connect through relays", errNoTarget, p)
	}
	f.begin(processTarget(p), "")
	return l, nil
}

// cutConnection waits for a connection, since one may just be missing.
func cutConnection(ctx context.Context, f *fault) error {
	l, err := f.reserveLinks(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	for l.Sever() == 0 {
		if !sleep(ctx, targetPoll) {
			return fmt.Errorf("%w: the process has no connection", errNoTarget)
		}
	}
	f.ended(true)
	return nil
}

// blackholeConnection leaves the process a way to another server in one of three cases.
func blackholeConnection(ctx context.Context, f *fault) error {
	l, err := f.reserveLinks(ctx)
	if err != nil {
		return err
	}
	if f.rng.IntN(3) == 0 {
		l.BlackholeUsed()
	} else {
		l.Blackhole()
	}
	f.last(ctx)
	l.Mend()
	f.ended(true)
	return nil
}

// linkDelay is how long data takes in each direction of a delayed link.
const linkDelay = 20 * time.Millisecond

func delayLink(ctx context.Context, f *fault) error {
	l, err := f.reserveLinks(ctx)
	if err != nil {
		return err
	}
	l.Delay(linkDelay)
	f.last(ctx)
	l.Delay(0)
	f.ended(true)
	return nil
}

// linkRate is how many bytes per second pass a throttled link.
const linkRate = 4000

func throttleLink(ctx context.Context, f *fault) error {
	l, err := f.reserveLinks(ctx)
	if err != nil {
		return err
	}
	l.Throttle(linkRate)
	f.last(ctx)
	l.Throttle(0)
	f.ended(true)
	return nil
}

// swallowAnswer is over when the answer has been dropped. What follows is the client's
// business, which waits for the answer.
func swallowAnswer(ctx context.Context, f *fault) error {
	l, err := f.reserveLinks(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.in.Lasts)
	defer cancel()
	defer l.StopSwallowing()
	select {
	case <-l.SwallowAnswer():
		f.ended(true)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: for %v the process sent no request on the connection that it had", errNoTarget, f.in.Lasts)
	}
}
