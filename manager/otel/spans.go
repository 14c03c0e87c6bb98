// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"container/list"
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/manager"
)

// scope is the name of the tracer and of the meter.
const scope = "github.com/holdfast-go/holdfast/manager/otel"

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

	scratch [6]attribute.KeyValue // where begin puts a span's attributes: Start copies them
	session session               // of the last grant
}

// A round is the open span of one: its wait or its hold.
type round struct {
	id        uint64
	stage     stage
	span      trace.Span
	recording bool            // else the span has been sampled out, and attributes would be for nothing
	ctx       context.Context // of the span
}

// A session is the attribute for one, kept since most grants are in the same.
type session struct {
	id        int64
	attribute attribute.KeyValue
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
		tracer: provider.Tracer(scope),
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
	case manager.EventPlaced:
		s.note(s.at(wait, e), e, placedAttributes)
	case manager.EventGranted:
		s.grant(s.at(wait, e), e, e.Time)
	case manager.EventRevoked:
		s.note(s.at(hold, e), e, revokedAttributes)
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
	default:
		switch {
		case e.Lock == "": // of the session, which has no span
		case e.Token == 0:
			s.note(s.at(wait, e), e, nil)
		default:
			s.note(s.at(hold, e), e, nil)
		}
	}
}

// at returns the open span of the event's round. If it has none, the events that began
// it were dropped. Each event says how long its stage has lasted, so the span begins
// when it should have.
func (s *Spans) at(stage stage, e manager.Event) *round {
	element := s.rounds[e.Round]
	if element == nil {
		if len(s.rounds) >= s.most {
			oldest := s.order.Front().Value.(*round)
			oldest.span.SetAttributes(attribute.Bool("holdfast.complete", false))
			s.end(oldest, e)
		}
		r := &round{id: e.Round}
		s.rounds[r.id] = s.order.PushBack(r)
		s.begin(r, stage, e, context.Background())
		return r
	}
	s.order.MoveToBack(element)
	r := element.Value.(*round)
	if r.stage == wait && stage == hold {
		s.grant(r, e, e.Time.Add(-e.Held)) // which was dropped
	}
	return r
}

// grant ends a wait, and begins the hold that it led to.
func (s *Spans) grant(r *round, e manager.Event, at time.Time) {
	if r.recording {
		r.span.SetAttributes(token(e), s.sessionOf(e))
	}
	r.span.End(trace.WithTimestamp(at))
	s.begin(r, hold, e, r.ctx)
}

// begin opens the span of a round.
func (s *Spans) begin(r *round, stage stage, e manager.Event, parent context.Context) {
	attributes := append(s.scratch[:0],
		attribute.String("holdfast.lock", e.Lock),
		attribute.String("holdfast.kind", e.LockKind.String()),
		attribute.Int64("holdfast.round", int64(e.Round)),
	)
	start := e.Time.Add(-e.Waited)
	if stage == hold {
		start = e.Time.Add(-e.Held)
		attributes = append(attributes, token(e), s.sessionOf(e))
	}
	r.stage = stage
	r.ctx, r.span = s.tracer.Start(parent, string(stage), trace.WithTimestamp(start), trace.WithAttributes(attributes...))
	r.recording = r.span.IsRecording()
}

// note adds an event to a span. Its attributes are those that of returns.
func (s *Spans) note(r *round, e manager.Event, of func(manager.Event) []attribute.KeyValue) {
	switch {
	case !r.recording:
	case of == nil:
		r.span.AddEvent(e.Kind.String(), trace.WithTimestamp(e.Time))
	default:
		r.span.AddEvent(e.Kind.String(), trace.WithTimestamp(e.Time), trace.WithAttributes(of(e)...))
	}
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

// end ends a span at the time of the event, and its round.
func (s *Spans) end(r *round, e manager.Event) {
	r.span.End(trace.WithTimestamp(e.Time))
	s.order.Remove(s.rounds[r.id])
	delete(s.rounds, r.id)
}

// sessionOf returns the attribute for the session of a grant.
func (s *Spans) sessionOf(e manager.Event) attribute.KeyValue {
	if !s.session.attribute.Valid() || s.session.id != e.Session {
		s.session = session{e.Session, attribute.String("holdfast.session", "0x"+strconv.FormatUint(uint64(e.Session), 16))}
	}
	return s.session.attribute
}

// token returns the attribute for the token of a grant.
func token(e manager.Event) attribute.KeyValue {
	return attribute.Int64("holdfast.token", int64(e.Token))
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
