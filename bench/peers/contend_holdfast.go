// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// onHoldfast is a Manager of Holdfast. All its clients have Mutexes, which exclude the goroutines of
// a process as well. Holders always listen: a hold tells of its loss.
type onHoldfast struct {
	contender *contender
	m         *manager.Manager
	id        atomic.Uint64 // of the session that began last
}

func openHoldfast(p *contender) (system, error) {
	p.listening = true
	h := &onHoldfast{contender: p}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	var err error
	h.m, err = manager.Open(ctx, manager.Config{
		Servers: p.servers, SessionTimeout: p.timeout, Root: "/", Logger: slog.New(slog.DiscardHandler), Observer: h.hear,
	})
	return h, err
}

// hear tells of the session.
func (h *onHoldfast) hear(e manager.Event) {
	says := map[manager.EventKind]string{
		manager.EventSessionBegan: "began", manager.EventConnectionLost: "suspended",
		manager.EventConnectionResumed: "resumed", manager.EventSessionOver: "ended",
	}
	what, ok := says[e.Kind]
	if !ok || e.Session == 0 {
		return
	}
	if e.Kind == manager.EventSessionBegan {
		h.id.Store(uint64(e.Session)) //nolint:gosec // its bits
	}
	h.contender.say("session %#x %s", uint64(e.Session), what) //nolint:gosec // its bits
}

func (h *onHoldfast) locker(client, path string) (watchedLock, error) {
	m, err := h.m.Mutex(path[1:]) // below Root
	return &holdfastLock{system: h, client: client, mutex: m}, err
}

func (h *onHoldfast) session() uint64 { return h.id.Load() }

func (h *onHoldfast) close() { _ = h.m.Close() } // if that fails, its session ends by itself

// A holdfastLock is a client's lock.
type holdfastLock struct {
	system *onHoldfast
	client string
	mutex  *manager.Mutex
	hold   manager.Hold  // of the latest Lock
	left   chan struct{} // closed when that is given up
}

func (l *holdfastLock) Lock(ctx context.Context) (err error) {
	if l.hold, err = l.mutex.Lock(ctx); err != nil {
		return err
	}
	l.left = make(chan struct{})
	go func(hold manager.Hold, left chan struct{}) {
		select {
		case <-hold.Lost():
			l.system.contender.lose(l.client)
		case <-left:
		}
	}(l.hold, l.left)
	return nil
}

func (l *holdfastLock) valid() bool { return l.hold.Err() == nil }

func (l *holdfastLock) Unlock(ctx context.Context) error {
	close(l.left)
	return l.hold.Unlock(ctx)
}
