// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/options"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// over judges what c has, and closes it.
func over(t *testing.T, c *Chronicle) {
	t.Helper()
	if err := c.Judge(); err != nil {
		t.Error(err)
	}
	if _, err := c.Close(false); err != nil {
		t.Error(err)
	}
}

// A process that is killed writes on for a moment. What it asks for and is granted then is
// not shown as held and awaited for ever.
func TestLiveViewOfAKilledProcess(t *testing.T) {
	c, err := New(t.TempDir(), history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []history.Event{
		{Kind: history.Request, Op: 1}, {Kind: history.Request, Op: 2}, {Kind: history.Granted, Op: 1},
		{Kind: history.Ended},
		{Kind: history.Granted, Op: 2}, {Kind: history.Request, Op: 3},
		{Kind: history.Request, Incarnation: 1, Op: 1},
	} {
		c.note(e)
	}
	if h, w := len(c.live.holding), len(c.live.waiting); h != 0 || w != 1 {
		t.Errorf("%d held, %d awaited, want 0 and 1", h, w)
	}
	over(t, c)
}

// Two runs do not write into one directory, and a history that is being written is not
// judged by -check.
func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	c, err := New(dir, history.Header{Command: "a run", Begin: 1})
	if err != nil {
		t.Fatal(err)
	}
	const want = "another run writes its history into "
	if _, err := New(dir, history.Header{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a second run: %v", err)
	}
	var says strings.Builder
	if exit := Check(dir, io.Discard, &says); exit != wire.ExitFailure || !strings.Contains(says.String(), want) {
		t.Errorf("-check: exit status %d, %q", exit, says.String())
	}
	over(t, c)
	if exit := Check(dir, io.Discard, &says); exit != wire.ExitVoid {
		t.Errorf("-check afterwards: exit status %d, %q", exit, says.String())
	}
}

// A report replaces an earlier one, and nothing else.
func TestReportReplacesOnlyReports(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "events", "mine.txt")
	if err := os.Mkdir(filepath.Dir(mine), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{mine: "of value", filepath.Join(dir, "run.json"): `{"version":1}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := options.Reportable(dir); err == nil {
		t.Error("what is no report may be replaced")
	}
	if _, err := New(dir, history.Header{}); err == nil || !strings.Contains(err.Error(), "mine.txt") {
		t.Errorf("the history begins: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

// A run that is killed leaves a page, which is written now and then.
func TestPageOfARunThatGoesOn(t *testing.T) {
	dir := t.TempDir()
	c, err := New(dir, history.Header{Begin: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer over(t, c)
	write := func(outcome verdict.Outcome) string {
		t.Helper()
		if err := c.page(verdict.Verdict{Outcome: outcome}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, report.Name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := write(verdict.OK); !strings.Contains(text, "OK so far") {
		t.Error("the first checkpoint leaves no page")
	}
	if text := write(verdict.Failed); strings.Contains(text, "FAILED") {
		t.Error("the page is written at each checkpoint")
	}
	c.nextPage = time.Now()
	if text := write(verdict.Failed); !strings.Contains(text, "FAILED so far") {
		t.Error("the page is not written a second time")
	}
}
