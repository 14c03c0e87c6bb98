// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"time"
)

// An agenda is what the clock has to do, in the order of the times at which it is due; of two
// events at one time, the one that was put down first comes first. service.mu protects it.
type agenda []agendum

type agendum struct {
	at time.Time
	do func()
}

// after has the clock call do once d has passed, with s.mu held.
func (s *service) after(d time.Duration, do func()) {
	at := time.Now().Add(d)
	i, _ := slices.BinarySearchFunc(s.agenda, at, func(a agendum, at time.Time) int {
		if a.at.After(at) {
			return 1
		}
		return -1
	})
	s.agenda = slices.Insert(s.agenda, i, agendum{at, do})
	s.alarm(at)
}

// attend does what is due.
func (s *service) attend(now time.Time) {
	for len(s.agenda) > 0 && !s.agenda[0].at.After(now) {
		do := s.agenda[0].do
		s.agenda = slices.Delete(s.agenda, 0, 1)
		do()
	}
}
