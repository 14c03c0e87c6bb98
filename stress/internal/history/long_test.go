// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
)

// A relay of processes: each of two is killed after a second, and the next incarnation is
// started at once.
type relay struct {
	t       *testing.T
	dir     string
	harness *Writer
	n       int // incarnations of each process so far
}

func newRelay(t *testing.T) *relay {
	dir, w := writers(t, Harness)
	return &relay{t: t, dir: dir, harness: w[0]}
}

const runners = 2

// second writes what happens in one second.
func (r *relay) second() {
	r.t.Helper()
	begin := int64(r.n+1) * int64(time.Second)
	for p := range runners {
		who := Event{At: begin, Process: p, Incarnation: r.n, Kind: Started}
		write(r.t, r.harness, who)
		w, err := Create(r.dir, p, r.n)
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range int64(10) {
			write(r.t, w, Event{At: begin + (i+1)*int64(time.Second)/11, Kind: Valid})
		}
		if err := w.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	for p := range runners {
		write(r.t, r.harness, Event{At: begin + int64(time.Second), Process: p, Incarnation: r.n, Kind: Ended})
	}
	write(r.t, r.harness, Event{At: begin + int64(time.Second), Process: Harness, Kind: Alive})
	r.n++
}

// A complete history is read with few files open and few events in memory, however many
// processes it has and however much the harness wrote.
func TestAllOfManyProcesses(t *testing.T) {
	seconds := racing.Fewer(1000)
	r := newRelay(t)
	for range seconds {
		r.second()
	}
	f := Follow(r.dir)
	defer f.Close()
	f.Finish()
	var events, open, pending int
	last := int64(0)
	for {
		e, ok, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if e.At < last {
			t.Fatalf("an event of %d comes after one of %d", e.At, last)
		}
		last = e.At
		events++
		files := 0
		for _, s := range f.streams {
			if s.file != nil {
				files++
			}
		}
		open, pending = max(open, files), max(pending, len(f.pending))
	}
	if want := seconds * (12*runners + 1); events != want {
		t.Errorf("%d events, want %d", events, want)
	}
	if open > 3*runners+1 || pending > 2000 {
		t.Errorf("up to %d files were open, and %d events in memory", open, pending)
	}
}

// While a history is written, the follower forgets the processes that have ended, and its
// memory and the number of files are bounded.
func TestFollowManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const files = 60
		r := newRelay(t)
		f := Follow(r.dir)
		defer f.Close()
		read, known := 0, 0
		seconds := racing.Fewer(600)
		for range seconds {
			r.second()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for {
				_, ok, err := f.Next(ctx)
				if err != nil || !ok {
					break // the second is over
				}
				read++
			}
			cancel()
			if err := f.Trim(Limit{Files: files}, nil); err != nil {
				t.Fatal(err)
			}
			known = max(known, len(f.streams)+len(f.done)+len(f.read)+len(f.pending)+len(f.files))
		}
		if read < (seconds-10)*(12*runners) {
			t.Errorf("%d events came", read)
		}
		if known > 5*files {
			t.Errorf("the follower had up to %d entries in memory", known)
		}
		there, err := os.ReadDir(filepath.Join(r.dir, eventsName))
		if err != nil || len(there) > files+2*runners {
			t.Errorf("%d files are there, %v", len(there), err)
		}
	})
}

// What is to be kept goes only when it alone is too much.
func TestTrimKeepsWithinTwiceTheLimit(t *testing.T) {
	r := newRelay(t)
	for range 100 {
		r.second()
	}
	f := Follow(r.dir)
	defer f.Close()
	f.Finish()
	for {
		if _, ok, err := f.Next(t.Context()); err != nil {
			t.Fatal(err)
		} else if !ok {
			break
		}
	}
	all := func(_, _ int64) bool { return true }
	for _, tt := range []struct{ limit, left int }{{150, 201}, {50, 100}} {
		if err := f.Trim(Limit{Files: tt.limit}, all); err != nil {
			t.Fatal(err)
		}
		there, err := os.ReadDir(filepath.Join(r.dir, eventsName))
		if err != nil || len(there) != tt.left {
			t.Errorf("limit %d: %d files are left, want %d; %v", tt.limit, len(there), tt.left, err)
		}
	}
}
