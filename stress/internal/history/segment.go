// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

var segmentName = regexp.MustCompile(`^(?:(harness)|(register)|worker([0-9]{1,9}))\.([0-9]{1,9})\.([0-9]{1,9})\.jsonl$`)

// parseSegment returns the segment of that file name.
func parseSegment(name string) (s segment, ok bool) {
	m := segmentName.FindStringSubmatch(name)
	switch {
	case m == nil:
		return s, false
	case m[1] != "":
		s.process = Harness
	case m[2] != "":
		s.process = Register
	default:
		s.process, _ = strconv.Atoi(m[3]) // the pattern admits small numbers only
	}
	s.incarnation, _ = strconv.Atoi(m[4])
	s.number, _ = strconv.Atoi(m[5])
	return s, true
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

// list returns the numbers of the segments of each source in dir, in order.
func list(dir string) (map[source][]int, error) {
	files, err := os.ReadDir(filepath.Join(dir, eventsName))
	if err != nil {
		return nil, fmt.Errorf("list the events of the history in %s: %w", dir, err)
	}
	all := map[source][]int{}
	for _, f := range files {
		if s, ok := parseSegment(f.Name()); ok {
			all[s.source] = append(all[s.source], s.number)
		}
	}
	for _, numbers := range all {
		slices.Sort(numbers)
	}
	return all, nil
}
