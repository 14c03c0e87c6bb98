// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// WatchLater sets the watches of many nodes together, whatever becomes of the
// connection meanwhile.
func TestWatchLater(t *testing.T) {
	const nodes, delay = 2000, 100 * time.Millisecond
	path := func(i int) string { return fmt.Sprintf("/n%04d", i) }
	for _, test := range []struct {
		what     string
		after    func(z *zktest.Server, c *Client, w Watcher) // WatchLater
		requests uint64                                       // that set watches; 0: any number
		watched  int                                          // nodes in the end
		told     []string
	}{
		{"nothing happens", nil, 1, nodes, nil},
		{"a node goes before", func(z *zktest.Server, c *Client, w Watcher) {
			z.Delete(path(7))
		}, 1, nodes - 1, []string{path(7) + " deleted"}},
		{"a node goes afterwards", func(z *zktest.Server, c *Client, w Watcher) {
			time.Sleep(2 * delay)
			z.Delete(path(7))
		}, 1, nodes - 1, []string{path(7) + " deleted"}},
		{"a node is of no interest any more", func(z *zktest.Server, c *Client, w Watcher) {
			c.Unwatch(path(7), w)
			z.Delete(path(7))
		}, 1, nodes - 1, nil},
		{"none is", func(z *zktest.Server, c *Client, w Watcher) {
			for i := range nodes {
				c.Unwatch(path(i), w)
			}
		}, 0, 0, nil},
		{"the connection breaks before", func(z *zktest.Server, c *Client, w Watcher) {
			z.Faults().CutAll()
		}, 0, nodes, nil},
		{"the connection breaks as they are set", func(z *zktest.Server, c *Client, w Watcher) {
			z.Faults().BlackholeAll()
			time.Sleep(2 * delay)
			z.Delete(path(7))
			z.Faults().Clear()
			z.Faults().CutAll()
		}, 0, nodes - 1, []string{path(7) + " deleted"}},
		{"the session ends", func(z *zktest.Server, c *Client, w Watcher) {
			z.ExpireSession(c.Session().ID())
		}, 0, 0, nil},
	} {
		connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
			var r recorder
			for i := range nodes {
				must(t, z.CreateAll(path(i), nil))
			}
			must(t, s.Sync("/"))
			_, _, err := s.Exists(path(nodes - 1)) // the session has seen them all
			must(t, err)
			before := c.Stats().Sent["setWatches"]
			for i := range nodes {
				c.Watch(path(i), &r)
				s.WatchLater(path(i), delay)
			}
			if test.after != nil {
				test.after(z, c, &r)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := z.AllWatches().Data; got != test.watched {
				t.Errorf("%s: %d nodes are watched, want %d", test.what, got, test.watched)
			}
			if got := r.lines(); !slices.Equal(got, test.told) {
				t.Errorf("%s: told %q, want %q", test.what, got, test.told)
			}
			if got := c.Stats().Sent["setWatches"] - before; test.requests != 0 && got != test.requests {
				t.Errorf("%s: %d requests, want %d", test.what, got, test.requests)
			}
		})
	}
}

// A watch that the server was asked to forget, while another watcher of the path stays, is not
// taken for one that it keeps: WatchLater sets it again.
func TestWatchLaterAfterUnwatch(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, s.CreateEphemeral("/d/n", nil, nil))
		children, data, later := new(recorder), new(recorder), new(recorder)
		s.client.WatchChildren("/d/n", children)
		s.client.Watch("/d/n", data)
		_, _, err := s.Get("/d/n")
		must(t, err)
		s.Unwatch("/d/n", data)
		if n := z.AllWatches(); n != (zktest.WatchCount{}) {
			t.Fatalf("the server has %+v", n)
		}
		s.client.Watch("/d/n", later)
		s.WatchLater("/d/n", time.Millisecond)
		time.Sleep(time.Second)
		must(t, z.Delete("/d/n"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := later.lines(); len(got) != 1 {
			t.Errorf("told %q of the deletion", got)
		}
	})
}
