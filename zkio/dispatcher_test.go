// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A blocking watcher does not return before release is closed.
type blockingWatcher struct{ release chan struct{} }

func (w blockingWatcher) PathChanged(string, Event) { <-w.release }

// TestOrderedConnection: after a reconnect, the connection is not said to be
// ordered before the watchers have been told what came on the one before.
func TestOrderedConnection(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		must(t, s.Create("/d", nil, nil))
		slow := blockingWatcher{make(chan struct{})}
		c.Watch("/d", slow)
		_, _, err := s.Get("/d")
		must(t, err)
		synctest.Wait()
		if n := s.OrderedConnection(); n != 1 {
			t.Errorf("connection %d", n)
		}
		must(t, z.Delete("/d"))
		synctest.Wait() // the watcher is being told
		z.Faults().CutAll()
		eventually(t, "a second connection", func() bool { return s.Connection() == 2 })
		if n, ordered := s.Connection(), s.OrderedConnection(); n != 2 || ordered != 0 {
			t.Errorf("connection %d, ordered %d, while news of the first is being told", n, ordered)
		}
		close(slow.release)
		synctest.Wait()
		if n := s.OrderedConnection(); n != 2 {
			t.Errorf("connection %d in the end", n)
		}
	})
}
