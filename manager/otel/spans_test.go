// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// record returns Spans and what keeps those that have ended.
func record() (*Spans, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))), recorder
}

// start is when the histories of these tests begin.
var start = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// at returns an event of round 7 of lock "a", some seconds after the start.
func at(second int, kind manager.EventKind, change func(*manager.Event)) manager.Event {
	e := manager.Event{
		Kind: kind, Time: start.Add(time.Duration(second) * time.Second),
		Lock: "a", LockKind: manager.KindWrite, Round: 7,
	}
	if change != nil {
		change(&e)
	}
	return e
}

func waited(s int) func(*manager.Event) {
	return func(e *manager.Event) { e.Waited = time.Duration(s) * time.Second }
}

func held(s int, err error) func(*manager.Event) {
	return func(e *manager.Event) {
		e.Held, e.Err = time.Duration(s)*time.Second, err
		e.Token, e.Session = 99, 0x1000042
	}
}

func granted(s int) func(*manager.Event) {
	return func(e *manager.Event) {
		e.Waited, e.Token, e.Session = time.Duration(s)*time.Second, 99, 0x1000042
	}
}

// describe returns a span in a line or two: name, times in seconds after the start, status
// and attributes; then its events in the same way.
func describe(s sdktrace.ReadOnlySpan) string {
	second := func(t time.Time) float64 { return t.Sub(start).Seconds() }
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v-%v %s", s.Name(), second(s.StartTime()), second(s.EndTime()), s.Status().Code)
	if s.Status().Description != "" {
		fmt.Fprintf(&b, " (%s)", s.Status().Description)
	}
	b.WriteString(attributesText(s.Attributes()))
	for _, e := range s.Events() {
		fmt.Fprintf(&b, "; %s at %v%s", e.Name, second(e.Time), attributesText(e.Attributes))
	}
	return b.String()
}

func attributesText(attributes []attribute.KeyValue) (text string) {
	for _, a := range attributes {
		name, ok := strings.CutPrefix(string(a.Key), "holdfast.")
		if !ok {
			name = "UNEXPECTED " + string(a.Key)
		}
		text += fmt.Sprintf(" %s=%s", name, a.Value.Emit())
	}
	return text
}

