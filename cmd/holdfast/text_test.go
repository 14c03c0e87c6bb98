// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
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

// TestWriteJSON: no control character is written raw, and a reader of JSON gets the text as
// it was.
func TestWriteJSON(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"jobs/<nightly> & Zählung/日本語", `"jobs/<nightly> & Zählung/日本語"`},
		{"\x1b[31m\r\n\x00", `"\u001b[31m\r\n\u0000"`},
		{"\x7f\u0080\u009b31m\u009f\u00a0", "\"\\u007f\\u0080\\u009b31m\\u009f\u00a0\""},
		{"a\u202egnp.exe", `"a\u202egnp.exe"`}, // written from right to left
		{"\u2066\U000e0041", `"\u2066\udb40\udc41"`},
		{`\u009b`, `"\\u009b"`}, // six characters
	} {
		var b bytes.Buffer
		must(t, writeJSON(&b, test.text))
		if got := b.String(); got != test.want+"\n" {
			t.Errorf("%q is written as %s, want %s", test.text, got, test.want)
		}
		var back string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != test.text {
			t.Errorf("%q is read as %q, %v", test.text, back, err)
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

// TestWhoIsShort: a text names a process in a bounded width, whatever that says of itself.
func TestWhoIsShort(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		c    inspect.Contender
		want string
	}{
		{inspect.Contender{Contender: manager.Contender{Label: long, Host: "db7"}}, strings.Repeat("x", 39) + "…@db7"},
		{inspect.Contender{Contender: manager.Contender{Identity: long}, Client: "curator"}, strings.Repeat("x", 39) + "… (curator)"},
	} {
		if got := who(&test.c); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
