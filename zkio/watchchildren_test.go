// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A watcher of a childless node's children hears of its deletion and of nothing else,
// and no other read sets a watch for it.
func TestWatchChildren(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, s.CreateEphemeral("/d/n", []byte("1"), nil))
		w := new(recorder)
		s.client.WatchChildren("/d/n", w)
		_, _, err := s.Get("/d/n")
		must(t, err)
		if n := z.AllWatches(); n != (zktest.WatchCount{}) {
			t.Fatalf("a Get has left the watches %+v", n)
		}
		mustList(t, s, "/d/n")
		_, err = s.Set("/d/n", []byte("2"), -1)
		must(t, err)
		synctest.Wait()
		if len(w.lines()) != 0 {
			t.Fatalf("told %v of new data", w.lines())
		}
		cut(s) // the watch is set again
		must(t, settle(s, "/d"))
		must(t, s.Delete("/d/n", -1))
		synctest.Wait()
		if got := w.lines(); len(got) != 1 || got[0] != "/d/n deleted" {
			t.Errorf("told %v of the deletion", got)
		}
	})
}

// A watcher that wants the node's data as well keeps its own watch, and a watcher of
// children hears nothing of it.
func TestWatchChildrenBesideData(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, s.CreateEphemeral("/d/n", []byte("1"), nil))
		children, data := new(recorder), new(recorder)
		s.client.WatchChildren("/d/n", children)
		s.client.Watch("/d/n", data)
		_, _, err := s.Get("/d/n")
		must(t, err)
		mustList(t, s, "/d/n")
		_, err = s.Set("/d/n", []byte("2"), -1)
		must(t, err)
		synctest.Wait()
		if len(children.lines()) != 0 || len(data.lines()) != 1 {
			t.Errorf("told %v and %v of new data, want only the second", children.lines(), data.lines())
		}
	})
}

// UnwatchChildren leaves no watch at the server, costs nothing if it has none, and
// takes none from another watcher.
func TestUnwatchChildren(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, s.CreateEphemeral("/d/n", nil, nil))
		w, other := new(recorder), new(recorder)
		requests := func() uint64 { return z.Requests(zktest.OpRemoveWatches) }

		s.client.WatchChildren("/d/n", w)
		s.UnwatchChildren("/d/n", w)
		if requests() != 0 {
			t.Error("a request for a watch that was never set")
		}

		s.client.WatchChildren("/d/n", w)
		mustList(t, s, "/d/n")
		s.UnwatchChildren("/d/n", w)
		if n := z.AllWatches(); requests() != 1 || n != (zktest.WatchCount{}) {
			t.Errorf("%d requests, and the server has %+v", requests(), n)
		}

		s.client.WatchChildren("/d", w)
		s.client.WatchChildren("/d", other)
		mustList(t, s, "/d")
		s.UnwatchChildren("/d", w)
		must(t, s.Delete("/d/n", -1))
		synctest.Wait()
		if requests() != 1 || len(w.lines()) != 0 || len(other.lines()) != 1 {
			t.Errorf("%d requests; told %v and %v, want only the second", requests(), w.lines(), other.lines())
		}
	})
}

// A watcher that is registered, and has the server set a watch, while UnwatchChildren
// takes one from the server is told to look again: its watch may be gone.
func TestUnwatchChildrenBesideNewWatcher(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		w, late := new(recorder), new(recorder)
		s.client.WatchChildren("/d", w)
		mustList(t, s, "/d")
		block := z.Faults().BlockRequests(s.ID())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			s.UnwatchChildren("/d", w)
		}()
		synctest.Wait()
		s.client.WatchChildren("/d", late)
		listed := make(chan struct{})
		go func() {
			defer close(listed)
			_, _, _ = s.Children("/d")
		}()
		synctest.Wait()
		block.Remove()
		<-gone
		<-listed
		synctest.Wait()
		if len(late.lines()) != 1 {
			t.Errorf("the new watcher is told %v, want one change", late.lines())
		}
		mustList(t, s, "/d")
		must(t, s.CreateEphemeral("/d/n", nil, nil))
		synctest.Wait()
		if len(late.lines()) != 2 || len(w.lines()) != 0 {
			t.Errorf("told %v and %v, want the new watcher only", late.lines(), w.lines())
		}
	})
}
