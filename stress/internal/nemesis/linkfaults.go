// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
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
	f.begin(history.ProcessTarget(p), "")
	return l, nil
}

// cutConnection waits for a connection, since one may just be missing.
func cutConnection(ctx context.Context, f *fault) error {
	l, err := f.reserveLinks(ctx)
	if err == nil {
		err = f.seek(ctx, "the process has no connection", func() bool { return l.Sever() > 0 })
	}
	f.ended(err == nil)
	return err
}

// onLinks returns a way of injecting a fault that disturbs the connections of a process.
func onLinks(disturb func(f *fault, l Links) (undo func())) func(context.Context, *fault) error {
	return func(ctx context.Context, f *fault) error {
		l, err := f.reserveLinks(ctx)
		if err != nil {
			return err
		}
		undo := disturb(f, l)
		f.last(ctx)
		undo()
		f.ended(true)
		return nil
	}
}

// blackhole leaves the process a way to another server in one of three cases.
func blackhole(f *fault, l Links) (undo func()) {
	if f.rng.IntN(3) == 0 {
		l.BlackholeUsed()
	} else {
		l.Blackhole()
	}
	return l.Mend
}

// linkDelay is how long data takes in each direction of a delayed link.
const linkDelay = 20 * time.Millisecond

func delay(_ *fault, l Links) (undo func()) {
	l.Delay(linkDelay)
	return func() { l.Delay(0) }
}

// throttle lets so many bytes pass per second.
func throttle(_ *fault, l Links) (undo func()) {
	l.Throttle(4000)
	return func() { l.Throttle(0) }
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
