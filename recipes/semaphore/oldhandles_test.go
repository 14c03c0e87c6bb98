// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

// What Permits have given a program, which keeps it, keeps no later Permits alive, in
// whichever way they end.
func TestOldPermitsKeepNoLaterOnes(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(u user) *Permits{
		"released": func(u user) *Permits {
			p := u.lock(2)
			unlock(u.c.T, p)
			return p
		},
		"got by TryLock, and released": func(u user) *Permits {
			p, err := u.TryLock(u.c.T.Context(), 1)
			recipetest.WantErr(u.c.T, "trylock", err, nil)
			unlock(u.c.T, p)
			return p
		},
		"waited for, and released": func(u user) *Permits {
			before := u.lock(2)
			p := u.Acquire(u.c.T.Context(), 1)
			u.c.Until("it is in line", func() bool { return u.line() > 0 })
			unlock(u.c.T, before)
			u.granted(p)
			unlock(u.c.T, p)
			return p
		},
		"withdrawn": func(u user) *Permits {
			before := u.lock(2)
			p := u.Acquire(u.c.T.Context(), 1)
			u.c.Until("it is in line", func() bool { return u.line() > 0 })
			recipetest.WantErr(u.c.T, "withdraw", p.Unlock(u.c.T.Context()), manager.ErrNotGranted)
			unlock(u.c.T, before)
			return p
		},
		"lost": func(u user) *Permits {
			p := u.lock(1)
			u.c.Remove(p.nodes[0].Path())
			<-p.Lost()
			recipetest.WantErr(u.c.T, "unlock", p.Unlock(u.c.T.Context()), ErrLost)
			return p
		},
	}, func(t *testing.T, c *recipetest.Cluster, later func(u user) *Permits) {
		u := open(c, "a", 2)
		first := u.lock(1)
		ctx, done := first.Context(context.Background())
		old := []any{first, first.Granted(), first.Lost(), ctx, done, first.Release()}
		recipetest.WantCollected(c, old, func() *Permits { return later(u) })
		runtime.KeepAlive(u.Semaphore)
	})
}