// What happens to a lock, and the spans that come of it.
func TestSpans(t *testing.T) {
	const (
		of    = " lock=a kind=write round=7"
		token = " token=99 session=0x1000042"
	)
	for _, tt := range []struct {
		name   string
		events []manager.Event
		want   []string
	}{
		{"granted and released", []manager.Event{
			at(2, manager.EventQueued, waited(1)),
			at(3, manager.EventPlaced, func(e *manager.Event) {
				e.Position, e.Ahead = 2, &manager.Contender{Label: "billing", Host: "db7", PID: 4711}
			}),
			at(5, manager.EventPlaced, func(e *manager.Event) { e.Position = 1 }),
			at(6, manager.EventGranted, granted(5)),
			at(7, manager.EventEntered, nil),
			at(8, manager.EventYielded, nil),
			at(9, manager.EventRevoked, func(e *manager.Event) {
				e.From, e.Reason = &manager.Contender{Label: "ops", Host: "db8", PID: 1}, "rolling restart"
			}),
			at(16, manager.EventReleased, held(10, nil)),
		}, []string{
			"holdfast.wait 1-6 Unset" + of + token +
				"; queued at 2; placed at 3 position=2 ahead=billing@db7, pid 4711; placed at 5 position=1",
			"holdfast.hold 6-16 Unset" + of + token +
				"; entered at 7; yielded at 8; revoked at 9 reason=rolling restart from=ops@db8, pid 1",
		}},
		{"failed", []manager.Event{
			at(1, manager.EventQueued, waited(1)),
			at(3, manager.EventFailed, func(e *manager.Event) { e.Err = manager.ErrNotGranted }),
		}, []string{"holdfast.wait 0-3 Error (lock is not granted)" + of + " cause=context; queued at 1"}},
		{"failed without an entry", []manager.Event{
			at(3, manager.EventFailed, func(e *manager.Event) { e.Waited, e.Err = 3*time.Second, manager.ErrClosed }),
		}, []string{"holdfast.wait 0-3 Error (manager is closed)" + of + " cause=closed"}},
		{"lost", []manager.Event{
			at(1, manager.EventGranted, granted(1)),
			at(2, manager.EventLost, held(1, errors.New("its node is gone"))),
		}, []string{
			"holdfast.wait 0-1 Unset" + of + token,
			"holdfast.hold 1-2 Error (its node is gone)" + of + token + " cause=other",
		}},
		{"not confirmed", []manager.Event{
			at(1, manager.EventGranted, granted(1)),
			at(2, manager.EventReleased, held(1, manager.ErrUnconfirmed)),
		}, []string{
			"holdfast.wait 0-1 Unset" + of + token,
			"holdfast.hold 1-2 Unset" + of + token + " cause=unconfirmed",
		}},
		{"queued again after a lost session", []manager.Event{
			at(1, manager.EventQueued, waited(1)),
			{Kind: manager.EventSessionOver, Time: start, Session: 1},
			{Kind: manager.EventSessionBegan, Time: start, Session: 2},
			at(4, manager.EventQueued, waited(4)),
			at(5, manager.EventFailed, func(e *manager.Event) { e.Err = manager.ErrNotGranted }),
		}, []string{"holdfast.wait 0-5 Error (lock is not granted)" + of + " cause=context; queued at 1; queued at 4"}},
		{"the grant was dropped", []manager.Event{
			at(1, manager.EventQueued, waited(1)),
			at(9, manager.EventReleased, held(5, nil)),
		}, []string{
			"holdfast.wait 0-4 Unset" + of + token + "; queued at 1",
			"holdfast.hold 4-9 Unset" + of + token,
		}},
		{"all but the end was dropped", []manager.Event{at(9, manager.EventReleased, held(5, nil))},
			[]string{"holdfast.hold 4-9 Unset" + of + token}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spans, recorder := record()
			for _, e := range tt.events {
				spans.Observe(e)
			}
			var got []string
			for _, s := range recorder.Ended() {
				got = append(got, describe(s))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
			if len(spans.rounds) != 0 || spans.order.Len() != 0 {
				t.Errorf("%d spans are open", len(spans.rounds))
			}
			for _, s := range recorder.Ended()[1:] {
				if wait := recorder.Ended()[0]; s.Parent().SpanID() != wait.SpanContext().SpanID() || s.SpanContext().TraceID() != wait.SpanContext().TraceID() {
					t.Errorf("%s is not a child of the wait", s.Name())
				}
			}
		})
	}
}

// Each hold has the session of its own grant.
func TestSessions(t *testing.T) {
	spans, recorder := record()
	for _, id := range []int64{0, 0x1000042, 0x1000043, 0x1000043, -1} {
		in := func(e *manager.Event) { e.Session = id }
		spans.Observe(at(1, manager.EventGranted, in))
		spans.Observe(at(2, manager.EventReleased, in))
	}
	want := []string{"0x0", "0x1000042", "0x1000043", "0x1000043", "0xffffffffffffffff"}
	for i, s := range recorder.Ended() {
		if got := describe(s); !strings.Contains(got+" ", " session="+want[i/2]+" ") {
			t.Errorf("span %d is %s, want session %s", i, got, want[i/2])
		}
	}
}

