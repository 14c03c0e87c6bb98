// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

// A process takes many locks, loses its connection, releases them; it queues for many,
// and loses its session.
func TestBulk(t *testing.T) {
	testBulk(t, embedded(t, "mntr"))
}

func TestBulkOnZooKeeper(t *testing.T) { testBulk(t, realzk.Start(t).Addr()) }

func testBulk(t *testing.T, addr string) {
	for _, sc := range bulk(50 * time.Millisecond) {
		j := sc.job
		j.Server, j.Dir, j.Locks, j.WarmupMillis, j.MeasureMillis = addr, "/bench/"+sc.id, 40, 10, 50
		after, err := sc.before(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		r := work.Do(t.Context(), holdfast{}, j)
		after()
		if r.Err != "" || r.Unsupported != "" {
			t.Fatalf("%s: %+v", sc.id, r)
		}
		want := []string{takeAllSeconds, restProcessor, restRequests, reconnectMillis, releaseAllSeconds}
		if j.Work == work.Expire {
			want = []string{queueAllSeconds, atOnceMillis, laterMillis, queuedAgain}
		}
		for _, name := range want {
			if v, ok := r.Extra[name]; !ok || v <= 0 && name != restRequests && name != restProcessor {
				t.Errorf("%s: %s is %v", sc.id, name, v)
			}
		}
	}
}

// Frames are found however they are cut.
func TestFrames(t *testing.T) {
	long := make([]byte, 3*beginning)
	for i := range long {
		long[i] = byte(i)
	}
	stream := slices.Concat([]byte{0, 0, 0, 1, 'h', 0, 0, 0, 2, 'a', 'b'}, []byte{0, 0, 0, 0}, []byte{0, 0, 1, 0x80}, long, []byte{0, 0, 0, 1, 'c'})
	want := []string{"ab", "", string(long[:beginning]), "c"}
	for size := range len(stream) {
		var got []string
		f := frames{each: func(frame []byte) { got = append(got, string(frame)) }}
		for part := range slices.Chunk(stream, size+1) {
			if n, err := f.Write(part); n != len(part) || err != nil {
				t.Fatalf("%d of %d bytes were taken, %v", n, len(part), err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in parts of %d: got %q, want %q", size+1, got, want)
		}
	}
}

func TestMonitor(t *testing.T) {
	if m, err := monitor(t.Context(), embedded(t, "srvr")); err == nil {
		t.Errorf("got %+v of a server that does not tell", m)
	}
}
