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

// Unwatch leaves no watch at the server, of whichever kind, costs nothing if it has none,
// and takes none from another watcher.
func TestUnwatchAtServer(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		w, children := new(recorder), new(recorder)
		requests := func() uint64 { return z.Requests(zktest.OpRemoveWatches) }
		s.client.Watch("/d", w)
		s.Unwatch("/d", w)
		if requests() != 0 {
			t.Error("a request for a watch that was never set")
		}
		for i, read := range []func() error{
			func() error { _, _, err := s.Get("/d"); return err },
			func() error { _, _, err := s.Exists("/missing"); return err },
			func() error { _, _, err := s.Children("/d"); return err },
		} {
			path := []string{"/d", "/missing", "/d"}[i]
			s.client.Watch(path, w)
			must(t, read())
			if n := z.AllWatches(); n == (zktest.WatchCount{}) {
				t.Errorf("read %d leaves no watch", i)
			}
			s.Unwatch(path, w)
			if n := z.AllWatches(); requests() != uint64(i)+1 || n != (zktest.WatchCount{}) {
				t.Errorf("read %d: %d requests in all, and the server has %+v", i, requests(), n)
			}
		}

		s.client.Watch("/d", w)
		s.client.WatchChildren("/d", children)
		_, _, err := s.Get("/d")
		must(t, err)
		mustList(t, s, "/d")
		s.Unwatch("/d", w) // takes the first of two watches
		must(t, s.CreateEphemeral("/d/n", nil, nil))
		synctest.Wait()
		if n := z.AllWatches(); requests() != 4 || n != (zktest.WatchCount{}) || len(children.lines()) != 1 || len(w.lines()) != 0 {
			t.Errorf("%d requests in all, the server has %+v; told %v and %v, want only the first", requests(), n, children.lines(), w.lines())
		}
	})
}

// A watcher that goes while a read of its path is under way leaves no watch at the server, and
// takes none from a watcher that comes meanwhile.
func TestF222_UnwatchBesideARead(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		requests := func() uint64 { return z.Requests(zktest.OpRemoveWatches) }
		for i, tt := range []struct {
			path string
			read func() error
			next bool // another watcher comes
			want zktest.WatchCount
		}{
			{"/d", func() error { _, _, err := s.Get("/d"); return err }, false, zktest.WatchCount{}},
			{"/d", func() error { _, _, err := s.Children("/d"); return err }, false, zktest.WatchCount{}},
			{"/missing", func() error { _, _, err := s.Exists("/missing"); return err }, false, zktest.WatchCount{}},
			{"/missing", func() error { _, _, err := s.Get("/missing"); return err }, false, zktest.WatchCount{}},
			{"/d", func() error { _, _, err := s.Get("/d"); return err }, true, zktest.WatchCount{Data: 1}},
		} {
			w, before := new(recorder), requests()
			s.client.Watch(tt.path, w)
			block := z.Faults().BlockRequests(s.ID())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = tt.read()
			}()
			synctest.Wait()
			s.client.Unwatch(tt.path, w)
			if tt.next {
				s.client.Watch(tt.path, new(recorder))
			}
			block.Remove()
			<-done
			want := before + 1
			if tt.next || i == 3 { // a Get of a missing node sets no watch
				want = before
			}
			if n := z.AllWatches(); n != tt.want || requests() != want {
				t.Errorf("case %d: the server has %+v, want %+v; %d requests, want %d", i, n, tt.want, requests(), want)
			}
		}
	})
}

// A new session has caught up when an answer has told of as much as the answers of the
// sessions before, or a sync was answered.
func TestCaughtUp(t *testing.T) {
	inDir(t, func(t *testing.T, _ *zktest.Server, s *Session) {
		if !s.CaughtUp() {
			t.Error("the first session has not caught up")
		}
		must(t, s.Create("/d/n", nil, nil))
		next := newSession(s.client, s.Epoch()+1)
		defer next.cancel()
		if next.CaughtUp() {
			t.Error("a session without an answer has caught up")
		}
		next.zxid.Store(s.zxid.Load() - 1)
		third := newSession(s.client, s.Epoch()+2)
		defer third.cancel()
		if next.CaughtUp() || third.floor != s.zxid.Load() {
			t.Error("an answer from before is enough")
		}
		next.zxid.Store(s.zxid.Load())
		if !next.CaughtUp() {
			t.Error("an answer of the same time is not enough")
		}
		third.synced.Store(true)
		if !third.CaughtUp() {
			t.Error("a sync is not enough")
		}
		s.floor = 1 << 62
		must(t, s.Sync("/d"))
		if !s.CaughtUp() {
			t.Error("an answered sync is not enough")
		}
	})
}
