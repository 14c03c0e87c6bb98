// SPDX-License-Identifier: Apache-2.0

// Package progress shows what the harness does while it runs.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// StatusEvery is how often the status is shown anew.
const StatusEvery = 250 * time.Millisecond

// A Reporter shows the progress of a run: on a terminal as one line that it
// rewrites, elsewhere as a line every few seconds. Events get lines of their own.
// It is safe for concurrent use.
type Reporter struct {
	live bool // w is a terminal

	mu    sync.Mutex // protects what follows, and writing to w
	w     io.Writer
	shown string    // the status on the terminal
	last  time.Time // when the last line of status was written; initially, the start
}

// plainInterval is the time between two lines of status that are not rewritten.
const plainInterval = 5 * time.Second

// New returns a reporter that writes to w.
func New(w io.Writer) *Reporter {
	return &Reporter{w: w, live: isTerminal(w), last: time.Now()}
}

// isTerminal reports whether w is a terminal on which a line can be rewritten.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// rewrite moves to the first column and clears the line.
const rewrite = "\r\x1b[K"

// Status replaces the status.
func (r *Reporter) Status(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live {
		r.shown = text
		fmt.Fprint(r.w, rewrite+text)
		return
	}
	if now := time.Now(); now.Sub(r.last) >= plainInterval {
		r.last = now
		fmt.Fprintln(r.w, text)
	}
}

// Phase announces a phase of the run, except on a terminal, where the status does.
func (r *Reporter) Phase(format string, args ...any) {
	if !r.live {
		r.Line(format, args...)
	}
}

// Line writes a line that stays.
func (r *Reporter) Line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown != "" {
		text = rewrite + text + "\n" + r.shown
		fmt.Fprint(r.w, text)
		return
	}
	fmt.Fprintln(r.w, text)
}

// Note writes a line that stays, with the time of day.
func (r *Reporter) Note(format string, args ...any) {
	r.Line("%s  %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// Done removes the status.
func (r *Reporter) Done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown != "" {
		fmt.Fprint(r.w, rewrite)
		r.shown = ""
	}
}

// A Meter measures how fast counts have grown lately.
type Meter struct{ samples []sample }

type sample struct {
	at     time.Time
	counts wire.Counts
}

// meterWindow defines "lately".
const meterWindow = 3 * time.Second

// Add takes a sample and returns the recent entries and grants per second.
func (m *Meter) Add(now time.Time, c wire.Counts) (entries, grants float64) {
	m.samples = append(m.samples, sample{now, c})
	for len(m.samples) > 2 && now.Sub(m.samples[0].at) > meterWindow {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	seconds := now.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	return float64(c.Entries-first.counts.Entries) / seconds, float64(c.Grants-first.counts.Grants) / seconds
}
