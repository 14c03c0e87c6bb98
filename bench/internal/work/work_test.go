// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mutex is a subject whose sessions share one lock.
type mutex struct {
	taken  chan struct{} // a channel's waiters, unlike a Mutex's, let a bubble's time pass
	fail   error
	closed atomic.Int32
	inside atomic.Int32
	crowd  atomic.Bool // two workers were inside at once
}

func newMutex() *mutex { return &mutex{taken: make(chan struct{}, 1)} }

func (m *mutex) Version() string                               { return "a mutex" }
func (m *mutex) Open(context.Context, string) (Session, error) { return m, m.fail }
func (m *mutex) Close() error                                  { m.closed.Add(1); return nil }

func (m *mutex) Locker(string) (Locker, error) { return locker{m}, nil }

type locker struct{ m *mutex }

func (l locker) Lock(ctx context.Context) error {
	time.Sleep(time.Millisecond)
	select {
	case l.m.taken <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.m.inside.Add(1) > 1 {
		l.m.crowd.Store(true)
	}
	return nil
}

func (l locker) Unlock(context.Context) error {
	l.m.inside.Add(-1)
	<-l.m.taken
	return nil
}

func TestServe(t *testing.T) { synctest.Test(t, testServe) }

func testServe(t *testing.T) {
	jobs := []string{
		`{"work":"hello"}`,
		`{"work":"contend","sessions":2,"workers":2,"locks":1,"measureMillis":50}`,
		`{"work":"contend","sessions":1,"workers":1,"locks":1,"read":true}`,
		`{"work":"reenter","workers":1,"locks":1}`,
		`{"work":"juggle"}`,
	}
	m := newMutex()
	var out bytes.Buffer
	if err := Serve(t.Context(), m, strings.NewReader(strings.Join(jobs, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	var got []Result
	for dec := json.NewDecoder(&out); dec.More(); {
		var r Result
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(got) != len(jobs) {
		t.Fatalf("%d results of %d jobs", len(got), len(jobs))
	}
	if got[0].Version != "a mutex" {
		t.Errorf("hello: %+v", got[0])
	}
	if r := got[1]; r.Entries == 0 || r.Total < r.Entries || len(r.Waits) == 0 || r.Err != "" {
		t.Errorf("contend: %+v", r)
	}
	if n := m.closed.Load(); n != 4 {
		t.Errorf("%d sessions were closed, want 4", n)
	}
	if m.crowd.Load() {
		t.Error("two workers were inside at once")
	}
	for i, r := range got[2:] {
		if r.Unsupported == "" {
			t.Errorf("%s: %+v", jobs[2+i], r)
		}
	}
	if err := Serve(t.Context(), m, strings.NewReader("nonsense\n"), &out); err == nil {
		t.Error("no error for a malformed job")
	}
	m.fail = errors.New("no server")
	if r := Do(t.Context(), m, Job{Work: Contend, Server: "zk1:2181", Sessions: 1}); !strings.Contains(r.Err, "no server") || !strings.Contains(r.Err, "zk1:2181") {
		t.Errorf("without a server: %+v", r)
	}
}

// Only entries during the measurement count: with one entry per millisecond, 100.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Do(t.Context(), newMutex(), Job{Work: Contend, Sessions: 1, Workers: 1, Locks: 1, WarmupMillis: 50, MeasureMillis: 100})
		if r.Entries < 99 || r.Entries > 101 || r.Total < 150 || r.Total > 152 || r.Seconds != .1 || r.Err != "" {
			t.Errorf("%d entries of %d in %v s, %s", r.Entries, r.Total, r.Seconds, r.Err)
		}
		for _, w := range r.Waits {
			if w != 1000 {
				t.Fatalf("a wait of %v µs, want 1000", w)
			}
		}
	})
}

// Each gap lasts from a call of Unlock to the next grant: here, one that takes a
// millisecond if the lock is free, and none if it is not.
func TestLine(t *testing.T) {
	for _, test := range []struct {
		sessions, queueMillis, measureMillis int
		entries, total                       int64
		gap                                  float64 // µs
	}{
		{sessions: 3, queueMillis: 20, measureMillis: 1, entries: 2, total: 6, gap: 0},
		{sessions: 3, queueMillis: 20, measureMillis: 51 + 51 + 50, entries: 4, total: 9, gap: 0}, // 51 ms each
		{sessions: 2, queueMillis: 0, measureMillis: 1, entries: 1, total: 4, gap: 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMutex()
			r := Do(t.Context(), m, Job{
				Work: Line, Sessions: test.sessions, Locks: 1, HoldMicros: 10_000, QueueMillis: test.queueMillis, MeasureMillis: test.measureMillis,
			})
			if r.Err != "" || r.Entries != test.entries || r.Total != test.total || int64(len(r.Waits)) != test.entries || r.Seconds != test.gap*float64(test.entries)/1e6 {
				t.Errorf("%+v: got %+v", test, r)
			}
			for _, w := range r.Waits {
				if w != test.gap {
					t.Errorf("%+v: a gap of %v µs", test, w)
				}
			}
			if m.crowd.Load() {
				t.Error("two workers were inside at once")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if r := Do(t.Context(), new(noMutex), Job{Work: Line, Sessions: 3, Locks: 1, HoldMicros: 10_000}); !strings.Contains(r.Err, errTwo.Error()) {
			t.Errorf("without exclusion: %+v", r)
		}
	})
}

// noMutex excludes nothing.
type noMutex struct{ mutex }

func (m *noMutex) Open(context.Context, string) (Session, error) { return m, nil }
func (m *noMutex) Locker(string) (Locker, error)                 { return noLocker{}, nil }

type noLocker struct{}

func (noLocker) Lock(context.Context) error   { return nil }
func (noLocker) Unlock(context.Context) error { return nil }

// The waits that are kept are an even sample of all.
func TestSample(t *testing.T) {
	fast, slow := &worker{stride: 1}, &worker{stride: 1}
	for n := range int64(100_000) {
		if n%fast.stride == 0 {
			fast.waited(time.Millisecond)
		}
	}
	for range 1000 {
		slow.waited(time.Second)
	}
	if len(fast.waits) > MaxWaits {
		t.Fatalf("%d waits are kept", len(fast.waits))
	}
	all := sample([]*worker{fast, slow})
	long := 0
	for _, w := range all {
		if w == 1e6 {
			long++
		}
	}
	if share := float64(long) / float64(len(all)); share < .005 || share > .02 {
		t.Errorf("%.3f of the sample are of the worker with one entry in a hundred", share)
	}
}
