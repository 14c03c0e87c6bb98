// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What a program does not want to be told is in the log, and says what has happened.
func TestEventsAreLogged(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	tick := Tick{Planned: at(5), Token: 7, Attempt: 2}
	for _, tt := range []struct {
		e    Event
		want string
	}{
		{Event{Kind: EventFailed, Tick: tick, Err: errors.New("no paper")}, "the run planned for 2026-03-01T00:05:00Z has failed: no paper"},
		{Event{Kind: EventMissed, From: at(1), To: at(4), N: 3}, "3 planned times were passed over, from 2026-03-01T00:01:00Z on"},
		{Event{Kind: EventMissed, From: at(1), To: at(2), N: 1}, "1 planned time was passed over: 2026-03-01T00:01:00Z"},
		{Event{Kind: EventMissed, From: at(1), To: at(2), N: maxMissed}, "at least 1000 planned times were passed over, from 2026-03-01T00:01:00Z on"},
		{Event{Kind: EventInterrupted, Tick: tick}, "the run planned for 2026-03-01T00:05:00Z, attempt 2 with token 7, was interrupted"},
		{Event{Kind: EventAhead, Tick: tick}, "2026-03-01T00:05:00Z lies in the future"},
		{Event{}, "no event"},
	} {
		out.Reset()
		(&Cron{name: "reports"}).tell(tt.e)
		if line := out.String(); !strings.Contains(line, tt.want) || !strings.Contains(line, "cron=reports") || !strings.Contains(line, "level=WARN") {
			t.Errorf("logged %q, want %q", line, tt.want)
		}
	}
}

// The monotonic clock does not notice that the wall clock was set, so it decides nothing.
func TestNoMonotonicClock(t *testing.T) {
	c := Cron{opts: Options{Now: time.Now, Location: time.UTC, Schedule: next(func(time.Time) time.Time { return time.Now().Add(time.Hour) })}}
	at, err := c.opts.next(c.now())
	if err != nil || strings.Contains(c.now().String(), "m=") || strings.Contains(at.String(), "m=") {
		t.Errorf("%v, %v, %v", c.now(), at, err)
	}
}
