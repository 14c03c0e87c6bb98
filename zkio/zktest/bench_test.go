// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// inParallel runs fn for 0 … n-1 on several goroutines: a single caller of
// go-zookeeper has only one request in flight.
func inParallel(t testing.TB, n int, fn func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	const workers = 32
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := fn(i); err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkCreate creates ephemeral sequential nodes through go-zookeeper, in one
// directory or in one directory each.
func BenchmarkCreate(b *testing.B) {
	for _, dirs := range []string{"one", "many"} {
		b.Run("dirs="+dirs, func(b *testing.B) {
			srv := newServer(b, zktest.Config{})
			c := dialClient(b, 10*time.Second, srv.Dial)
			if err := srv.Create("/d", nil); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			inParallel(b, b.N, func(i int) error {
				path := "/d/n-"
				if dirs == "many" {
					path = fmt.Sprintf("/d/%d", i)
					if _, err := c.CreateContainer(path, nil, zk.FlagContainer, open); err != nil {
						return err
					}
					path += "/n-"
				}
				_, err := c.Create(path, nil, zk.FlagEphemeral|zk.FlagSequence, open)
				return err
			})
		})
	}
}

// BenchmarkGet measures the cost of a request in client, pipe and server.
func BenchmarkGet(b *testing.B) {
	srv := newServer(b, zktest.Config{})
	c := dialClient(b, 10*time.Second, srv.Dial)
	b.ReportAllocs()
	b.ResetTimer()
	inParallel(b, b.N, func(int) error {
		_, _, err := c.Get("/")
		return err
	})
}