// A sampler learns what a wait or hold is about. What it does not want is not described
// further.
func TestSampler(t *testing.T) {
	var asked []string
	spans := New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler(func(p sdktrace.SamplingParameters) {
		asked = append(asked, p.Name+attributesText(p.Attributes))
	}))))
	for _, e := range []manager.Event{
		at(1, manager.EventQueued, waited(1)),
		at(2, manager.EventPlaced, func(e *manager.Event) { e.Position = 1 }),
		at(3, manager.EventGranted, granted(3)),
		at(4, manager.EventRevoked, nil),
		at(5, manager.EventReleased, held(2, nil)),
	} {
		spans.Observe(e)
	}
	want := []string{
		"holdfast.wait lock=a kind=write round=7",
		"holdfast.hold lock=a kind=write round=7 token=99 session=0x1000042",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
}

// A sampler wants no span, and is told of those that it is asked about.
type sampler func(sdktrace.SamplingParameters)

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s(p)
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (sampler) Description() string { return "none" }

// A mutex is told from a lock.
func TestMutex(t *testing.T) {
	spans, recorder := record()
	spans.Observe(at(9, manager.EventReleased, func(e *manager.Event) { e.LockKind = manager.KindMutex }))
	if got := describe(recorder.Ended()[0]); !strings.Contains(got, "kind=mutex") {
		t.Error(got)
	}
}

// If ends are dropped, the span that has not changed for the longest time makes room.
func TestBoundOfOpenSpans(t *testing.T) {
	spans, recorder := record()
	spans.most = 3
	round := func(n uint64, kind manager.EventKind) manager.Event {
		return at(int(n), kind, func(e *manager.Event) { e.Round = n })
	}
	for n := range uint64(3) {
		spans.Observe(round(n, manager.EventQueued))
	}
	spans.Observe(round(0, manager.EventPlaced)) // so 1 is the oldest
	spans.Observe(round(3, manager.EventQueued))
	ended := recorder.Ended()
	if len(ended) != 1 || len(spans.rounds) != 3 {
		t.Fatalf("%d spans have ended, %d are open, want 1 and 3", len(ended), len(spans.rounds))
	}
	if got, want := describe(ended[0]), "holdfast.wait 1-3 Unset lock=a kind=write round=1 complete=false; queued at 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// With a Manager, each wait and each hold makes one span, and none stays open.
func TestWithManager(t *testing.T) {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	spans, recorder := record()
	m, err := manager.Open(t.Context(), manager.Config{
		Servers: []string{"zk:2181"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler),
		Observer: spans.Observe,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	l, err := m.Exclusive("jobs/nightly")
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for range 10 {
		h, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		grant, err := h.Grant()
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, fmt.Sprintf("token=%d ", grant.Token))
		if err := h.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.Close() // which waits until all events have been observed
	ended := recorder.Ended()
	if len(ended) != 20 || len(spans.rounds) != 0 {
		t.Fatalf("%d spans have ended, %d are open, want 20 and 0", len(ended), len(spans.rounds))
	}
	for i, s := range ended {
		if got := describe(s) + " "; s.Name() != string([]stage{wait, hold}[i%2]) || !strings.Contains(got, tokens[i/2]) || !strings.Contains(got, "lock=jobs/nightly ") {
			t.Errorf("span %d is %s, want a wait or hold with %s", i, got, tokens[i/2])
		}
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("span %d ends before it begins: %s", i, describe(s))
		}
	}
}

// BenchmarkObserve takes the events of one uncontended Lock and Unlock.
func BenchmarkObserve(b *testing.B) {
	for _, bb := range []struct {
		name    string
		sampler sdktrace.Sampler
	}{{"sampled", sdktrace.AlwaysSample()}, {"dropped", sdktrace.NeverSample()}} {
		b.Run(bb.name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()), sdktrace.WithSampler(bb.sampler))
			defer func() { _ = provider.Shutdown(context.Background()) }()
			spans := New(provider)
			b.ReportAllocs()
			for b.Loop() {
				spans.Observe(at(1, manager.EventQueued, waited(1)))
				spans.Observe(at(2, manager.EventGranted, granted(2)))
				spans.Observe(at(3, manager.EventReleased, held(1, nil)))
			}
		})
	}
}
