// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestSafe(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"jobs/nightly", "jobs/nightly"},
		{"Zählung/日本語", "Zählung/日本語"},
		{"two words", `"two words"`},
		{`a"b`, `"a\"b"`},
		{"\x1b[2J\x1b[31mred", `"\x1b[2J\x1b[31mred"`},
		{"a\r\nb\tc\x00", `"a\r\nb\tc\x00"`},
		{"\u202egnp.exe", `"\u202egnp.exe"`}, // written from right to left
		{"\xff", `"\xff"`},
		{"a\u00a0b", "\"a\u00a0b\""},
		{"\u009b31m", `"\u009b31m"`}, // a control sequence in one character
	} {
		if got := safe(test.text); got != test.want {
			t.Errorf("safe(%q) = %s, want %s", test.text, got, test.want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		text      string
		width     int
		head, end string
	}{
		{"nightly", 7, "nightly", "nightly"},
		{"nightly", 6, "night…", "…ghtly"},
		{"nightly", 1, "…", "…"},
		{"日本語", 6, "日本語", "日本語"},
		{"日本語", 5, "日本…", "…本語"},
		{"日本語", 4, "日…", "…語"}, // a wide character does not fit in half
		{"", 0, "", ""},
	} {
		if head, end := fit(test.text, test.width), fitEnd(test.text, test.width); head != test.head || end != test.end {
			t.Errorf("%q in %d columns: %q and %q, want %q and %q", test.text, test.width, head, end, test.head, test.end)
		}
	}
}

func TestAge(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0s"}, // ZooKeeper's clock is ahead
		{999 * time.Millisecond, "0s"},
		{59 * time.Second, "59s"},
		{time.Minute, "1m00s"},
		{time.Hour - time.Second, "59m59s"},
		{26 * time.Hour, "1d02h"},
		{23*time.Hour + 5*time.Minute, "23h05m"},
		{400 * 24 * time.Hour, "400d"},
	} {
		if got := age(test.d); got != test.want {
			t.Errorf("%v: %s, want %s", test.d, got, test.want)
		}
	}
	if got := ageOf(time.Time{}, time.Now()); got != "-" {
		t.Errorf("of a time that is not known: %s", got)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	table := &table{}
	table.add("NAME", ">N", "LAST")
	table.add("日本", "7", "x")
	table.add("abc", "1,000", "")
	table.write(&b)
	want := "NAME      N  LAST\n日本      7  x\nabc   1,000\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
