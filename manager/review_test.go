// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Two handles of one holder are released at the same time. The one that is not the
// last must not hear that the lock was lost.
func TestTwoHandlesReleasedAtOnce(t *testing.T) {
	c := newCluster(t, zktest.Config{})
	l := c.lock("a")
	for range 50000 {
		r := &round{lock: l}
		r.word.Apply(func(state.Word) (state.Word, state.Effect) { return state.Pack(state.Retained, 1), state.Granted })
		r.io().tenure = &tenure{lease: l.m.client.Session().Lease(), io: r.io()}
		h := newHold(r)
		nested, err := h.reenter("reenter")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, h := range []Hold{h, nested} {
			wg.Go(func() {
				if w, e := h.giveUp(); e == state.Left && w.Phase() != state.Retained {
					t.Errorf("a handle of a held lock was released in %v: Unlock says %v", w, h.lostError("unlock"))
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}

// meddled is a round's I/O as its runner sees it, with something that happens
// right after the runner has asked whether the step is urgent.
type meddled struct {
	*roundIO
	then func()
}

func (m *meddled) urgent() bool {
	urgent := m.roundIO.urgent()
	if !urgent {
		m.then()
	}
	return urgent
}

// A caller joins a round that all others left before its turn came, and the manager
// is closed as a worker finds out that the round's step is not urgent any more. The
// round must end all the same.
func TestCloseAsARoundIsJoinedAgain(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		l := exclusive(c.t, m, "jobs")
		io := l.cur.Load().io()
		io.runner.state.Store(queuedEnd) // a worker has just taken its entry
		joined := l.Acquire(c.t.Context())
		io.runner.run(&meddled{io, sync.OnceFunc(func() { _ = m.Close() })}, m.client.Session())
		synctest.Wait()
		wantErr(c.t, "the grant", settled(c.t, "the grant", joined.Granted()), ErrClosed)
		wantErr(c.t, "the release", settled(c.t, "the release", joined.Released()), ErrClosed)
	})
}

// With a very short tenure a waiter does not list the queue again and again.
func TestTenureOfNanosecond(t *testing.T) {
	c := newCluster(t, zktest.Config{})
	l := c.lock("a", func(cfg *Config) { cfg.Tenure = 1 })
	if err := c.srv.CreateAll(dir+"/stranger", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := l.Lock(ctx); err != nil {
		t.Errorf("%v, after these requests: %v", err, c.takeCounts())
	}
}
