// SPDX-License-Identifier: Apache-2.0

package history

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// slack is how much later than its time an event may be written, because other
	// goroutines of the process ran in between.
	slack = int64(250 * time.Millisecond)
	// grace is how long after the end of a process a Follower still waits for events of
	// it: a process ends a moment after Ended has been written.
	grace = 300 * time.Millisecond
	// patience is how long a Follower waits for a process that writes nothing, and has not
	// ended. It is longer than a process is stopped on purpose.
	patience = time.Minute
	// poll is how long a Follower waits before it looks at the files again.
	poll = 50 * time.Millisecond
)

// A Follower reads a history in the order of time, while it is written or afterwards.
//
// It yields an event once each process that has not ended has written one that is a
// quarter of a second younger, so it is some half a second behind. A process that is
// stopped holds it up. This costs no memory: a Follower reads on only in the file that is
// furthest behind, and has little more than the events of half a second in memory. A
// process that writes nothing for a minute is left out until it writes again.
//
// So an event comes out of order, that is, after a younger one, only if its process wrote
// it later than that: if it was stopped between taking the time and writing. The times of
// [Expired] are those of a server's log, which is read later.
//
// A Follower must not be used concurrently, apart from Finish.
type Follower struct {
	dir     string
	finish  chan struct{} // closed by Finish
	streams map[source]*stream
	pending events // that have been read, and not yielded
	safe    int64  // the time before which no other events are expected
	buffer  []byte
	order   uint64 // of the event that was read last
	yielded int64  // time of the youngest event that was yielded

	finished bool // Finish has been called
	scanned  bool // the directory was looked at in this round
}

// Follow follows the history in dir. The caller calls Close in the end.
func Follow(dir string) *Follower {
	return &Follower{dir: dir, finish: make(chan struct{}), streams: map[source]*stream{}, safe: math.MinInt64, buffer: make([]byte, chunk)}
}

// Finish tells that no more will be written. Next then yields what is left. It may be
// called once, at any time.
func (f *Follower) Finish() { close(f.finish) }

// Close closes the files that are open.
func (f *Follower) Close() {
	for _, s := range f.streams {
		s.close()
	}
}

// All yields the events of a history that has been written, in the order of time. It ends
// after the first error.
//
// If segments are missing that [Follower.Trim] has not removed, that is the error, and there
// are no events.
func All(dir string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := gapless(dir); err != nil {
			yield(Event{}, err)
			return
		}
		f := Follow(dir)
		defer f.Close()
		f.Finish()
		for {
			e, ok, err := f.Next(context.Background())
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !ok || !yield(e, nil) {
				return
			}
		}
	}
}

