// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// An actor is an entity in the process that owns it. One goroutine handles its messages.
type actor struct {
	host    *Host
	entity  string
	acquire func(context.Context) (manager.Hold, error) // TryLock or Lock of the entity's lock
	inbox   chan delivery
	done    chan struct{} // closed when it handles no further message

	// What follows belongs to the actor's goroutine.
	hold    manager.Hold
	token   uint64
	balance int64
	applied map[uint64]bool // the messages in the balance, by ID; a real one would forget old ones
}

// A delivery is a message on its way into an actor.
type delivery struct {
	Message
	reply chan<- Reply
}

// send has the actor handle a message. The error is errNotOwner if the actor has gone:
// another owner may handle the message then.
func (a *actor) send(m Message, reply *Reply) error {
	replies := make(chan Reply)
	select {
	case a.inbox <- delivery{m, replies}:
	case <-a.done:
		return errNotOwner
	case <-time.After(2 * timeout):
		return errors.New("the entity has no owner yet")
	}
	select { // soon: the store answers, or the actor ends
	case *reply = <-replies:
		return nil
	case <-a.done:
		return errNotOwner
	}
}

// live is the actor's life.
func (a *actor) live() {
	slog.Info("an actor ends", "entity", a.entity, "error", a.run())
	// First the release, then room for the next actor: so that one gets a new grant, with
	// a higher token, and the store refuses a write of this one that is still on its way.
	// The release need not be waited for: what was done without the lock is refused, too.
	a.hold.Release()
	a.host.mu.Lock()
	delete(a.host.actors, a.entity)
	a.host.mu.Unlock()
	close(a.done)
}

// run takes the lock, loads the entity, and handles messages until the actor has to end.
func (a *actor) run() (err error) {
	if a.hold, err = a.acquire(a.host.ctx); err != nil {
		return err
	}
	grant, err := a.hold.Grant()
	if err != nil {
		return err
	}
	a.token = grant.Token
	var stored []Entry
	if err := call(timeout, a.host.store, "Store.Ask", Entry{Message{Entity: a.entity}, a.token}, &stored); err != nil {
		return err
	}
	for _, e := range stored {
		a.balance += e.Amount
		a.applied[e.ID] = true
	}
	for {
		select {
		case d := <-a.inbox:
			reply, err := a.handle(d.Message)
			if err != nil {
				return err
			}
			d.reply <- reply
		case <-a.hold.Lost():
			return a.hold.Err()
		case <-a.hold.Contended(): // another process waits for the lock
			return nil
		case <-a.hold.Revoked(): // another process asks for the lock
			return nil
		case <-time.After(time.Minute): // no message comes
			return nil
		case <-a.host.ctx.Done():
			return nil
		}
	}
}

// handle handles a message. After an error, the actor's memory may differ from what is
// stored, so it has to end.
func (a *actor) handle(m Message) (Reply, error) {
	// The owner check. It comes after the message has arrived and reads the clock, so
	// it notices a loss before Lost does. Without it, a process that was stopped for a
	// while would answer from its memory, although the entity lives elsewhere.
	if err := a.hold.Err(); err != nil {
		return Reply{}, err
	}
	if m.Amount != 0 && !a.applied[m.ID] { // else a question, or the sender had no answer
		// The process may be stopped here, after the check, so the write carries the
		// token, and the store has the last word.
		if err := call(timeout, a.host.store, "Store.Ask", Entry{m, a.token}, nil); err != nil {
			return Reply{}, err
		}
		a.balance += m.Amount
		a.applied[m.ID] = true
	}
	return Reply{a.balance, a.token}, nil
}
