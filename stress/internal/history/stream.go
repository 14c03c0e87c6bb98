// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
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
	read    []span   // the segments that have been read to their ends, oldest first

	latest int64     // the time of the latest event, or when the process was started
	looked bool      // it was found at its end in this round
	atEnd  bool      // the last read brought nothing
	since  time.Time // when atEnd became true
	ended  time.Time // when the follower learned that the process has ended; or zero
	done   bool      // the process has ended, and all has been read
}

// A span is a segment that has been read.
type span struct {
	segment
	bytes       int64
	first, last int64 // times; 0 if it has no events
}

const chunk = 64 << 10

// more reads on, and passes the events to add. It sets atEnd if there was nothing.
func (s *stream) more(buffer []byte, add func(Event)) error {
	for {
		if s.file == nil {
			if ok, err := s.open(); !ok || err != nil {
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
		// The segment was complete before the next one came into being. But this may have
		// happened after the read: so read once more before going on.
		ok, err := s.exists()
		if err != nil || !ok {
			s.pause()
			return err
		}
		if n, _ = s.file.Read(buffer); n > 0 {
			s.atEnd = false
			return s.take(buffer[:n], add)
		}
		s.finish()
	}
}

// pause notes that there is nothing to read for now.
func (s *stream) pause() {
	s.looked = true
	if !s.atEnd {
		s.atEnd, s.since = true, time.Now()
	}
}

// close closes the file that is open.
func (s *stream) close() {
	if s.file != nil {
		s.finish()
	}
}

// finish ends the present segment. What it has of a line is a line that a killed process
// could not finish.
func (s *stream) finish() {
	s.file.Close() // it was only read
	s.file, s.rest = nil, nil
	s.read = append(s.read, s.present)
}

// after returns the number of the first segment after the present one.
func (s *stream) after() (number int, ok bool, err error) {
	all, err := list(s.dir)
	if err != nil {
		return 0, false, err
	}
	// Segments between may have been removed, but then a later one exists.
	numbers := all[s.source]
	i, found := slices.BinarySearch(numbers, s.number)
	if found {
		i++
	}
	if i == len(numbers) {
		return 0, false, nil
	}
	return numbers[i], true, nil
}

func (s *stream) exists() (bool, error) {
	_, ok, err := s.after()
	return ok, err
}

// open opens the segment after the present one. It reports false if there is none yet.
func (s *stream) open() (bool, error) {
	number, ok, err := s.after()
	if !ok || err != nil {
		return false, err
	}
	segment := segment{s.source, number}
	f, err := os.Open(segment.in(s.dir))
	if err != nil {
		return false, fmt.Errorf("read events: %w", err)
	}
	s.file, s.number, s.line, s.present = f, number, 0, span{segment: segment}
	return true, nil
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
