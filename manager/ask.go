// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
)

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
