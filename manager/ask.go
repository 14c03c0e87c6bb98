// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/state"
)

// A Question is what Config.OnAsk gets: a question to this process about a lock that it
// holds, which a caller of [Lock.Ask] has put.
type Question struct {
	Lock  *Lock  // the lock that the question is about; nil if it is about a Mutex
	Mutex *Mutex // the mutex that it is about; nil if it is about a Lock

	// Grant is that by which this process held the lock when it read the question. Its
	// Turn is 0, also for a Mutex.
	Grant Grant

	// From describes the process that asks. ZooKeeper vouches for Session, and for
	// Since, which is when the question was put. Host, PID, Label and Endpoint are that
	// process's own words, and nothing proves them. Path is the question's own node;
	// Kind, Sequence and Token mean nothing here.
	From Contender

	Text []byte // the question: 1 byte to 64 KiB
}

// name returns the name of the lock.
func (q Question) name() string {
	if q.Mutex != nil {
		return q.Mutex.Name()
	}
	return q.Lock.Name()
}

// An Answer is what [Lock.Ask] returns: the answer of the process that holds the lock.
type Answer struct {
	From Contender // the contender that was asked

	// The state of the lock in that process when it wrote the answer.
	Phase    state.Phase   // Retained: it holds the lock. Fetching: its turn has come, and it does not know yet
	Holders  int           // callers there that hold the lock
	Waiting  int           // callers there that wait for the next grant
	Held     time.Duration // time since the grant; 0 if it does not hold the lock
	Yielding bool          // newcomers there must let other processes go first: see ErrYielding
	Revoked  bool          // Hold.Revoked has closed there: see Lock.Revoke

	// Reply is what Config.OnAsk returned in that process. It is nil if Err is set, or
	// if the question was empty.
	Reply []byte

	// Err is the text of the error that Config.OnAsk returned, or says why it was not
	// called: it is not set, or the process does not hold the lock any more. It is
	// empty if there was no error. The text comes from another process: quote it.
	Err string
}

// asked is what a question's node says.
type asked struct {
	nodeData               // the asker; Kind is askKind or revokeKind
	Node     string        `json:"node"` // the contender that is asked
	Text     []byte        `json:"text,omitempty"`
	Within   time.Duration `json:"within_ns,omitempty"` // how long the asker waits, from when it asked; 0: no bound
}

const (
	askKind    = "ask"
	revokeKind = "revoke"
)

// answered is what the node says when the holder has answered.
type answered struct {
	Phase    string        `json:"phase"`
	Holders  int           `json:"holders"`
	Waiting  int           `json:"waiting"`
	Held     time.Duration `json:"held_ns"`
	Yielding bool          `json:"yielding"`
	Revoked  bool          `json:"revoked"`
	Reply    []byte        `json:"reply,omitempty"`
	Err      string        `json:"err,omitempty"`
}

// answer returns what the contender from has answered.
func (a *answered) answer(from Contender) Answer {
	phase := state.Free
	for _, p := range []state.Phase{state.Fetching, state.Retained, state.Releasing, state.Released} {
		if p.String() == a.Phase {
			phase = p
		}
	}
	return Answer{
		From: from, Phase: phase, Holders: a.Holders, Waiting: a.Waiting, Held: a.Held,
		Yielding: a.Yielding, Revoked: a.Revoked, Reply: a.Reply, Err: a.Err,
	}
}

// readAnswer returns the answer that data are.
func readAnswer(data []byte) (a answered, err error) {
	if err := json.Unmarshal(data, &a); err != nil || a.Phase == "" && a.Err == "" {
		return a, fmt.Errorf("%w: another client has written this in its place: %q", ErrNoAnswer, cut(string(data)))
	}
	return a, nil
}

