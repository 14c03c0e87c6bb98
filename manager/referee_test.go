// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/check"
)

// A referee tells a check.Referee of holds.
type referee struct {
	*check.Referee

	mu     sync.Mutex // protects leaves
	leaves map[Hold]func()
}

func newReferee(t *testing.T) *referee {
	return &referee{Referee: check.NewReferee(t.Errorf), leaves: make(map[Hold]func())}
}

// enter notes that h, of manager m, was granted. The function that it returns, or
// leave, notes that h is about to be released.
func (r *referee) enter(m *Manager, h Hold) (leave func()) {
	g, err := h.Grant()
	if err != nil {
		return func() {}
	}
	leave = r.Granted(claim(m, h, g))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaves[h] = leave
	return leave
}

// visit does some work inside l.
func (r *referee) visit(ctx context.Context, l *Lock) error {
	return l.Do(ctx, func(_ context.Context, h Hold) error {
		defer r.enter(l.m, h)()
		_, _, err := l.m.client.Session().Exists(l.path) // some work
		return err
	})
}

// claim returns the claim of the hold h of manager m, with the grant g.
func claim(m *Manager, h Hold, g Grant) check.Claim {
	return check.Claim{
		Owner: fmt.Sprintf("%s (%p)", m.cfg.Label, m), Read: reads(h.Lock()), Token: g.Token, Node: g.Path,
		Held: func() bool { return h.Err() == nil },
	}
}

// upgrade notes that h, of manager m, was upgraded. The function that it returns notes
// that h is about to be downgraded or released.
func (r *referee) upgrade(m *Manager, h Hold) (back func()) {
	g, err := h.Grant()
	if err != nil {
		return func() {}
	}
	c := claim(m, h, g)
	c.Read, c.Upgraded = false, true
	return r.Granted(c)
}

// enterStranger is enter for another client. token is 0 if it is not known.
func (r *referee) enterStranger(who string, write bool, token uint64) (leave func()) {
	return r.Granted(check.Claim{Owner: who, Read: !write, Token: token})
}

// leave notes that h is about to be released, or was lost.
func (r *referee) leave(h Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if leave := r.leaves[h]; leave != nil {
		leave()
		delete(r.leaves, h)
	}
}
