// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Options are how a [Trial] is held.
type Options struct {
	// Watch is called with each event after it was judged, by one goroutine; or nil.
	Watch func(history.Event)
	// Checkpoint is how often the verdict so far is written into the directory of the
	// history, as verdict.json. It defaults to ten seconds.
	Checkpoint time.Duration
	// Checkpointed is called with each verdict that was written so, by the same goroutine as
	// Watch; or nil.
	Checkpointed func(verdict.Verdict) error
	// Limit is how much of the events is kept. Those around findings may take as much again.
	Limit history.Limit
}

// around is how much of the history before and after a finding is kept.
const around = int64(10 * time.Second)

// A Trial judges a history while it is written. All methods may be called concurrently.
type Trial struct {
	dir      string
	options  Options
	follower *history.Follower
	cancel   context.CancelFunc
	finish   sync.Once
	done     chan struct{} // closed when the goroutine of Begin has ended
	err      error         // its error; read it when done is closed

	mu    sync.Mutex // protects the judge
	judge *Judge
}

// Begin begins to judge the history in dir, which has a header. The caller calls End.
func Begin(dir string, o Options) (*Trial, error) {
	h, err := history.ReadHeader(dir)
	if err != nil {
		return nil, err
	}
	if o.Checkpoint <= 0 {
		o.Checkpoint = 10 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Trial{dir: dir, options: o, follower: history.Follow(dir), cancel: cancel, done: make(chan struct{}), judge: New(h)}
	go func() {
		defer close(t.done)
		defer t.follower.Close()
		t.err = t.run(ctx)
	}()
	return t, nil
}

// run adds events until there are no more, and makes checkpoints in between.
func (t *Trial) run(ctx context.Context) error {
	for {
		more, err := t.until(ctx, time.Now().Add(t.options.Checkpoint))
		if !more || err != nil {
			return err
		}
		if err := t.checkpoint(); err != nil {
			return err
		}
	}
}

// until adds events until that time. It reports false if there are no more.
func (t *Trial) until(ctx context.Context, end time.Time) (more bool, err error) {
	limited, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for n := 1; ; n++ {
		e, ok, err := t.follower.Next(limited)
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return true, nil
		case err != nil || !ok:
			return false, err
		}
		t.mu.Lock()
		t.judge.Add(e)
		t.mu.Unlock()
		if t.options.Watch != nil {
			t.options.Watch(e)
		}
		// Next looks at the context only if it has to wait.
		if n%1000 == 0 && limited.Err() != nil && ctx.Err() == nil {
			return true, nil
		}
	}
}

// checkpoint writes the verdict so far, and removes old events.
func (t *Trial) checkpoint() error {
	v := t.Interim()
	v.Interim = true
	if err := v.Write(t.dir); err != nil {
		return err
	}
	if t.options.Checkpointed != nil {
		if err := t.options.Checkpointed(v); err != nil {
			return err
		}
	}
	return t.follower.Trim(t.options.Limit, func(first, last int64) bool {
		return slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return first <= f.At+around && f.At-around <= last })
	})
}

// Interim returns what the events so far have shown.
func (t *Trial) Interim() verdict.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.judge.Interim()
}

// again judges the history from its beginning if some events came out of order, and if none
// have been removed: then the events are in the order of time. It is called when all have
// been written.
func (t *Trial) again() error {
	t.mu.Lock()
	late := t.judge.scene.Late
	t.mu.Unlock()
	trimmed, err := history.ReadTrimmed(t.dir)
	if err != nil || late == 0 || trimmed.Segments > 0 {
		return err
	}
	j, err := read(t.dir, func(*Judge) {})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judge = j
	return nil
}

// End tells that no more events will be written, waits until all are judged, and writes
// the verdict and the pictures of what is not linearizable into the directory.
func (t *Trial) End() (verdict.Verdict, error) {
	t.finish.Do(t.follower.Finish)
	<-t.done
	t.cancel()
	if t.err == nil {
		t.err = t.again()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.judge.Finish()
	return v, errors.Join(t.err, t.judge.WritePictures(t.dir), v.Write(t.dir))
}

// Amend judges events that were written after End: what the harness has found out with its
// verdict. It writes the verdict into the directory again.
func (t *Trial) Amend(events ...history.Event) (verdict.Verdict, error) {
	t.mu.Lock()
	for _, e := range events {
		t.judge.Add(e)
	}
	v := t.judge.Finish()
	t.mu.Unlock()
	return v, v.Write(t.dir)
}
