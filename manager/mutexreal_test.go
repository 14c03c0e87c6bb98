// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// On a real server, 32 goroutines of each of two processes exclude each other, and the
// pairs of all their grants rise. Both processes get their turns.
func TestRealMutex(t *testing.T) {
	zk := realzk.Shared(t)
	in := &inside{t: t}
	tokens := make(map[uint64]bool) // protected by the mutex
	var all sync.WaitGroup
	for p := range 2 {
		x := openMutex(t, openReal(t, zk.Addr(), fmt.Sprint(p), func(cfg *Config) { cfg.Tenure = 10 * time.Millisecond }), "jobs")
		for range 32 {
			all.Go(func() {
				for n, rounds := 0, 0; n < 100 || rounds < 3; n++ {
					h, err := x.Lock(t.Context())
					if err != nil {
						t.Errorf("lock: %v", err)
						return
					}
					g, _ := h.Grant()
					tokens[g.Token] = true
					rounds = len(tokens)
					in.visit(h)
					h.Release()
				}
			})
		}
	}
	all.Wait()
	t.Logf("%d turns in %d rounds", in.n, len(tokens))
	expect(t, in.n >= 6400, "%d turns, want 6400 at least", in.n)
}
