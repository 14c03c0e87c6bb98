// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// An actor is an entity in the process that owns it. It handles one message at a time,
// on its own goroutine, from its activation to its end.
type actor struct {
	entity string
	host   *Host
	inbox  chan delivery
	done   chan struct{} // closed when it handles no further message
	err    error         // why; to be read after done has closed

	// What follows belongs to the actor's goroutine.
	hold    manager.Hold
	token   uint64
	balance int64
	applied map[uint64]int64 // the balance after each message, by ID; a real one would forget old ones
}

// A delivery is a message on its way into an actor.
type delivery struct {
	Message
	reply chan<- Reply
}

const (
	idleTime       = 10 * time.Second
	acquireTimeout = 10 * time.Second // a process that has died keeps its locks for as long as its session
	storeTimeout   = 2 * time.Second
)

var (
	errIdle     = errors.New("no message for a while")
	errHandOver = errors.New("another process waits for the entity")
)

// send has the actor handle a message. Unless ctx has ended, an error says that the
// actor has gone, and that another owner may handle the message.
func (a *actor) send(ctx context.Context, m Message) (Reply, error) {
	reply := make(chan Reply)
	select {
	case a.inbox <- delivery{m, reply}:
	case <-a.done:
		return Reply{}, a.err
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	}
	select { // soon: the store answers, or the actor ends
	case r := <-reply:
		return r, nil
	case <-a.done:
		return Reply{}, a.err
	}
}

// live is the actor's life: it takes the lock, handles messages, and gives the lock up.
func (a *actor) live(ctx context.Context, acquire acquireFunc) {
	err := a.activate(ctx, acquire)
	if err == nil {
		err = a.serve(ctx)
	}
	a.err = fmt.Errorf("%w: %w", errNotOwner, err)
	// Now that it handles no message any more, and before this process can have another
	// actor for the entity: that one gets a new grant, with a higher token, so the store
	// refuses a write of this one that is still on its way. There is no need to wait for
	// the release, because what was done without the lock is refused, too.
	a.hold.Release()
	a.host.forget(a)
	close(a.done)
}

// activate takes the lock and loads the entity's state.
func (a *actor) activate(ctx context.Context, acquire acquireFunc) error {
	lock, err := a.host.lock(a.entity)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	if a.hold, err = acquire(lock, waiting); err != nil {
		return err
	}
	grant, err := a.hold.Grant()
	if err != nil {
		return err
	}
	a.token = grant.Token
	entries, err := a.askStore(ctx, nil)
	for _, e := range entries {
		a.balance += e.Amount
		a.applied[e.ID] = a.balance
	}
	return err
}

// serve handles messages until the actor has to end, and returns why.
func (a *actor) serve(ctx context.Context) error {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		select {
		case d := <-a.inbox:
			reply, err := a.handle(ctx, d.Message)
			if err != nil {
				return err
			}
			d.reply <- reply
			idle.Reset(idleTime)
		case <-a.hold.Lost():
			return a.hold.Err()
		case <-a.hold.Contended():
			return errHandOver
		case <-a.hold.Revoked():
			return errHandOver
		case <-idle.C:
			return errIdle
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handle handles a message. After an error, the actor's memory may differ from what is
// stored, so it has to end.
func (a *actor) handle(ctx context.Context, m Message) (Reply, error) {
	// The owner check. It comes after the message has arrived and reads the clock, so
	// it notices a loss before Lost does. Without it, a process that was stopped for a
	// while would answer from its memory, although the entity lives elsewhere.
	if err := a.hold.Err(); err != nil {
		return Reply{}, err
	}
	balance, again := a.applied[m.ID]
	switch {
	case again: // the sender had no answer
	case m.Amount == 0:
		balance = a.balance
	default:
		// The process may be stopped here, after the check, so the write carries the
		// token, and the store has the last word.
		if _, err := a.askStore(ctx, &Entry{m.ID, m.Amount, a.token}); err != nil {
			return Reply{}, err
		}
		a.balance += m.Amount
		balance = a.balance
		a.applied[m.ID] = balance
	}
	return Reply{Balance: balance, Token: a.token}, nil
}

// askStore loads the entity from the store, or adds an entry to it.
func (a *actor) askStore(ctx context.Context, entry *Entry) (entries []Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = post(ctx, a.host.store, storeRequest{a.entity, a.host.endpoint, a.token, entry}, &entries)
	return entries, err
}