// Ask puts a question to the process that holds the lock and returns its answer: the
// state of the lock there, and the reply of its Config.OnAsk. An empty question asks
// for the state only, and does not call OnAsk. If several processes hold a read lock,
// Ask asks the first of them in the queue. If this process holds the lock, Ask calls
// its own OnAsk and sends no request.
//
// Question and answer are nodes in ZooKeeper, so the two processes need no connection
// to each other. One answer takes seven round trips to the server, three of them
// writes. Ask is for a question now and then; for more, publish an address as
// Config.Endpoint and use a transport of your own.
//
// The answer says what was true when the holder wrote it. Nothing proves who wrote it:
// any client that may write under Config.Root can. OnAsk may have handled a question
// although Ask fails. It may handle a question twice, if this process's session ends
// meanwhile or another client deletes the question's node.
//
// Ask blocks until it has the answer or ctx ends: give it a ctx with a deadline, since a
// holder that is stopped does not answer. The errors are
//
//   - [ErrNoAnswer], at once, if the lock is free; if its holder cannot answer, because
//     it belongs to another client or an older version; or if the holder gives the lock
//     up without an answer;
//   - [ErrNoAnswer] together with ctx.Err() and context.Cause(ctx) if ctx ends; the text
//     names the process that was asked;
//   - [ErrTooLarge], before anything is sent, if question has more than 64 KiB;
//   - [ErrClosed] if this Manager is closed.
//
// An error of the holder's OnAsk is no error of Ask: see Answer.Err.
func (l *Lock) Ask(ctx context.Context, question []byte) (Answer, error) {
	const op = "ask"
	if err := l.mayAsk(ctx, op, "question", len(question)); err != nil {
		return Answer{}, err
	}
	if own := l.own().asHolder(); own != nil {
		return l.own().ask(ctx, *own, question)
	}
	q := newInquiry(l, askKind, question, "")
	q.begin(ctx)
	a, err := q.result.Future().Wait(ctx)
	if err != nil {
		return Answer{}, q.failed(ctx, op, err)
	}
	return a, nil
}

// mayAsk returns why a question, or the reason of a revocation, is refused before
// anything is sent; nil if it may be sent.
func (l *Lock) mayAsk(ctx context.Context, op, what string, size int) error {
	switch {
	case size > maxLetter:
		return &Error{Op: op, Name: l.Name(), Err: fmt.Errorf("%w: the %s has %d bytes, at most %d are allowed", ErrTooLarge, what, size, maxLetter)}
	case l.m.stage.Load() == closingDown:
		return &Error{Op: op, Name: l.Name(), Err: ErrClosed}
	case ctx.Err() != nil:
		return l.errorAbout(op, ctxerr.Of(ctx))
	}
	return nil
}

// errorAbout returns the error of an operation that concerns the lock's holder, and names it as
// far as this process knows it without asking: it waits behind it, or remembers it.
func (l *Lock) errorAbout(op string, err error) *Error {
	e := &Error{Op: op, Name: l.Name(), Err: err, Outage: l.m.outage()}
	for r := range l.own().live() {
		if p := r.io().position.Load(); p != nil {
			return r.error(op, err)
		}
	}
	if o := l.observer.Load(); o != nil {
		if seen := o.seen.Load(); seen != nil && seen.holder != nil {
			holder := *seen.holder // others share it
			e.Holder = &holder
		}
	}
	return e
}

// ask has this process, which holds the lock or is about to, answer the question
// itself.
func (l *own) ask(ctx context.Context, own Contender, question []byte) (Answer, error) {
	m := l.m
	held := m.holdingAt(own.Path)
	if !m.calls(held, question) {
		a := m.answerOf(held, question)
		return a.answer(own), nil
	}
	from := own
	from.Path, from.Token = "", 0
	inside, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.box.ctx, cancel)
	done := make(chan answered, 1)
	m.spawn(func() {
		defer cancel()
		defer stop()
		m.box.call(inside, held.question(from, question), func(reply []byte, failed string) {
			a := m.holdingAt(own.Path).report()
			a.Reply, a.Err = reply, failed
			done <- a
		})
	})
	select {
	case a := <-done:
		return a.answer(own), nil
	case <-ctx.Done():
		return Answer{}, &Error{Op: "ask", Name: (*Lock)(l).Name(), Err: fmt.Errorf("%w: Config.OnAsk of this process has not returned: %w", ErrNoAnswer, ctxerr.Of(ctx))}
	}
}

// failed returns the error of a question that has failed with err. If the asker gave up,
// err is that of its wait, which says nothing of what became of the question.
func (q *inquiry) failed(ctx context.Context, op string, err error) error {
	if q.result.Settled() {
		_, err, _ = q.result.Future().Poll() // just in time, if the wait has ended as well
	}
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w%s: %w", ErrNoAnswer, q.addressee(), ctxerr.Of(ctx))
	}
	return &Error{Op: op, Name: q.lock.Name(), Err: err, Outage: q.lock.m.outage()}
}
