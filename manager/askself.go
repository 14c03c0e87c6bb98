// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
)

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

// revokeOwn tells the holders of this process, without a request. It reports false if LockAll
// is about to have the lock: then the mailbox tells it, as other processes'.
func (q *inquiry) revokeOwn(c *Contender) (done bool) {
	own := q.lock.m.holdingAt(c.Path)
	switch {
	case own.waits():
		return false
	case !own.holds():
		q.settle(Answer{}) // it has just been given up
		return true
	}
	from := *c
	from.Path, from.Token = "", 0
	t := own.round.io()
	r := t.incumbent().revoke(Revocation{From: from, Reason: string(q.text), Until: q.until})
	context.AfterFunc(q.ctx, func() { t.incumbent().revokerLeft(r) })
	report := own.report()
	a := report.answer(*c)
	q.told.Store(&a)
	return true
}