// Next returns the next event. It waits until there is one, until ctx ends, or until
// Finish has been called and all events have been yielded: then it reports false.
func (f *Follower) Next(ctx context.Context) (e Event, ok bool, err error) {
	for {
		if len(f.pending) > 0 && f.pending[0].At <= f.safe {
			return f.pop(), true, nil
		}
		if !f.finished && closed(f.finish) {
			f.finished = true
			f.again() // all have to be read to their ends once more
		}
		progress, err := f.read()
		if err != nil {
			return Event{}, false, err
		}
		f.safe = f.untilWhen()
		switch {
		case progress || len(f.pending) > 0 && f.pending[0].At <= f.safe:
		case f.finished:
			return Event{}, false, nil
		default:
			if err := f.wait(ctx); err != nil {
				return Event{}, false, err
			}
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pop takes the earliest event.
func (f *Follower) pop() Event {
	e := heap.Pop(&f.pending).(numbered).Event
	f.yielded = max(f.yielded, e.At)
	return e
}

// wait waits until it is time to look at the files again.
func (f *Follower) wait(ctx context.Context) error {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.finish:
	case <-t.C:
	}
	f.again()
	return nil
}

// again makes read look at everything again.
func (f *Follower) again() {
	f.scanned = false
	for _, s := range f.streams {
		s.looked = false
	}
}

// untilWhen returns the time before which no more events are expected.
func (f *Follower) untilWhen() int64 {
	until := int64(math.MaxInt64)
	if !f.scanned {
		until = math.MinInt64
	}
	for _, s := range f.streams {
		if !s.done && f.awaited(s) {
			until = min(until, s.latest-slack)
		}
	}
	return until
}

// awaited reports whether events are expected that s has not read.
func (f *Follower) awaited(s *stream) bool {
	switch {
	case !s.atEnd || !s.looked:
		return true
	case f.finished:
		return false
	case !s.ended.IsZero():
		return time.Since(s.ended) < grace || time.Since(s.since) < grace
	default:
		return time.Since(s.since) < patience
	}
}

// read reads on where it is most urgent. It reports false if there was nothing.
func (f *Follower) read() (progress bool, err error) {
	if !f.scanned {
		if err := f.scan(); err != nil {
			return false, err
		}
		f.scanned = true
	}
	// The harness goes first, and far: it tells which processes have begun and ended. It
	// writes little.
	for _, s := range f.streams {
		for s.process == Harness && !s.looked {
			if err := s.more(f.buffer, f.control); err != nil {
				return false, err
			}
		}
	}
	// Then the one that is furthest behind. If that has nothing, there is no use in reading
	// others, unless nothing is expected of it.
	for _, s := range f.byLatest() {
		if err := s.more(f.buffer, f.add); err != nil {
			return false, err
		}
		if !s.atEnd {
			return true, nil
		}
		if f.awaited(s) {
			return false, nil
		}
		s.done = f.finished || !s.ended.IsZero()
		if s.done {
			s.close()
		}
	}
	return false, nil
}

// byLatest returns the streams of others than the harness, the one that is furthest
// behind first.
func (f *Follower) byLatest() (all []*stream) {
	for _, s := range f.streams {
		if s.process != Harness && !s.done {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *stream) int {
		switch {
		case a.latest != b.latest:
			return int(max(min(a.latest-b.latest, 1), -1))
		case a.process != b.process:
			return a.process - b.process
		}
		return a.incarnation - b.incarnation
	})
	return all
}

// scan looks for writers that are new.
func (f *Follower) scan() error {
	all, err := list(f.dir)
	if err != nil {
		return err
	}
	for s := range all {
		f.stream(s, 0)
	}
	return nil
}

// stream returns the stream of s, which has begun at that time.
func (f *Follower) stream(s source, began int64) *stream {
	known := f.streams[s]
	if known == nil {
		known = &stream{source: s, dir: f.dir, latest: began + slack} // nothing is earlier
		f.streams[s] = known
	}
	return known
}

// add notes an event that was read.
func (f *Follower) add(e Event) {
	f.order++
	heap.Push(&f.pending, numbered{e, f.order})
}

// control notes an event of the harness.
func (f *Follower) control(e Event) {
	switch e.Kind {
	case Started:
		f.stream(source{e.Process, e.Incarnation}, e.At)
	case Ended:
		f.stream(source{e.Process, e.Incarnation}, e.At).ended = time.Now()
	}
	f.add(e)
}

// A numbered event has the number by which it was read.
type numbered struct {
	Event
	number uint64
}

// events is a heap: the earliest first. What ends comes before what begins at the same
// time.
type events []numbered

func (h events) Len() int      { return len(h) }
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h events) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.At != b.At {
		return a.At < b.At
	}
	if x, y := a.Kind == Granted, b.Kind == Granted; x != y && (a.Process != b.Process || a.Worker != b.Worker) {
		return y
	}
	return a.number < b.number
}
func (h *events) Push(x any) { *h = append(*h, x.(numbered)) }
func (h *events) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = numbered{}
	*h = (*h)[:last]
	return e
}

// Trimmed says what was removed from a history while it was written.
type Trimmed struct {
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"`
	Until    int64 `json:"until"` // the time of the last event that was removed
}

const trimmedName = "trimmed.json"

// ReadTrimmed returns what was removed from the history in dir. A history that lacks
// segments cannot be judged again.
func ReadTrimmed(dir string) (t Trimmed, err error) {
	name := filepath.Join(dir, trimmedName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return t, fmt.Errorf("read what was removed from the history: %s: %w", name, err)
	}
	return t, nil
}

// Trim removes segments of workers and of the register, whose events have all been
// yielded, the oldest first, until the files have limit bytes together. Segments of which
// keep says that they must stay are not removed; it gets the times of the first and the
// last event.
func (f *Follower) Trim(limit int64, keep func(first, last int64) bool) error {
	var total int64
	var old []span
	for _, s := range f.streams {
		if s.file != nil {
			total += s.present.bytes
		}
		for _, r := range s.read {
			total += r.bytes
			if s.process != Harness && r.last < f.yielded-slack {
				old = append(old, r)
			}
		}
	}
	slices.SortFunc(old, func(a, b span) int { return int(max(min(a.last-b.last, 1), -1)) })
	gone, err := ReadTrimmed(f.dir)
	if err != nil {
		return err
	}
	before := gone.Segments
	for _, r := range old {
		if total <= limit {
			break
		}
		if keep != nil && keep(r.first, r.last) {
			continue
		}
		if err := os.Remove(r.in(f.dir)); err != nil {
			return fmt.Errorf("remove old events: %w", err)
		}
		s := f.streams[r.source]
		s.read = slices.DeleteFunc(s.read, func(other span) bool { return other.segment == r.segment })
		total -= r.bytes
		gone.Segments++
		gone.Bytes += r.bytes
		gone.Until = max(gone.Until, r.last)
	}
	if gone.Segments == before {
		return nil
	}
	return WriteJSON(filepath.Join(f.dir, trimmedName), gone)
}
