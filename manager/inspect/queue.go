// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Queue is a lock with all its contenders.
type Queue struct {
	Lock

	// Contenders are in the order of their turns. Those that were not read have nothing
	// but Path, Kind, Sequence, Holds and Client.
	Contenders []Contender

	// Takeover is the last time that the session of a process which had a node in the lock's
	// directory was closed for it; nil if there is no note of that. The process held the lock or
	// waited for it: the note does not tell which. Only [Reader.Queue] fills it in.
	Takeover *Takeover
}

// Queue returns the queue of the lock called name, with the nodes of the first details
// contenders read, or of all of them if details is negative. Besides the errors of every
// [Reader], it fails with [manager.ErrBadName], and with [zkio.ErrNoAuth] if this client
// may not list the lock's directory.
//
// The notes of takeovers take one read, and one more if there are any. Those that this client may
// not read do not show.
func (r *Reader) Queue(ctx context.Context, name string, details int) (Queue, error) {
	path, err := manager.LockPath(r.root, name)
	if err != nil {
		return Queue{}, err
	}
	d, err := r.look(ctx, path, first(details), nil)
	if err != nil {
		return Queue{}, err
	}
	q := r.queue(d)
	q.Takeover, err = ask(ctx, r, func(s *zkio.Session) (*Takeover, error) { return lastTakeover(s, r.root, path) })
	if err != nil {
		return Queue{}, err
	}
	return q, nil
}

// look reads one directory.
func (r *Reader) look(ctx context.Context, path string, pick selection, known map[string]Contender) (d *directory, err error) {
	return ask(ctx, r, func(s *zkio.Session) (*directory, error) {
		found, err := look(s, []string{path}, pick, known)
		switch {
		case err != nil:
			return nil, err
		case found[0].denied != nil:
			return nil, fmt.Errorf("this client may not see the queue: %w", found[0].denied)
		}
		return found[0], nil
	})
}

// queue returns what d shows.
func (r *Reader) queue(d *directory) Queue {
	q := Queue{Lock: r.lock(d), Contenders: make([]Contender, len(d.queue))}
	for i := range d.queue {
		q.Contenders[i] = d.contender(i)
	}
	return q
}

// exists reports whether there is a node at path.
func (r *Reader) exists(ctx context.Context, path string) (there bool, err error) {
	return ask(ctx, r, func(s *zkio.Session) (there bool, err error) {
		_, there, err = s.Exists(path)
		return there, err
	})
}

// A bell tells of changes.
type bell chan struct{} // of capacity 1

// PathChanged is called by the client's dispatcher.
func (b bell) PathChanged(string, zkio.Event) {
	select {
	case b <- struct{}{}:
	default:
	}
}

// watchPause is the least time between two looks of Watch, which lists the whole queue in
// each.
const watchPause = 100 * time.Millisecond

// Watch ranges over the lock's queue: first as it is, and then as it is after each change.
// Changes that follow each other within a tenth of a second can be told as one. In an
// outage it waits until ZooKeeper is back. All contenders are read, each once.
//
// The loop ends when its body leaves it, and otherwise with an error, which is the last
// value: [manager.ErrBadName], [zkio.ErrNoAuth], ctx.Err() and context.Cause(ctx) when ctx ends, or
// [zkio.ErrClosed].
func (r *Reader) Watch(ctx context.Context, name string) iter.Seq2[Queue, error] {
	return func(yield func(Queue, error) bool) {
		if err := r.watch(ctx, name, func(q Queue) bool { return yield(q, nil) }); err != nil {
			yield(Queue{}, err)
		}
	}
}

// watch calls fn for each queue until it returns false.
func (r *Reader) watch(ctx context.Context, name string, fn func(Queue) bool) error {
	path, err := manager.LockPath(r.root, name)
	if err != nil {
		return err
	}
	changed := make(bell, 1)
	r.client.Watch(path, changed)
	defer r.client.Unwatch(path, changed) // the server's watch ends with the session, or fires unheard
	pause := time.NewTicker(watchPause)
	defer pause.Stop()
	var known map[string]Contender
	for {
		s := r.client.Session()
		d, err := r.look(ctx, path, first(-1), known)
		there := err == nil && d.there
		if err == nil && !there { // only a watch for its creation tells of the next contender
			there, err = r.exists(ctx, path)
		}
		switch {
		case errors.Is(err, ErrOutage), err == nil && there != d.there:
			continue
		case err != nil:
			return err
		}
		known = d.described
		if !fn(r.queue(d)) {
			return nil
		}
		// The watches end with the session, and then nothing rings.
		for rang := false; !rang; {
			select {
			case <-changed:
				rang = true
			case <-ctx.Done():
				return ctxerr.Of(ctx)
			case <-pause.C:
				rang = r.client.Session() != s
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctxerr.Of(ctx)
		}
	}
}
