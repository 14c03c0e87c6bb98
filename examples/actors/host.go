// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A Host activates entities in its process, and routes messages to their owners.
type Host struct {
	manager *manager.Manager
	store   string          // the store's address
	ctx     context.Context // ends when the process has to stop, and all actors with it

	mu     sync.Mutex // protects actors; not held during I/O
	actors map[string]*actor
}

// A process that does not answer for so long is taken for dead. If it is not, it learns
// that another process waits for the entity, and hands it over.
const timeout = time.Second

// Send has a message handled by the owner of its entity: this process, or another one,
// which it forwards the message to. If the entity has no owner, it becomes that.
func (h *Host) Send(m Message, reply *Reply) error {
	ctx, cancel := context.WithTimeout(h.ctx, 2*timeout)
	defer cancel()
	lock, err := h.manager.Exclusive("account/" + m.Entity) // its holder is the owner
	if err != nil {
		return err
	}
	lookUp := lock.CachedHolder
	for range 8 { // if the owner changes more often, the sender can try again
		if err := h.Deliver(m, reply); !errors.Is(err, errNotOwner) {
			return err
		}
		holder, err := lookUp(ctx)
		if err != nil {
			return err
		}
		if holder == nil || holder.Own { // of its own, if an actor of this process is just leaving
			h.activate(m.Entity, lock.TryLock)
			continue
		}
		switch err := call(timeout, holder.Endpoint, "Host.Deliver", m, reply); {
		case errors.Is(err, errNotOwner):
			lookUp = lock.Holder // what was remembered is old
		case errors.Is(err, errNoAnswer):
			// Queue behind it. This process gets the entity when the other one's session
			// has ended, or when it sees that another process waits. If it has handled
			// the message, the store knows.
			h.activate(m.Entity, lock.Lock)
		default:
			return err
		}
	}
	return errNotOwner
}

// Deliver has a message handled by this process, or returns errNotOwner.
func (h *Host) Deliver(m Message, reply *Reply) error {
	h.mu.Lock()
	a := h.actors[m.Entity]
	h.mu.Unlock()
	if a == nil {
		return errNotOwner
	}
	return a.send(m, reply)
}

// activate starts the entity's actor in this process, if there is none. It does not
// wait for the lock, which the actor takes by acquire: messages wait at the actor.
func (h *Host) activate(entity string, acquire func(context.Context) (manager.Hold, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.actors[entity] == nil {
		a := &actor{host: h, entity: entity, acquire: acquire, inbox: make(chan delivery), done: make(chan struct{}), applied: map[uint64]bool{}}
		h.actors[entity] = a
		go a.live() // ends with h.ctx; Manager.Shutdown waits until it has released the lock
	}
}
