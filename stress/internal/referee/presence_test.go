// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"slices"
	"strings"
	"testing"
)

// A violation names all the processes because of which the flock may have been refused. The
// courses are as in testdata/courses.txt.
func TestViolationNamesThoseInside(t *testing.T) {
	for _, tt := range []struct{ name, course, want string }{
		{"one", "A1+5 B1+6 B1- A1-", "A exclusive 5"},
		{"one that another has overtaken", "A1+5 B1+6 C1+7 C1- B1- A1-", "A exclusive 5; A exclusive 5, B exclusive 6"},
		{"not one that has left", "A1+5 B1+6 B1- C1+7 C1- A1-", "A exclusive 5; A exclusive 5"},
		{"the latest token", "A1+5 lost5 A2+7 B1+6 lost6 A1- B2+8 A2- B1- B2-", "A exclusive 7; A exclusive 7"},
		{"readers beside a writer", "A1r5 B1r6 C1w7 C1- A1- B1-", "A read 5, B read 6"},
		{"a writer beside readers", "A1w7 B1r8 C1r9 B1- C1- A1-", "A write 7; A write 7"},
		{"a reader of a writer's process", "A1w7 A2r7 A1- B1w8 B1- A2-", "A read 7"},
		{"a writer that upgraded", "A1u7 A2w7 B1r8 B1- A2- A1-", "A upgraded 7"},
		{"an upgradable read", "A1u7 B1u8 B1- A1-", "A exclusive 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCourt(t)
			c.run(tt.course)
			var got []string
			for _, v := range c.seen {
				var others []string
				for _, in := range v.Others {
					others = append(others, string(rune('A'+in.Process-1))+" "+in.Mode+" "+string(rune('0'+in.Token)))
				}
				got = append(got, strings.Join(others, ", "))
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("inside: %q, want %s", got, tt.want)
			}
		})
	}
}

// A process that was killed is still named, until the next one with its number begins: which
// were killed the parent knows.
func TestPresenceOfAKilledProcess(t *testing.T) {
	c := newCourt(t)
	killed, b := c.process(1), c.process(2)
	if err := killed.presence.enter(false, Party{PID: 101, Mode: "exclusive", Token: 5}); err != nil {
		t.Fatal(err)
	}
	names := func() (all []int) {
		records, err := b.presence.read()
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range b.presence.others(nil, records, false) {
			all = append(all, in.PID)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []int{101}) {
		t.Errorf("inside: %v, want process 101", got)
	}
	c.process(1)
	if got := names(); len(got) > 0 {
		t.Errorf("inside: %v, want none", got)
	}
}
