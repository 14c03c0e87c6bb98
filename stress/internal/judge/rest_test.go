// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// judgedFrom returns the verdict on the rest of a history.
func judgedFrom(h history.Header, events []history.Event, from int64) verdict.Verdict {
	j := New(h)
	j.scene.Partial, j.from = true, from
	j.all(events...)
	return j.Finish()
}

// Wherever the history of locks that work begins, nothing is wrong with the rest: what it
// lacks is not held against it.
func TestRestOfAGoodHistory(t *testing.T) {
	for seed := range uint64(racing.Fewer(20)) {
		h, events := generate(seed, 6000)
		for cut := 1; cut < 10; cut++ {
			v := judgedFrom(h, events, events[len(events)*cut/10].At)
			if v.Found > 0 || v.Grants == 0 {
				t.Fatalf("seed %d, %d tenths cut off: %d grants, %+v", seed, cut, v.Grants, v.Findings)
			}
		}
	}
}

// What is wrong with the rest is found.
func TestRestOfABadHistory(t *testing.T) {
	events := script(t, `
		p0 a: 1 request, 1.1 granted t5, 3 release, 3.1 released, 10 request, 10.1 granted t10, 11 release, 11.1 released
		p1 a: 2 request, 2.1 granted t6, 3.2 release, 3.3 released, 10.5 request, 10.6 granted t12, 11.2 release, 11.3 released
		h: 10.2 accepted a t9, 10.3 accepted a t10, 10.4 accepted a t11, 12 stopping now`)
	for _, tt := range []struct {
		from  float64
		twice int    // held twice
		note  string // of the register
	}{
		{0, 2, ""},
		{5, 1, "of 1 writes it is not known"},
		{10.55, 0, ""},
	} {
		v := judgedFrom(header(), events, int64(tt.from*float64(time.Second)))
		if c := v.Checks[0]; int(c.Found) != tt.twice {
			t.Errorf("from %v s: %d overlaps, want %d", tt.from, c.Found, tt.twice)
		}
		if c := v.Checks[3]; !strings.HasPrefix(c.Note, tt.note) || tt.from == 5 && c.Found != 1 { // the token 11 was granted to no process
			t.Errorf("from %v s: the register: %+v", tt.from, c)
		}
	}
}
