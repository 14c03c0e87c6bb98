// SPDX-License-Identifier: Apache-2.0

package history

import (
	"container/heap"
	"context"
	"iter"
	"math"
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
// Its memory does not grow with the number of processes that have ended: it forgets the
// stream of each, and remembers one entry for each file that is there, which Trim limits.
//
// A Follower must not be used concurrently, apart from Finish.
type Follower struct {
	dir     string
	finish  chan struct{} // closed by Finish
	streams map[source]*stream
	done    map[source]bool // those that have ended and been read, as long as they have files
	read    []span          // the segments that have been read to their ends and closed
	files   listing         // the files of this round
	pending events          // that have been read, and not yielded
	safe    int64           // the time before which no other events are expected
	buffer  []byte
	order   uint64        // of the event that was read last
	yielded int64         // time of the youngest event that was yielded
	looking time.Duration // how long the last look at the directory took

	finished bool // Finish has been called
	scanned  bool // the directory was looked at in this round
}

// Follow follows the history in dir. The caller calls Close in the end.
func Follow(dir string) *Follower {
	return &Follower{
		dir: dir, finish: make(chan struct{}), streams: map[source]*stream{}, done: map[source]bool{},
		safe: math.MinInt64, buffer: make([]byte, chunk),
	}
}

// Finish tells that no more will be written. Next then yields what is left. It may be
// called once, at any time.
func (f *Follower) Finish() { close(f.finish) }

// Close closes the files that are open.
func (f *Follower) Close() {
	for _, s := range f.streams {
		f.close(s)
	}
}

// close closes the file that s has open.
func (f *Follower) close(s *stream) {
	if s.file != nil {
		f.read = append(f.read, s.finish())
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
		select {
		case <-f.finish:
			if !f.finished {
				f.finished = true
				f.again() // all have to be read to their ends once more
			}
		default:
		}
		progress, err := f.advance()
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

func (f *Follower) pop() Event {
	e := heap.Pop(&f.pending).(numbered).Event
	f.yielded = max(f.yielded, e.At)
	return e
}

// wait waits until it is time to look at the files again. Looking at a directory of many
// files takes at most a twentieth of the time.
func (f *Follower) wait(ctx context.Context) error {
	t := time.NewTimer(max(poll, 20*f.looking))
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
		if f.awaited(s) {
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
		return s.seen.Sub(s.ended) < grace
	default:
		return time.Since(s.since) < patience
	}
}

// advance reads on where it is most urgent. It reports false if there was nothing.
func (f *Follower) advance() (progress bool, err error) {
	if !f.scanned {
		if err := f.scan(); err != nil {
			return false, err
		}
		f.scanned = true
	}
	// While the history is written, the harness goes first, and far: it tells which processes
	// have begun and ended. It writes little. Of a history that is complete, no more of it is
	// read ahead than of the others.
	if h := f.streams[source{process: Harness}]; h != nil && !f.finished {
		for !h.looked {
			if err := f.more(h); err != nil {
				return false, err
			}
		}
	}
	// Then the one that is furthest behind. If that has nothing, there is no use in reading
	// others, unless nothing is expected of it.
	for _, s := range f.streams {
		s.passed = s.process == Harness && !f.finished
	}
	for s := f.last(); s != nil; s = f.last() {
		if err := f.more(s); err != nil {
			return false, err
		}
		if !s.atEnd {
			return true, nil
		}
		if f.awaited(s) {
			return false, nil
		}
		s.passed = true
		if f.finished || !s.ended.IsZero() {
			f.close(s)
			delete(f.streams, s.source)
			if len(f.files[s.source]) > 0 {
				f.done[s.source] = true
			}
		}
	}
	return false, nil
}

func (f *Follower) more(s *stream) error {
	add := f.add
	if s.process == Harness {
		add = f.control
	}
	return s.more(f.files[s.source], f.buffer, add, func(r span) { f.read = append(f.read, r) })
}

// last returns the stream that is furthest behind of those that were not passed over; nil
// if there is none.
func (f *Follower) last() (last *stream) {
	for _, s := range f.streams {
		if !s.passed && (last == nil || s.before(last)) {
			last = s
		}
	}
	return last
}

// scan looks which files there are, and for writers that are new.
func (f *Follower) scan() (err error) {
	began := time.Now()
	if f.files, err = list(f.dir); err != nil {
		return err
	}
	f.looking = time.Since(began)
	for s := range f.done {
		if len(f.files[s]) == 0 { // they were removed
			delete(f.done, s)
		}
	}
	for s, numbers := range f.files {
		if f.streams[s] == nil && !f.done[s] {
			// A file is not opened before its time has come.
			f.stream(s, firstTime(segment{s, numbers[0]}.in(f.dir))-slack)
		}
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

func (f *Follower) add(e Event) {
	f.order++
	heap.Push(&f.pending, numbered{e, f.order})
}

// control notes an event of the harness.
func (f *Follower) control(e Event) {
	who := source{e.Process, e.Incarnation}
	switch {
	case f.finished || f.done[who]: // what is in the files tells all
	case e.Kind == Started:
		f.stream(who, e.At)
	case e.Kind == Ended:
		f.stream(who, e.At).ended = time.Now()
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
