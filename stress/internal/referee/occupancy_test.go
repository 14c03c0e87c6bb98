// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A course is a sequence of events: "+5" is a worker that enters with token 5, "-"
// one that leaves; a number is a time in seconds.
func TestOccupancy(t *testing.T) {
	tests := []struct {
		name   string
		course string
		want   time.Duration
	}{
		{"never inside", "3", 0},
		{"one grant", "2 +5 3 - 4", 3 * time.Second},
		{"one grant, not over", "2 +5 3", 3 * time.Second},
		{"several workers of one grant", "+5 1 +5 1 - 1 +5 1 - - 9", 4 * time.Second},
		{"all workers of a grant are outside for a moment", "+5 1 - 2 +5 1 - 9", 4 * time.Second},
		{"and at the end", "+5 1 - 2", time.Second},
		{"two grants", "+5 1 - 2 +6 3 - 9", 4 * time.Second},
		{"three, the last not over", "+5 1 - 2 +6 3 - 9 +7 1", 5 * time.Second},
		{"one that took no time", "+5 - 2 +6 3 -", 3 * time.Second},
		{"workers of a lost round are inside when the next one begins", "+5 1 +6 1 - 1 - 9", 3 * time.Second},
		{"which continues", "+5 1 +6 1 - 1 - 1 +6 1 - 9", 5 * time.Second},
		{"a token that is 0", "7 +0 1 - 2 +1 1 -", 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			var o occupancy
			for word := range strings.FieldsSeq(tt.course) {
				switch n, err := strconv.ParseUint(strings.Trim(word, "+-"), 10, 64); {
				case word == "-":
					o.leave(now)
				case err != nil:
					t.Fatal(err)
				case word[0] == '+':
					o.enter(n, now)
				default:
					now = now.Add(time.Duration(n) * time.Second)
				}
			}
			if got := o.total(now); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// The referee measures entries of every kind.
func TestRefereeCountsTheTime(t *testing.T) {
	c := newCourt(t)
	a, b := c.process(1), c.process(2)
	before := time.Now()
	leave, err := a.Enter(manager.KindWrite, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaveRead, err := a.Enter(manager.KindRead, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Wait for the clock, however coarse.
	for first := time.Now(); time.Since(first) <= 0; {
	}
	during := a.Held()
	for _, leave := range []func() error{leave, leaveRead} {
		if err := leave(); err != nil {
			t.Fatal(err)
		}
	}
	most := time.Since(before)
	if got := a.Held(); during <= 0 || got < during || got > most {
		t.Errorf("it was inside for %v at first, then for %v, of %v", during, got, most)
	}
	if first, second := a.Held(), a.Held(); first != second {
		t.Errorf("the time rose from %v to %v with no worker inside", first, second)
	}
	if got := b.Held(); got != 0 {
		t.Errorf("a process that was never inside used the lock for %v", got)
	}
}
