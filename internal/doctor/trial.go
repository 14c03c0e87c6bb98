// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A trial is what came of doing what a lock does.
type trial struct {
	dir       string // where it was made: the root, or what there is of its path
	refused   string // what the servers refuse this client; "" if nothing
	err       error  // why the trial ended early
	container bool   // the server has container nodes
	likeness  likeness
	writes    []timed
	reads     []time.Duration
	late      time.Duration // for how long this process itself stood still, at most
	stamps    []stamp
	wall      time.Duration // between the first and the last stamp, by the wall clock
}

// A stamp is one moment by two clocks: this machine's, before and after a request, and
// the leader's, which has stamped the node that the request created.
type stamp struct {
	before, after time.Time
	leader        time.Time
}

// A timed request was due at a time, and was answered that much later.
type timed struct {
	due  time.Time
	took time.Duration
}

// try does below the root what a lock does, spread over cfg.Watch. It leaves nothing
// behind, unless it may not delete what it has made: the server deletes that, if it has
// container nodes.
func try(ctx context.Context, s *zkio.Session, cfg Config) (t trial) {
	t.dir, t.err = existing(s, cfg.Root)
	if t.err != nil {
		return t
	}
	// An ephemeral node first: it goes with the session if it cannot be deleted.
	own := path.Join(t.dir, fmt.Sprintf("_doctor_%016x", rand.Uint64()))
	for _, step := range []struct {
		right string
		do    func() error
	}{
		{"create nodes", func() error { return s.CreateEphemeral(own, nil, nil) }},
		{"delete nodes", func() error { return s.Delete(own, -1) }},
	} {
		if err := step.do(); errors.Is(err, zkio.ErrNoAuth) {
			t.refused = step.right
			return t
		} else if err != nil {
			t.err = err
			return t
		}
	}
	before := s.Client().Stats().Sent["create"]
	if s, t.err = ensureDir(ctx, s, own); t.err != nil {
		return t
	}
	// Clients cannot tell containers from other nodes. But a server that has none has
	// refused the first request, and got another one.
	t.container = s.Client().Stats().Sent["create"] == before
	t.err = t.within(ctx, s, own, cfg)
	t.err = errors.Join(t.err, s.Delete(own, -1))
	return t
}

// within makes the trial in the directory dir, and leaves it empty.
func (t *trial) within(ctx context.Context, s *zkio.Session, dir string, cfg Config) error {
	// The server removes a container that has become empty, so one child stays.
	kept := path.Join(dir, "kept")
	if err := s.CreateEphemeral(kept, nil, nil); err != nil {
		return err
	}
	err := t.measure(ctx, s, dir, cfg.Watch)
	if err == nil {
		t.compare(ctx, s, cfg, dir)
	}
	return errors.Join(err, s.Delete(kept, -1))
}

// existing returns the lowest directory on the way to the root that exists.
func existing(s *zkio.Session, root string) (string, error) {
	for dir := root; ; dir = parent(dir) {
		_, there, err := s.Exists(dir)
		if err != nil || there || dir == "/" {
			return dir, err
		}
	}
}

// every is how often the trial does what a lock does. A server that stops for a fifth of a
// second is met several times meanwhile.
const every = 25 * time.Millisecond

// measure times the requests of a lock that is acquired and released. It sends them at
// fixed times, whether the ones before are answered or not, and counts from these times on:
// the processes that want a lock while the servers stand still do not wait for each other,
// either.
func (t *trial) measure(ctx context.Context, s *zkio.Session, dir string, watch time.Duration) error {
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	samples := make([]sample, max(1, watch/every))
	begin := time.Now()
	var asking sync.WaitGroup
	for i := range samples {
		due := begin.Add(time.Duration(i) * every)
		if !until(going, due) {
			break
		}
		asking.Go(func() {
			if err := samples[i].take(s, path.Join(dir, fmt.Sprintf("node-%d", i)), due); err != nil {
				stop(err)
			}
		})
	}
	asking.Wait() // no request outlasts the session
	for _, a := range samples {
		t.late = max(t.late, a.late)
		t.writes = append(t.writes, a.writes...)
		if !a.stamp.leader.IsZero() {
			t.reads = append(t.reads, a.read)
			t.stamps = append(t.stamps, a.stamp)
			// Round strips the monotonic reading, by which Sub goes otherwise.
			t.wall = a.stamp.before.Round(0).Sub(t.stamps[0].before.Round(0))
		}
	}
	return context.Cause(going)
}

// until waits until a time, and reports whether ctx lasts until then.
func until(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// A sample is what the requests of one acquisition and its release took.
type sample struct {
	late   time.Duration // by how much this process was late to send the first of them
	writes []timed
	read   time.Duration
	stamp  stamp // its leader is zero if the requests failed before
}

// take makes the requests, the first of which is due now or was due a little earlier.
func (a *sample) take(s *zkio.Session, node string, due time.Time) error {
	before := time.Now()
	a.late = before.Sub(due)
	err := s.CreateEphemeral(node, nil, nil)
	after := time.Now()
	a.writes = append(a.writes, timed{due, after.Sub(due)}) // failed or not, a lock waits for it
	if err != nil {
		return err
	}
	_, st, err := s.Get(node)
	if err != nil {
		return err
	}
	read := time.Now()
	a.read = read.Sub(after)
	a.stamp = stamp{before, after, time.UnixMilli(st.Ctime)}
	err = s.Delete(node, -1)
	a.writes = append(a.writes, timed{read, time.Since(read)})
	return err
}

// median returns the middle of all; 0 if there are none.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
