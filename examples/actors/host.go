// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A Host is a process's part of the actor system: it activates entities and routes
// messages.
type Host struct {
	manager  *manager.Manager
	endpoint string          // of this process
	store    string          // the store's URL
	ctx      context.Context // ends when the process has to stop

	mu     sync.Mutex // protects actors and closed; not held during I/O
	actors map[string]*actor
	closed bool
	living sync.WaitGroup
}

const (
	// A process that does not answer a message for so long is taken for dead. If it is
	// not, it learns that another process waits for the entity, and hands it over.
	forwardTimeout = time.Second
	// How long a message that cannot be handled yet is kept before the sender is told
	// to try again.
	patience = 2 * time.Second
	// How often a message is sent on before the sender is told to try again.
	maxRoutes = 8
)

// acquireFunc is (*manager.Lock).TryLock or (*manager.Lock).Lock.
type acquireFunc func(*manager.Lock, context.Context) (manager.Hold, error)

// Handler returns what other processes can ask for.
func (h *Host) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /send", answers(h.Send))
	mux.Handle("POST /deliver", answers(h.Deliver))
	return mux
}

// Send has a message handled by the owner of its entity: this process, or another one,
// which it forwards the message to. If the entity has no owner, it becomes that.
func (h *Host) Send(ctx context.Context, m Message) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lock, err := h.lock(m.Entity)
	if err != nil {
		return Reply{}, err
	}
	lookUp, reroutes := (*manager.Lock).CachedHolder, 0
	for range maxRoutes {
		reply, err := h.Deliver(ctx, m)
		if !errors.Is(err, errNotOwner) {
			reply.Reroutes = reroutes
			return reply, err
		}
		holder, err := lookUp(lock, ctx)
		if err != nil {
			return Reply{}, err
		}
		if holder == nil || holder.Own { // of its own, if an actor of this process is just leaving
			h.activate(m.Entity, (*manager.Lock).TryLock)
			continue
		}
		reply, err = h.forward(ctx, holder.Endpoint, m)
		if err == nil {
			reply.Reroutes = reroutes
			return reply, nil
		}
		reroutes++
		switch {
		case errors.Is(err, errNotOwner):
			lookUp = (*manager.Lock).Holder // what was remembered is old
		case errors.Is(err, errNoAnswer):
			// Queue behind it. This process gets the entity when the other one's session
			// has ended, or when it sees that another process waits. If it has handled
			// the message, the store knows.
			h.activate(m.Entity, (*manager.Lock).Lock)
		default:
			return Reply{}, err
		}
	}
	return Reply{}, fmt.Errorf("sent on %d times: the owner of %s changes too often", maxRoutes, m.Entity)
}

// forward sends a message to the process at an endpoint.
func (h *Host) forward(ctx context.Context, endpoint string, m Message) (reply Reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	err = post(ctx, "http://"+endpoint+"/deliver", m, &reply)
	return reply, err
}

// Deliver has a message handled by this process, if it owns the entity. Otherwise the
// error is errNotOwner.
func (h *Host) Deliver(ctx context.Context, m Message) (Reply, error) {
	h.mu.Lock()
	a := h.actors[m.Entity]
	h.mu.Unlock()
	if a == nil {
		return Reply{}, errNotOwner
	}
	return a.send(ctx, m)
}

// activate starts the entity's actor in this process, if there is none. It does not
// wait for the lock: messages wait at the actor.
func (h *Host) activate(entity string, acquire acquireFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.actors[entity] != nil || h.closed {
		return
	}
	a := &actor{entity: entity, host: h, inbox: make(chan delivery), done: make(chan struct{}), applied: map[uint64]int64{}}
	h.actors[entity] = a
	h.living.Go(func() { a.live(h.ctx, acquire) })
}

// forget removes an actor.
func (h *Host) forget(a *actor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.actors, a.entity)
}

// Wait waits until all actors have ended, after ctx has.
func (h *Host) Wait() {
	<-h.ctx.Done()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.living.Wait()
}

// lock returns the lock whose holder is the entity's owner.
func (h *Host) lock(entity string) (*manager.Lock, error) {
	return h.manager.Exclusive("account/" + entity)
}
