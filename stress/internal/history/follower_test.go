// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writers creates a writer for each process, in a new history.
func writers(t *testing.T, processes ...int) (dir string, all []*Writer) {
	t.Helper()
	dir = t.TempDir()
	if err := WriteHeader(dir, Header{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		all = append(all, create(t, dir, p, 0))
	}
	return dir, all
}

func create(t *testing.T, dir string, process, incarnation int) *Writer {
	t.Helper()
	w, err := Create(dir, process, incarnation)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func write(t *testing.T, w *Writer, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
}

func times(t *testing.T, dir string) (all []int64) {
	t.Helper()
	for e, err := range All(dir) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.At)
	}
	return all
}

func TestAllIsInOrder(t *testing.T) {
	dir, w := writers(t, Harness, Register, 0, 1)
	for i := range int64(1000) {
		write(t, w[i%4], Event{At: 10_000 - 7*i, Kind: Valid})
	}
	got := times(t, dir)
	if len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("%d events, in order: %v", len(got), slices.IsSorted(got))
	}
}

func TestSegments(t *testing.T) {
	dir, w := writers(t, 0, 1)
	w[0].size, w[1].size = 1000, 700
	for i := range int64(500) {
		write(t, w[i%2], Event{At: i + 1, Kind: Valid, Text: "some text"})
	}
	if got := times(t, dir); len(got) != 500 || !slices.IsSorted(got) {
		t.Errorf("%d events of 500, in order: %v", len(got), slices.IsSorted(got))
	}
	all, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all[source{0, 0}]); n < 10 {
		t.Errorf("%d segments", n)
	}
}

// Lines that concurrent callers write are whole, and none is missing.
func TestWriteConcurrently(t *testing.T) {
	dir, w := writers(t, 0)
	w[0].size = 10_000
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for op := range uint64(200) {
				if err := w[0].Write(Event{Kind: Request, Worker: worker, Op: op + 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var next [8]uint64
	for e, err := range All(dir) {
		if err != nil {
			t.Fatal(err)
		}
		if next[e.Worker]++; e.Op != next[e.Worker] {
			t.Errorf("worker %d: event %d comes as number %d", e.Worker, e.Op, next[e.Worker])
		}
	}
	for worker, n := range next {
		if n != 200 {
			t.Errorf("%d events of worker %d", n, worker)
		}
	}
}

// What a killed process has written stays, and what it has not finished is ignored.
func TestHalfALine(t *testing.T) {
	dir, w := writers(t, 0, 1)
	write(t, w[0], Event{At: 1, Kind: Valid})
	write(t, w[1], Event{At: 2, Kind: Valid})
	f, err := os.OpenFile(segment{source{0, 0}, 1}.in(dir), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"at":3,"ki`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := times(t, dir); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("got %d", got)
	}
	if err := os.WriteFile(segment{source{0, 0}, 2}.in(dir), []byte("{}\nnonsense\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, err = range All(dir) {
	}
	want := filepath.Join("events", "worker0.0.000002.jsonl") + ", line 2 is no event"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q in it", err, want)
	}
}

// following runs a follower, and returns what it has yielded so far.
func following(t *testing.T, dir string) (got, end func() []int64) {
	f := Follow(dir)
	var mu sync.Mutex
	var all []int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.Close()
		for {
			e, ok, err := f.Next(context.Background())
			if err != nil {
				t.Error(err)
			}
			if !ok || err != nil {
				return
			}
			mu.Lock()
			all = append(all, e.At/int64(time.Second))
			mu.Unlock()
		}
	}()
	got = func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
	return got, func() []int64 {
		f.Finish()
		<-done
		return got()
	}
}

// at is an event of a second.
func at(seconds int64, kind Kind) Event { return Event{At: seconds * int64(time.Second), Kind: kind} }

func about(process int, e Event) Event {
	e.Process = process
	return e
}

// pass lets time pass in a bubble, so that the follower has looked at the files.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// An event is held back until each process that lives has written a later one.
func TestFollowHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, w := writers(t, Harness)
		got, end := following(t, dir)
		want := func(step string, want ...int64) {
			t.Helper()
			pass(2 * time.Second)
			if got := got(); !slices.Equal(got, want) {
				t.Errorf("%s: got %d, want %d", step, got, want)
			}
		}
		write(t, w[0], about(0, at(1, Started)), about(1, at(2, Started)), at(10, Alive))
		want("no process has written", 1)
		p0 := create(t, dir, 0, 0)
		write(t, p0, at(3, Valid), at(9, Alive))
		want("the second process has not written", 1, 2)
		p1 := create(t, dir, 1, 0)
		write(t, p1, at(4, Valid), at(6, Valid))
		want("both have written", 1, 2, 3, 4)
		write(t, w[0], at(20, FaultBegan), at(28, FaultEnded), at(30, Alive))
		write(t, p0, at(29, Alive))
		want("the second process is stopped", 1, 2, 3, 4)
		write(t, p1, at(8, Valid), at(27, Valid))
		want("it is continued", 1, 2, 3, 4, 6, 8, 9, 10, 20)
		write(t, w[0], about(1, at(31, Ended)), at(40, Alive))
		write(t, p0, at(39, Alive))
		want("it has ended", 1, 2, 3, 4, 6, 8, 9, 10, 20, 27, 28, 29, 30, 31)
		write(t, w[0], about(0, at(41, Ended)))
		if got := end(); len(got) != 17 || !slices.IsSorted(got) {
			t.Errorf("at the end: %d", got)
		}
	})
}

