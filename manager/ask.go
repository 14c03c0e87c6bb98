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

// A Question is what another process asks the holder of a lock: see Config.OnAsk.
type Question struct {
	Lock  *Lock // the lock that is asked about
	Grant Grant // by which this process held it when the question was read

	// From is the process that asks. Its Session and Since are what the server says;
	// the rest it says of itself, and nothing proves it.
	From Contender

	Text []byte // the question, of at most 64 KiB
}

// An Answer is what the holder of a lock has answered: see [Lock.Ask].
type Answer struct {
	From Contender // the contender that was asked

	// How the lock stands in that process.
	Phase    state.Phase   // Retained: it holds the lock. Fetching: its turn has come, and it does not know yet
	Holders  int           // callers that hold the lock
	Waiting  int           // callers that wait for the next grant
	Held     time.Duration // how long ago the lock was granted; 0 if it does not hold it
	Yielding bool          // newcomers have to let other processes go first
	Revoked  bool          // a process has asked for the lock: see Lock.Revoke

	// What the process's Config.OnAsk has returned. Err is the text of its error, or
	// says why it was not called; it comes from the other process as it is.
	Reply []byte
	Err   string
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
		return a, fmt.Errorf("%w: what stands in its place is not one: %q", ErrNoAnswer, cut(string(data)))
	}
	return a, nil
}

// Ask puts a question to the process that holds the lock, and returns its answer: how
// the lock stands there, and what its Config.OnAsk replies. An empty question asks
// for the former only. Of several readers, the first is asked. If this process holds
// the lock, Ask calls its own Config.OnAsk and asks no server.
//
// The processes talk by way of ZooKeeper, so it takes no connection between them, no
// address and no open port. An answer takes seven trips to the server one after the
// other, three of them writes. It is for a question now and then; for much traffic,
// use Config.Endpoint.
//
// The answer says what was true when the process wrote it. It is as good as the
// holder's word: any client that may write under Config.Root can have written it.
// A question whose answer is lost may have been handled, and it may be handled twice
// if this process's session ends meanwhile, or if the question's node was deleted.
//
// Ask blocks until it has the answer or ctx ends. The error is [ErrNoAnswer], at
// once, if no process holds the lock, if the one that does cannot answer (it belongs
// to another client or an older version), or if it gives the lock up first. If ctx
// ends, because the process is stopped or its Config.OnAsk takes longer, the error
// wraps ctx's as well, and says which process was asked. A question of more than
// 64 KiB is refused with [ErrTooLarge] before anything is sent.
func (l *Lock) Ask(ctx context.Context, question []byte) (Answer, error) {
	const op = "ask"
	if err := l.mayAsk(ctx, op, len(question)); err != nil {
		return Answer{}, err
	}
	if own := l.ownHold(); own != nil {
		return l.askOwn(ctx, *own, question)
	}
	q := l.newInquiry(askKind, question, "")
	q.begin(ctx)
	a, err := q.result.Future().Wait(ctx)
	if err != nil {
		return Answer{}, q.failed(ctx, op, err)
	}
	return a, nil
}

// mayAsk returns why a question is refused before anything is sent; nil if it is not.
func (l *Lock) mayAsk(ctx context.Context, op string, size int) error {
	switch {
	case size > maxLetter:
		return &Error{Op: op, Name: l.Name(), Err: fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, size, maxLetter)}
	case l.m.stage.Load() == closingDown:
		return &Error{Op: op, Name: l.Name(), Err: ErrClosed}
	case ctx.Err() != nil:
		return l.ended(ctx, op)
	}
	return nil
}

// askOwn has this process, which holds the lock or is about to, answer the question
// itself.
func (l *Lock) askOwn(ctx context.Context, own Contender, question []byte) (Answer, error) {
	m, said := l.m, &asked{Node: own.Path, Text: question}
	g := m.grantAt(own.Path)
	if g.round == nil || len(question) == 0 || m.cfg.OnAsk == nil {
		a := m.answerOf(g, said)
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
		m.box.call(inside, Question{Lock: g.lock, Grant: g.grant, From: from, Text: question}, func(reply []byte, failed string) {
			a := m.report(m.grantAt(own.Path), own.Path)
			a.Reply, a.Err = reply, failed
			done <- a
		})
	})
	select {
	case a := <-done:
		return a.answer(own), nil
	case <-ctx.Done():
		return Answer{}, &Error{Op: "ask", Name: l.Name(), Err: fmt.Errorf("%w: this process's Config.OnAsk has not returned: %w", ErrNoAnswer, ctxerr.Of(ctx))}
	}
}

// failed returns the error of a question that has failed with err, which is that of
// the wait if the asker has given up.
func (q *inquiry) failed(ctx context.Context, op string, err error) error {
	if q.result.Settled() {
		_, err, _ = q.result.Future().Poll() // just in time, if the wait has ended as well
	}
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w%s: %w", ErrNoAnswer, q.whom(), ctxerr.Of(ctx))
	}
	return &Error{Op: op, Name: q.lock.Name(), Err: err}
}
