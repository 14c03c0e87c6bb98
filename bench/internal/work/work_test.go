// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mutex is a subject whose sessions share one lock.
type mutex struct {
	mu     sync.Mutex
	fail   error
	closed atomic.Int32
	inside atomic.Int32
	crowd  atomic.Bool // two workers were inside at once
}

func (m *mutex) Version() string                               { return "a mutex" }
func (m *mutex) Open(context.Context, string) (Session, error) { return m, m.fail }
func (m *mutex) Close() error                                  { m.closed.Add(1); return nil }

func (m *mutex) Locker(_ string, read bool) (Locker, error) {
	if read {
		return nil, ErrUnsupported
	}
	return locker{m}, nil
}

type locker struct{ m *mutex }

func (l locker) Lock(context.Context) error {
	time.Sleep(time.Millisecond)
	l.m.mu.Lock()
	if l.m.inside.Add(1) > 1 {
		l.m.crowd.Store(true)
	}
	return nil
}

func (l locker) Unlock(context.Context) error {
	l.m.inside.Add(-1)
	l.m.mu.Unlock()
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
	m := new(mutex)
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
		r := Do(t.Context(), new(mutex), Job{Work: Contend, Sessions: 1, Workers: 1, Locks: 1, WarmupMillis: 50, MeasureMillis: 100})
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