// A process that is silent for too long is left out.
func TestFollowDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, w := writers(t, 0, 1)
		got, end := following(t, dir)
		write(t, w[0], at(1, Valid))
		beat := func(from, to int64) {
			for i := from; i < to; i++ {
				write(t, w[1], at(i, Valid))
				pass(time.Second)
			}
		}
		beat(2, 60)
		if got := got(); !slices.Equal(got, nil) {
			t.Errorf("got %d, but the first process lives", got)
		}
		beat(60, 70)
		if got := got(); len(got) < 60 {
			t.Errorf("got %d", got)
		}
		write(t, w[0], at(90, Valid))
		if got := end(); len(got) != 70 || !slices.IsSorted(got) {
			t.Errorf("at the end: %d", got)
		}
	})
}

// What is written between the last look at the files and Finish is not lost.
func TestFinish(t *testing.T) {
	dir, w := writers(t, Harness, 0)
	write(t, w[0], at(1, Alive), at(10, Alive))
	write(t, w[1], at(2, Valid), at(10, Valid))
	f := Follow(dir)
	defer f.Close()
	next := func() int64 {
		t.Helper()
		e, ok, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return 0
		}
		return e.At / int64(time.Second)
	}
	got := []int64{next(), next()}
	write(t, w[0], at(11, Stopping))
	write(t, w[1], at(12, Valid))
	f.Finish()
	for n := next(); n > 0; n = next() {
		got = append(got, n)
	}
	if !slices.Equal(got, []int64{1, 2, 10, 10, 11, 12}) {
		t.Errorf("got %d", got)
	}
}

func TestTrim(t *testing.T) {
	dir, w := writers(t, Harness, 0, 1)
	w[0].size, w[1].size, w[2].size = 1000, 1000, 1000
	for i := range int64(3000) {
		write(t, w[i%3], at(i+1, Valid))
	}
	f := Follow(dir)
	defer f.Close()
	f.Finish()
	for {
		_, ok, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
	}
	size := func() (size int64) {
		files, _ := filepath.Glob(filepath.Join(dir, eventsName, "*"))
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		return size
	}
	before := size()
	kept := int64(500) * int64(time.Second)
	keep := func(first, last int64) bool { return first <= kept && kept <= last }
	if err := f.Trim(Limit{Bytes: before - 20_000}, keep); err != nil {
		t.Fatal(err)
	}
	after := size()
	if after > before-20_000 || after < before-22_000 {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	gone, err := ReadTrimmed(dir)
	if err != nil || gone.Bytes != before-after || gone.Segments < 15 {
		t.Errorf("trimmed: %+v, %v; %d bytes are gone", gone, err, before-after)
	}
	if err := f.Trim(Limit{Bytes: 6000}, keep); err != nil {
		t.Fatal(err)
	}
	left := map[int64]bool{}
	for e, err := range All(dir) {
		if err != nil {
			t.Fatal(err)
		}
		left[e.At/int64(time.Second)] = true
	}
	if after = size(); after > 6000 {
		t.Errorf("%d bytes are left", after)
	}
	for i := range int64(3000) {
		switch n := i + 1; {
		case n == 500 && !left[n]: // to be kept
			t.Errorf("event %d is gone", n)
		case (n < 400 || n > 600) && n < 2800 && left[n]:
			t.Errorf("event %d is left", n)
		}
	}
}

func TestHeader(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	want := Header{Command: "stress", Seed: 7, Begin: 5e9, BeginWall: "2026-01-02T03:04:05.5Z"}
	if err := WriteHeader(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHeader(dir)
	want.Version = Version
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ReadHeader(t.TempDir()); err == nil || !strings.Contains(err.Error(), "directory of a run's report") {
		t.Errorf("no history: %v", err)
	}
}

func TestAnchorIsNow(t *testing.T) {
	before, wall := Now(), time.Now()
	a := TakeAnchor()
	after := Now()
	if a.Mono < before || a.Mono > after || a.Wall.Sub(wall) < -time.Second || a.Wall.Sub(wall) > time.Minute {
		t.Errorf("anchor %v, taken between %d and %d", a, before, after)
	}
	if at := a.At(a.Wall.Add(1500 * time.Millisecond)); at != a.Mono+15e8 {
		t.Errorf("one and a half seconds after %v is %d", a, at)
	}
}
