// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// day is a day's times, in minutes.
func day(minutes ...int) (times []time.Time) {
	for _, m := range minutes {
		times = append(times, at(m))
	}
	return times
}

func at(minute int) time.Time {
	return time.Date(2026, 3, 1, 0, minute, 0, 0, time.UTC)
}

// times is a Schedule of these times.
type times []time.Time

func (ts times) Next(t time.Time) time.Time {
	for _, planned := range ts {
		if planned.After(t) {
			return planned
		}
	}
	return time.Time{}
}

func TestEvery(t *testing.T) {
	for _, tt := range []struct {
		every    time.Duration
		at, want string
	}{
		{time.Hour, "2026-03-01T05:00:00Z", "2026-03-01T06:00:00Z"},
		{time.Hour, "2026-03-01T05:59:59.999999999Z", "2026-03-01T06:00:00Z"},
		{time.Hour, "2026-03-01T05:00:00+05:30", "2026-03-01T05:30:00+05:30"},
		{7 * time.Minute, "1970-01-01T00:00:00Z", "1970-01-01T00:07:00Z"},
		{7 * time.Minute, "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"},
		{24 * time.Hour, "1500-01-01T12:00:00Z", "1500-01-02T00:00:00Z"},
		{24 * time.Hour, "9000-01-01T12:00:00Z", "9000-01-02T00:00:00Z"},
		{300 * time.Millisecond, "2026-03-01T05:00:00Z", "2026-03-01T05:00:00.3Z"},
		{300 * time.Millisecond, "1969-12-31T23:59:59.6Z", "1969-12-31T23:59:59.7Z"},
	} {
		from, err := time.Parse(time.RFC3339Nano, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := Every(tt.every).Next(from).Format(time.RFC3339Nano); got != tt.want {
			t.Errorf("every %v, after %s: %s, want %s", tt.every, tt.at, got, tt.want)
		}
	}
	if got := Every(0).Next(at(0)); !got.IsZero() {
		t.Errorf("every 0: %v", got)
	}
}

func TestPlan(t *testing.T) {
	never := time.Time{}
	all := times(day(10, 20, 30, 40, 50))
	for _, tt := range []struct {
		name    string
		o       Options
		r       Record
		now     int
		at      time.Time
		attempt int
		missed  int
		from    time.Time
	}{
		{"not yet", Options{}, Record{Planned: at(10)}, 19, at(20), 1, 0, never},
		{"just now", Options{}, Record{Planned: at(10)}, 20, at(20), 1, 0, never},
		{"none any more", Options{}, Record{Planned: at(50)}, 60, never, 1, 0, never},
		{"the clock was set back", Options{}, Record{Planned: at(30)}, 15, at(40), 1, 0, never},

		{"latest of one", Options{}, Record{Planned: at(10)}, 29, at(20), 1, 0, never},
		{"latest of three", Options{}, Record{Planned: at(10)}, 49, at(40), 1, 2, at(20)},
		{"latest of all", Options{}, Record{Planned: at(0)}, 99, at(50), 1, 4, at(10)},

		{"all of one", Options{Missed: RunAll}, Record{Planned: at(10)}, 29, at(20), 1, 0, never},
		{"all of three", Options{Missed: RunAll}, Record{Planned: at(10)}, 49, at(20), 1, 0, never},

		{"skip none", Options{Missed: Skip, Grace: 9 * time.Minute}, Record{Planned: at(10)}, 29, at(20), 1, 0, never},
		{"skip one", Options{Missed: Skip, Grace: 9 * time.Minute}, Record{Planned: at(10)}, 31, at(30), 1, 1, at(20)},
		{"skip to the future", Options{Missed: Skip, Grace: time.Minute}, Record{Planned: at(10)}, 45, at(50), 1, 3, at(20)},
		{"skip to the end", Options{Missed: Skip, Grace: time.Minute}, Record{Planned: at(10)}, 99, never, 1, 4, at(20)},
		{"skip none, by default", Options{Missed: Skip}, Record{Planned: at(10)}, 21, at(20), 1, 0, never},
		{"skip one, by default", Options{Missed: Skip}, Record{Planned: at(10)}, 22, at(30), 1, 1, at(20)},
		{"skip, and run each", Options{Missed: Skip, Grace: 25 * time.Minute}, Record{Planned: at(0)}, 45, at(20), 1, 1, at(10)},

		{"interrupted", Options{Attempts: 1}, Record{Planned: at(10), State: StateBegun, Attempt: 1}, 21, at(20), 1, 0, never},
		{"once more", Options{Attempts: 2}, Record{Planned: at(10), State: StateBegun, Attempt: 1}, 15, at(10), 2, 0, never},
		{"no more", Options{Attempts: 2}, Record{Planned: at(10), State: StateBegun, Attempt: 2}, 15, at(20), 1, 0, never},
		{"once more, but a newer one is past", Options{Attempts: 2}, Record{Planned: at(10), State: StateBegun, Attempt: 1}, 25, at(20), 1, 1, at(10)},
		{"once more, before a newer one", Options{Attempts: 2, Missed: RunAll}, Record{Planned: at(10), State: StateBegun, Attempt: 1}, 25, at(10), 2, 0, never},
		{"once more, but too late", Options{Attempts: 2, Missed: Skip, Grace: time.Minute}, Record{Planned: at(10), State: StateBegun, Attempt: 1}, 15, at(20), 1, 1, at(10)},
		{"once more, the clock was set back", Options{Attempts: 2}, Record{Planned: at(10), State: StateBegun, Attempt: 1}, 5, at(10), 2, 0, never},
		{"done is done", Options{Attempts: 2}, Record{Planned: at(10), State: StateDone, Attempt: 1}, 15, at(20), 1, 0, never},
		{"a state of a later version", Options{Attempts: 2}, Record{Planned: at(10), State: "paused", Attempt: 1}, 15, at(20), 1, 0, never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Schedule, tt.o.Location = all, time.UTC
			o, err := tt.o.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			p, err := o.plan(tt.r, at(tt.now))
			if err != nil || !p.at.Equal(tt.at) || p.attempt != tt.attempt || p.missed != tt.missed || !p.from.Equal(tt.from) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// counting counts the calls of a Schedule.
type counting struct {
	Schedule
	n int
}

func (c *counting) Next(t time.Time) time.Time { c.n++; return c.Schedule.Next(t) }

// hours is planned at each second between three and four.
type hours struct{}

func (hours) Next(t time.Time) time.Time {
	t = Every(time.Second).Next(t)
	switch begin := time.Date(t.Year(), t.Month(), t.Day(), 3, 0, 0, 0, t.Location()); {
	case t.Before(begin):
		return begin
	case t.Before(begin.Add(time.Hour)):
		return t
	default:
		return begin.AddDate(0, 0, 1)
	}
}

// However many times are past, it takes few steps to pass over them.
func TestF357_YearOfSeconds(t *testing.T) {
	begin := at(0)
	now := begin.AddDate(1, 0, 0).Add(500 * time.Millisecond)
	for _, tt := range []struct {
		name     string
		schedule Schedule
		missed   Missed
		want     time.Time
	}{
		{"latest", Every(time.Second), RunLatest, now.Truncate(time.Second)},
		{"latest of hours", hours{}, RunLatest, time.Date(2027, 2, 28, 3, 59, 59, 0, time.UTC)},
		{"skip", Every(time.Second), Skip, now.Truncate(time.Second).Add(-59 * time.Second)},
		{"skip hours", hours{}, Skip, time.Date(2027, 3, 1, 3, 0, 0, 0, time.UTC)},
		{"all", Every(time.Second), RunAll, begin.Add(time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &counting{Schedule: tt.schedule}
			o := Options{Schedule: c, Location: time.UTC, Missed: tt.missed, Grace: time.Minute}
			p, err := o.plan(Record{Planned: begin}, now)
			if err != nil || !p.at.Equal(tt.want) || c.n > 2*maxMissed {
				t.Errorf("%v after %d calls, want %v (%v)", p.at, c.n, tt.want, err)
			}
			if want := maxMissed; tt.missed != RunAll && p.missed != want {
				t.Errorf("missed %d, want %d", p.missed, want)
			}
		})
	}
}

// A schedule that does not go forward is refused, and so are those that go back later.
func TestScheduleGoesBack(t *testing.T) {
	for _, s := range []Schedule{next(func(t time.Time) time.Time { return t }), next(func(t time.Time) time.Time { return t.Add(-time.Hour) })} {
		o := Options{Schedule: s, Location: time.UTC}
		if _, err := o.plan(Record{Planned: at(0)}, at(5)); !errors.Is(err, ErrBadSchedule) {
			t.Error(err)
		}
	}
}

type next func(time.Time) time.Time

func (n next) Next(t time.Time) time.Time { return n(t) }

// The schedule is asked for times in the location of the options, and what it returns is compared by
// the wall clock.
func TestLocation(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	var asked []string
	o := Options{Location: berlin, Schedule: next(func(t time.Time) time.Time {
		asked = append(asked, t.Format("15:04 MST"))
		return time.Date(t.Year(), t.Month(), t.Day()+1, 3, 0, 0, 0, t.Location())
	})}
	p, err := o.plan(Record{Planned: time.Date(2026, 3, 28, 2, 0, 0, 0, time.UTC)}, at(0))
	if err != nil || p.at.UTC().Hour() != 2 || !slices.Equal(asked, []string{"03:00 CET"}) {
		t.Errorf("%v %q %v", p.at, asked, err)
	}
}

func TestParseRecord(t *testing.T) {
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{`{"planned":"2026-03-01T05:00:00.5Z","state":"done","token":7,"attempt":1,"id":"a"}`, true},
		{`{"planned":"2026-03-01T06:00:00.5+01:00","state":"done","later":{"x":1}}`, true},
		{`{"planned":"2026-03-01T05:00:00.5Z","state":"of a later version"}`, true},
		{``, false},
		{`null`, false},
		{`{}`, false},
		{`garbage`, false},
		{`{"planned":"2026-03-01T05:00:00.5Z"}`, false},
		{`{"state":"done"}`, false},
		{`{"planned":"yesterday","state":"done"}`, false},
		{`{"planned":"2026-03-01T05:00:00.5Z","state":"done"} and more`, false},
	} {
		r, err := parseRecord("/r", []byte(tt.text))
		if tt.ok && (err != nil || r.Planned != time.Date(2026, 3, 1, 5, 0, 0, 500e6, time.UTC)) {
			t.Errorf("%s: %+v, %v", tt.text, r, err)
		}
		if !tt.ok && !errors.Is(err, ErrBadRecord) {
			t.Errorf("%s: %+v, %v", tt.text, r, err)
		}
	}
}
