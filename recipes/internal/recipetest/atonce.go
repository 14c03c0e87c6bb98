// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A Call is what a goroutine does with a handle that others use as well.
type Call[H any] struct {
	Name  string
	Ends  bool // it ends the handle: of all such calls one is the first
	Loses bool // it takes away what the handle stands for
	Do    func(ctx context.Context, h H) error
	Errs  []error // which it may return, beside those of AtOnce
}

// AtOnce has goroutines make each two of the calls at the same time, on one handle. use
// makes the handle, passes it to strike, which returns the Name of the first call that has
// ended it, and checks what is left. A call fails with over after the end, and with lost
// after a loss. It is for bubbles.
func AtOnce[H any](c *Cluster, over, lost error, calls []Call[H], use func(rng *rand.Rand, strike func(h H) (first string))) {
	rng := rand.New(rand.NewPCG(1, 0))
	soon := func() time.Duration { return time.Duration(rng.IntN(4)) * 50 * time.Microsecond }
	var mu sync.Mutex // protects pace
	pace := rand.New(rand.NewPCG(1, 1))
	c.Srv.OnRequest(func(int64, zktest.Op, string) {
		mu.Lock()
		d := time.Duration(pace.IntN(3)) * 50 * time.Microsecond
		mu.Unlock()
		Rest(d)
	})
	for i, a := range calls {
		for _, b := range calls[:i+1] {
			for range 3 {
				use(rng, func(h H) (first string) {
					var wg sync.WaitGroup
					var mu sync.Mutex // protects first
					for _, call := range []Call[H]{a, b, a} {
						after, limit := soon(), time.Duration(1+rng.IntN(20))*50*time.Microsecond
						wg.Go(func() {
							Rest(after)
							ctx, cancel := context.WithTimeout(context.Background(), limit)
							defer cancel()
							err := call.Do(ctx, h)
							is := func(target error) bool { return errors.Is(err, target) }
							ended, gone := (a.Ends || b.Ends) && is(over), (a.Loses || b.Loses) && is(lost)
							if err != nil && !ended && !gone && !slices.ContainsFunc(call.Errs, is) {
								c.T.Errorf("%s: unexpected error: %v", call.Name, err)
							}
							if !call.Ends || ended {
								return
							}
							mu.Lock()
							defer mu.Unlock()
							if first != "" {
								c.T.Errorf("both %s and %s were the first", first, call.Name)
							}
							first = call.Name
						})
					}
					wg.Wait()
					if first == "" && (a.Ends || b.Ends) {
						c.T.Error("no call has ended it")
					}
					return first
				})
				if c.T.Failed() {
					c.T.Fatalf("%s and %s: see above", a.Name, b.Name)
				}
			}
		}
	}
}
