// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// A stream reads the segments of one source, one after the other.
type stream struct {
	source
	dir     string
	file    *os.File // the segment that is being read; nil before the first one exists
	number  int      // its number
	rest    []byte   // what was read of a line whose end is not there yet
	line    int      // number of the last line, for errors
	present span     // of that segment

	latest int64     // the time of the latest event, or when the process was started
	looked bool      // it was found at its end in this round
	passed bool      // it has nothing, and others are read in this step
	atEnd  bool      // the last read brought nothing
	since  time.Time // when atEnd became true
	seen   time.Time // when it was found at its end last
	ended  time.Time // when the follower learned that the process has ended; or zero
}

// before reports whether s is read before o.
func (s *stream) before(o *stream) bool {
	return cmp.Or(cmp.Compare(s.latest, o.latest), cmp.Compare(s.process, o.process), cmp.Compare(s.incarnation, o.incarnation)) < 0
}

// A span is a segment that has been read.
type span struct {
	segment
	bytes       int64
	first, last int64 // times; 0 if it has no events
}

const chunk = 64 << 10

// more reads on, and passes the events to add, and segments that have been read to closed.
// It sets atEnd if there was nothing. The numbers are those of the segments that there were
// before.
func (s *stream) more(numbers []int, buffer []byte, add func(Event), closed func(span)) error {
	for {
		if s.file == nil {
			if ok, err := s.open(numbers); !ok || err != nil {
				s.pause()
				return err
			}
		}
		n, err := s.file.Read(buffer)
		if n > 0 {
			s.atEnd = false
			return s.take(buffer[:n], add)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read events: %w", err)
		}
		// The segment was complete before the next one came into being, and that was before
		// this read.
		if _, ok := s.after(numbers); !ok {
			s.pause()
			return nil
		}
		closed(s.finish())
	}
}

// pause notes that there is nothing to read for now.
func (s *stream) pause() {
	s.looked, s.seen = true, time.Now()
	if !s.atEnd {
		s.atEnd, s.since = true, s.seen
	}
}

// finish ends the present segment. What it has of a line is a line that a killed process
// could not finish.
func (s *stream) finish() span {
	s.file.Close() // it was only read
	s.file, s.rest = nil, nil
	return s.present
}

// after returns the first of the numbers that is after the present segment's. Segments
// between may have been removed.
func (s *stream) after(numbers []int) (number int, ok bool) {
	i, found := slices.BinarySearch(numbers, s.number)
	if found {
		i++
	}
	if i == len(numbers) {
		return 0, false
	}
	return numbers[i], true
}

// open opens the segment after the present one. It reports false if there is none yet.
func (s *stream) open(numbers []int) (bool, error) {
	number, ok := s.after(numbers)
	if !ok {
		return false, nil
	}
	segment := segment{s.source, number}
	f, err := os.Open(segment.in(s.dir))
	if err != nil {
		return false, fmt.Errorf("read events: %w", err)
	}
	s.file, s.number, s.line, s.present = f, number, 0, span{segment: segment}
	return true, nil
}

// firstTime returns the time of the first event in a file, or 0 if the file has none that
// can be read yet.
func firstTime(name string) int64 {
	f, err := os.Open(name)
	if err != nil {
		return 0 // the read that follows tells why
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	var e Event
	if err != nil || json.Unmarshal(line, &e) != nil {
		return 0
	}
	return e.At
}

// take passes the events in text to add.
func (s *stream) take(text []byte, add func(Event)) error {
	s.present.bytes += int64(len(text))
	if len(s.rest) > 0 {
		text = append(s.rest, text...)
	}
	for {
		line, rest, ok := bytes.Cut(text, []byte{'\n'})
		if !ok {
			s.rest = slices.Clone(text)
			return nil
		}
		text = rest
		s.line++
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s, line %d is no event: %w", s.present.in(s.dir), s.line, err)
		}
		s.latest = max(s.latest, e.At)
		if s.present.first == 0 {
			s.present.first = e.At
		}
		s.present.first, s.present.last = min(s.present.first, e.At), max(s.present.last, e.At)
		add(e)
	}
}
