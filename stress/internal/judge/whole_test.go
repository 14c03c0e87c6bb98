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
	const (
		process0 = "h: 1 started p0; p0: 1.1 alive; "
		process1 = "h: 1 started p1; p1: 1.1 alive, 22 alive; "
		works    = "p0 a: 2 request, 2.1 granted t10, 2.2 write t10 ok, 3 release, 3.1 released; "
		register = "h: 2.2 accepted a t10; "
		stopping = "h: 23 stopping now; "
		ended    = "h: 24 ended p0, 24 ended p1; "
	)
	for _, tt := range []struct {
		name, history string
		want          verdict.Outcome
		text          string
	}{
		{"whole", process0 + process1 + register + works + stopping + ended, verdict.OK, ""},
		{"without its end", process0 + process1 + register + works, verdict.Void, "before the workers were told to stop"},
		{"without the very end", process0 + process1 + register + works + stopping, verdict.Void, "before the end of process "},
		{"without the register", process0 + process1 + works + stopping + ended, verdict.Void, "lacks what the register wrote"},
		{"without a process", process0 + "h: 1 started p1; " + register + works + stopping + ended, verdict.Void, "lacks what process 1 (start 1) wrote"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, write := recorded(t, header())
			write(script(t, tt.history)...)
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
	const short, rest = "p0 a: 1 request, 1.1 granted t10, 2 release; h: 3 stopping", "h: 12 alive"
	h := header()
	h.Begin, h.Planned = 1e9, long
	if v := on(t, h, short); v.Outcome != verdict.OK {
		t.Errorf("short: %v", v.Outcome)
	}
	if v := on(t, h, short, rest); v.Outcome != verdict.Void {
		t.Errorf("long: %v", v.Outcome)
	}
}
