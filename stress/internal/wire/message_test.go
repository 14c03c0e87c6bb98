// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/referee"
)

func TestMessages(t *testing.T) {
	l := NewLatency()
	l.Record(Waited, time.Millisecond)
	report, err := l.Report()
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{
		{Ready: true},
		{Progress: &Counts{Entries: 5, LongestRace: 2}},
		{Violation: &referee.Violation{Kind: "token fell", Lock: "lock-1", Time: time.Unix(1, 2).UTC(), PID: 1, Token: 1<<64 - 1, OtherPID: 3, OtherToken: 4}},
		{Failure: &Failure{Text: "a\nb", Stack: "s", Dump: "d", Fatal: true}},
		{Final: &Final{Counts: Counts{Grants: 1}, Held: []time.Duration{time.Second, 0}, Latency: report}},
	}
	var b bytes.Buffer
	w := NewMessageWriter(&b)
	for _, m := range want {
		w.Send(m)
	}
	if lines := strings.Count(b.String(), "\n"); lines != len(want) {
		t.Errorf("%d messages in %d lines", len(want), lines)
	}
	var got []Message
	if err := ReadMessages(&b, func(m Message) { got = append(got, m) }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A process that writes something else must not block in its write.
func TestMalformedMessages(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		defer w.Close()
		for _, s := range []string{`{"ready":true}` + "\n", "panic: something\n", strings.Repeat("x", 1<<20)} {
			if _, err := io.WriteString(w, s); err != nil {
				t.Errorf("the process can no longer write: %v", err)
			}
		}
	}()
	n := 0
	if err := ReadMessages(r, func(Message) { n++ }); err == nil || n != 1 {
		t.Errorf("%d messages and error %v, want one and an error", n, err)
	}
}
