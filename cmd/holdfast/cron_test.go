// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/recipes/cron"
)

// TestCronOptions: the flags say what becomes of planned times that are past.
func TestCronOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags  string
		missed cron.Missed
		grace  time.Duration
	}{
		{"", cron.RunLatest, time.Minute},
		{"--missed=latest", cron.RunLatest, time.Minute},
		{"--missed=all", cron.RunAll, time.Minute},
		{"--missed=skip", cron.Skip, time.Minute},
		{"--missed=skip --grace=5s", cron.Skip, 5 * time.Second},
	} {
		c := new(cli)
		_, err := newParser(c, io.Discard, io.Discard).Parse(append([]string{"cron", "--every=1h"}, append(strings.Fields(test.flags), "x", "--", "true")...))
		must(t, err)
		o, err := c.Cron.options()
		must(t, err)
		if o.Missed != test.missed || o.Grace != test.grace {
			t.Errorf("%q: %v, %v", test.flags, o.Missed, o.Grace)
		}
	}
}

// TestCronExpressions: what a cron expression plans, in UTC or in its time zone, also when the clocks
// change there.
func TestCronExpressions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression, after string
		want              []string
	}{
		{"*/20 6 * * *", "2026-03-01T06:20:00Z", []string{"2026-03-01T06:40:00Z", "2026-03-02T06:00:00Z", "2026-03-02T06:20:00Z"}},
		{"@daily", "2026-12-31T23:59:59.9Z", []string{"2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"}},
		{"0 12 29 FEB *", "2026-01-01T00:00:00Z", []string{"2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"}},
		{"CRON_TZ=Europe/Berlin 30 6 * * *", "2026-03-28T00:00:00Z", []string{"2026-03-28T05:30:00Z", "2026-03-29T04:30:00Z"}},
		{"TZ=Asia/Kolkata 0 0 * * MON", "2026-03-01T00:00:00Z", []string{"2026-03-01T18:30:00Z", "2026-03-08T18:30:00Z"}},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"}},                            // not at all
		{"CRON_TZ=America/New_York 30 1 * * *", "2026-10-31T12:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"}}, // twice
	} {
		s, err := parseSchedule(test.expression)
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, test.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range test.want {
			at = s.Next(at)
			got = append(got, at.Format(time.RFC3339Nano))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s, after %s: %q, want %q", test.expression, test.after, got, test.want)
		}
	}
}
