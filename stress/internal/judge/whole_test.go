// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A history that lacks something is no proof that nothing was wrong.
func TestHistoryThatIsNotWhole(t *testing.T) {
	const whole = `
		1 h started p0
		1 h started p1
		1.1 p0 alive
		1.1 p1 alive
		2 p0 request a
		2.1 p0 granted a t10
		2.2 h accepted a t10
		2.2 p0 write a t10 ok
		3 p0 release a
		3.1 p0 released a
		22 p1 alive
		23 h stopping now
		24 h ended p0
		24 h ended p1`
	without := func(parts ...string) func(line string) bool {
		return func(line string) bool {
			for _, part := range parts {
				if strings.Contains(line, part) {
					return false
				}
			}
			return true
		}
	}
	for _, tt := range []struct {
		name string
		keep func(line string) bool
		want verdict.Outcome
		text string
	}{
		{"whole", without("nothing"), verdict.OK, ""},
		{"without its end", without("stopping", "ended"), verdict.Void, "before the workers were told to stop"},
		{"without the very end", without("ended"), verdict.Void, "before the end of process "},
		{"without the register", without("accepted"), verdict.Void, "lacks what the register wrote"},
		{"without a process", without(" p1 alive"), verdict.Void, "lacks what process 1 (start 1) wrote"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for line := range strings.Lines(whole) {
				if tt.keep(line) {
					lines = append(lines, line)
				}
			}
			dir, write := recorded(t, header())
			write(script(t, strings.Join(lines, ""))...)
			j, err := History(dir)
			if err != nil {
				t.Fatal(err)
			}
			v := j.Finish()
			if v.Outcome != tt.want || (len(v.Findings) == 0) != (tt.text == "") || tt.text != "" && !strings.Contains(v.Findings[0].Text, tt.text) {
				t.Errorf("%v, want %v: %+v", v.Outcome, tt.want, v.Findings)
			}
		})
	}
}

// A history that lacks a file between others is not judged at all.
func TestHistoryWithAGap(t *testing.T) {
	dir, write := recorded(t, header())
	write(history.Event{At: 1, Kind: history.Alive})
	events := filepath.Join(dir, "events")
	if err := os.Rename(filepath.Join(events, "worker0.0.000001.jsonl"), filepath.Join(events, "worker0.0.000002.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := History(dir); err == nil || !strings.Contains(err.Error(), "lacks the file worker0.0.000001.jsonl") {
		t.Errorf("error %v", err)
	}
}

// A long run in which hardly anything happened shows nothing.
func TestTooLittleIsVoid(t *testing.T) {
	const short, rest = `
		1 p0 request a
		1.1 p0 granted a t10
		2 p0 release a
		3 h stopping`, "\n12 h alive"
	h := header()
	h.Begin, h.Planned = 1e9, long
	if v := judged(h, script(t, short)); v.Outcome != verdict.OK {
		t.Errorf("short: %v", v.Outcome)
	}
	if v := judged(h, script(t, short+rest)); v.Outcome != verdict.Void {
		t.Errorf("long: %v", v.Outcome)
	}
}
