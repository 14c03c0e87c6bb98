// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"container/list"
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/manager"
)

// maxOpen is the most spans that are open at a time: see Spans.
const maxOpen = 1 << 16

// Spans makes spans of the events of one Manager. Its method is to be called by that
// Manager only, which does not call it concurrently.
//
// If the Manager drops events because a span processor is slow, a span whose last event
// is missing stays open. At most 65,536 are open at a time. The one that has not changed
// for the longest time ends then, with holdfast.complete false.
type Spans struct {
	tracer trace.Tracer
	most   int

	rounds map[uint64]*list.Element // the values are *round
	order  *list.List               // the one that has not changed for the longest time first
}

// A round is the open span of one: its wait or its hold.
type round struct {
	id    uint64
	stage stage
	span  trace.Span
	ctx   context.Context // of the span
}

// A stage says what a span shows.
type stage string

const (
	wait stage = "holdfast.wait"
	hold stage = "holdfast.hold"
)

// New returns Spans that are made by a tracer of the provider, which must not be nil.
func New(provider trace.TracerProvider) *Spans {
	return &Spans{
		tracer: provider.Tracer("github.com/holdfast-go/holdfast/manager/otel"),
		most:   maxOpen,
		rounds: map[uint64]*list.Element{},
		order:  list.New(),
	}
}

// Observe begins, continues or ends a span. It is meant for the Observer in
// [manager.Config]. It blocks for as long as the provider's span processors do, so these
// should export in batches.
func (s *Spans) Observe(e manager.Event) {
	switch e.Kind {
	case manager.EventQueued:
		s.note(s.at(wait, e), e)
	case manager.EventPlaced:
		s.note(s.at(wait, e), e, placedAttributes(e)...)
	case manager.EventGranted:
		r := s.at(wait, e)
		r.span.SetAttributes(grantAttributes(e)...)
		s.end(r, e)
		s.begin(hold, e, r.ctx)
	case manager.EventEntered, manager.EventYielded:
		s.note(s.at(hold, e), e)
	case manager.EventRevoked:
		s.note(s.at(hold, e), e, revokedAttributes(e)...)
	case manager.EventReleased:
		r := s.at(hold, e)
		if e.Err != nil {
			r.span.SetAttributes(attribute.String("holdfast.cause", e.Cause()))
		}
		s.end(r, e)
	case manager.EventLost:
		s.fail(s.at(hold, e), e)
	case manager.EventFailed:
		s.fail(s.at(wait, e), e)
	}
}

// at returns the open span of the event's round. If it has none, the events that began
// it were dropped. Each event says how long its stage has lasted, so the span begins
// when it should have.
func (s *Spans) at(stage stage, e manager.Event) *round {
	at := s.rounds[e.Round]
	if at == nil {
		return s.begin(stage, e, context.Background())
	}
	s.order.MoveToBack(at)
	r := at.Value.(*round)
	if r.stage == wait && stage == hold {
		// The grant was dropped.
		r.span.SetAttributes(grantAttributes(e)...)
		r.span.End(trace.WithTimestamp(e.Time.Add(-e.Held)))
		s.remove(r)
		return s.begin(hold, e, r.ctx)
	}
	return r
}

// begin opens a span. If there are too many, it ends another one.
func (s *Spans) begin(stage stage, e manager.Event, parent context.Context) *round {
	if len(s.rounds) >= s.most {
		oldest := s.order.Front().Value.(*round)
		oldest.span.SetAttributes(attribute.Bool("holdfast.complete", false))
		s.end(oldest, e)
	}
	attributes := []attribute.KeyValue{
		attribute.String("holdfast.lock", e.Lock),
		attribute.String("holdfast.kind", e.LockKind.String()),
		attribute.Int64("holdfast.round", int64(e.Round)),
	}
	if e.Mutex {
		attributes = append(attributes, attribute.Bool("holdfast.mutex", true))
	}
	start := e.Time.Add(-e.Waited)
	if stage == hold {
		start = e.Time.Add(-e.Held)
		attributes = append(attributes, grantAttributes(e)...)
	}
	r := &round{id: e.Round, stage: stage}
	r.ctx, r.span = s.tracer.Start(parent, string(stage), trace.WithTimestamp(start), trace.WithAttributes(attributes...))
	s.rounds[r.id] = s.order.PushBack(r)
	return r
}

// note adds an event to a span.
func (s *Spans) note(r *round, e manager.Event, attributes ...attribute.KeyValue) {
	r.span.AddEvent(e.Kind.String(), trace.WithTimestamp(e.Time), trace.WithAttributes(attributes...))
}

// fail ends a span with the error of the event.
func (s *Spans) fail(r *round, e manager.Event) {
	r.span.SetAttributes(attribute.String("holdfast.cause", e.Cause()))
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	r.span.SetStatus(codes.Error, text)
	s.end(r, e)
}

// end ends a span at the time of the event.
func (s *Spans) end(r *round, e manager.Event) {
	r.span.End(trace.WithTimestamp(e.Time))
	s.remove(r)
}

func (s *Spans) remove(r *round) {
	s.order.Remove(s.rounds[r.id])
	delete(s.rounds, r.id)
}

func grantAttributes(e manager.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int64("holdfast.token", int64(e.Token)),
		attribute.String("holdfast.session", "0x"+strconv.FormatUint(uint64(e.Session), 16)),
	}
}

func placedAttributes(e manager.Event) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.Int("holdfast.position", e.Position)}
	if e.Ahead != nil {
		attributes = append(attributes, attribute.String("holdfast.ahead", e.Ahead.String()))
	}
	return attributes
}

func revokedAttributes(e manager.Event) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.String("holdfast.reason", e.Reason)}
	if e.From != nil {
		attributes = append(attributes, attribute.String("holdfast.from", e.From.String()))
	}
	return attributes
}
