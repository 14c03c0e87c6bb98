// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The directory events has the files of all writers, one series of segments each:
//
//	harness.0.000001.jsonl      what the harness did and saw
//	register.0.000001.jsonl     what the register accepted and refused
//	worker3.2.000001.jsonl      process 3, started for the third time
//	worker3.2.000002.jsonl      continues it
//
// A segment is complete once the next one exists.
const eventsName = "events"

// A source is a process in one life, as a writer of events.
type source struct{ process, incarnation int }

func (s source) String() string {
	switch s.process {
	case Harness:
		return fmt.Sprintf("harness.%d", s.incarnation)
	case Register:
		return fmt.Sprintf("register.%d", s.incarnation)
	}
	return fmt.Sprintf("worker%d.%d", s.process, s.incarnation)
}

// A segment is one file of a source.
type segment struct {
	source
	number int // from 1
}

// in returns the segment's path in the history in dir.
func (s segment) in(dir string) string {
	return filepath.Join(dir, eventsName, fmt.Sprintf("%v.%06d.jsonl", s.source, s.number))
}

// parseSegment returns the segment of that file name. A follower asks for each file at each
// look.
func parseSegment(name string) (s segment, ok bool) {
	who, rest, _ := strings.Cut(name, ".")
	incarnation, rest, _ := strings.Cut(rest, ".")
	digits, ok := strings.CutSuffix(rest, ".jsonl")
	if !ok {
		return s, false
	}
	switch who {
	case "harness":
		s.process = Harness
	case "register":
		s.process = Register
	default:
		if who, ok = strings.CutPrefix(who, "worker"); ok {
			s.process, ok = small(who)
		}
	}
	var okIncarnation, okNumber bool
	s.incarnation, okIncarnation = small(incarnation)
	s.number, okNumber = small(digits)
	return s, ok && okIncarnation && okNumber
}

// small returns the number that a text of digits is.
func small(digits string) (n int, ok bool) {
	small, err := strconv.ParseUint(digits, 10, 30)
	return int(small), err == nil
}

// gapless returns an error if a segment before another one is missing, and was not removed
// by Trim.
func gapless(dir string) error {
	trimmed, err := ReadTrimmed(dir)
	if err != nil || trimmed.Segments > 0 {
		return err
	}
	all, err := list(dir)
	if err != nil {
		return err
	}
	for s, numbers := range all {
		for i, n := range numbers {
			if n != i+1 {
				return fmt.Errorf("the history in %s lacks the file %s", dir, filepath.Base(segment{s, i + 1}.in(dir)))
			}
		}
	}
	return nil
}

// A listing is the numbers of the segments of each source, in order.
type listing map[source][]int

func list(dir string) (listing, error) {
	names, err := namesIn(filepath.Join(dir, eventsName))
	if err != nil {
		return nil, fmt.Errorf("list the events of the history in %s: %w", dir, err)
	}
	all := listing{}
	for _, name := range names {
		if s, ok := parseSegment(name); ok {
			all[s.source] = append(all[s.source], s.number)
		}
	}
	for _, numbers := range all {
		slices.Sort(numbers)
	}
	return all, nil
}

// namesIn returns the names of the files in dir, in any order.
func namesIn(dir string) (names []string, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err = f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}
