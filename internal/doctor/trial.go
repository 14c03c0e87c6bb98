// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A trial is what came of doing what a lock does.
type trial struct {
	dir       string // where it was made: the root, or what there is of its path
	refused   string // what the servers refuse this client; "" if nothing
	err       error  // why the trial ended early
	container bool   // the server has container nodes
	writes    []time.Duration
	reads     []time.Duration
	stamps    []stamp
	wall      time.Duration // between the first and the last stamp, by the wall clock
}

// A stamp is one moment by two clocks: this machine's, before and after a request, and
// the leader's, which has stamped the node that the request created.
type stamp struct {
	before, after time.Time
	leader        time.Time
}

// rounds is how often the trial makes the requests that it times.
const rounds = 20

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
	if t.err = s.EnsureDir(own, nil); t.err != nil {
		return t
	}
	// Clients cannot tell containers from other nodes. But a server that has none has
	// refused the first request, and got another one.
	t.container = s.Client().Stats().Sent["create"] == before
	t.err = t.within(ctx, s, own, cfg.Watch)
	t.err = errors.Join(t.err, s.Delete(own, -1))
	return t
}

// within makes the trial in the directory dir, and leaves it empty.
func (t *trial) within(ctx context.Context, s *zkio.Session, dir string, watch time.Duration) error {
	// The server removes a container that has become empty, so one child stays.
	kept := path.Join(dir, "kept")
	if err := s.CreateEphemeral(kept, nil, nil); err != nil {
		return err
	}
	err := t.measure(ctx, s, path.Join(dir, "node"), watch)
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

// measure times the requests of a lock that is acquired and released.
func (t *trial) measure(ctx context.Context, s *zkio.Session, node string, watch time.Duration) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for range rounds {
		select {
		case <-pause.C:
			pause.Reset(watch / rounds)
		case <-ctx.Done():
			return ctx.Err()
		}
		before := time.Now()
		if err := s.CreateEphemeral(node, nil, nil); err != nil {
			return err
		}
		after := time.Now()
		_, st, err := s.Get(node)
		if err != nil {
			return err
		}
		read := time.Now()
		if err := s.Delete(node, -1); err != nil {
			return err
		}
		t.writes = append(t.writes, after.Sub(before), time.Since(read))
		t.reads = append(t.reads, read.Sub(after))
		t.stamps = append(t.stamps, stamp{before, after, time.UnixMilli(st.Ctime)})
		// Round strips the monotonic reading, by which Sub goes otherwise.
		t.wall = before.Round(0).Sub(t.stamps[0].before.Round(0))
	}
	return nil
}

// median returns the middle of all; 0 if there are none.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
