// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A numbered watcher notes the connections of what it is told, once it is let.
type numbered struct {
	free chan struct{}
	recorder
}

func (w *numbered) PathChanged(path string, ev Event) {
	<-w.free
	w.add("%s %v on %d", path, ev, ev.Connection)
}

// Each event says on which connection the server told it, also if that has ended by the time the
// watcher is told, and so does what a request has found out.
func TestEventsSayTheirConnection(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		w := &numbered{free: make(chan struct{})}
		for _, path := range []string{"/first", "/missed", "/second", "/found"} {
			must(t, s.Create(path, nil, nil))
			c.Watch(path, w)
			_, _, err := s.Get(path)
			must(t, err)
		}
		must(t, z.Delete("/first"))
		synctest.Wait() // the watcher is being told
		outage := z.Faults().Refuse()
		z.Faults().CutAll()
		must(t, z.Delete("/missed"))
		outage.Remove()
		eventually(t, "a second connection", func() bool { return s.Connection() == 2 })
		synctest.Wait()
		must(t, z.Delete("/second"))
		synctest.Wait()
		s.NotifyDeleted("/found")
		synctest.Wait()
		close(w.free)
		synctest.Wait()
		want := []string{"/first deleted on 1", "/missed deleted on 2", "/second deleted on 2", "/found deleted on 2"}
		if got := w.lines(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}
