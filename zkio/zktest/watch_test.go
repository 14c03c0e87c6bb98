// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestWatchCounts: some requests set a watch, and one event removes it.
func TestWatchCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		if err := srv.CreateAll("/a/b", nil); err != nil {
			t.Fatal(err)
		}
		c := bubbleClient(t, srv, 10*time.Second)
		for _, step := range []struct {
			name string
			path string
			do   func(path string) error
			want zktest.WatchCount
		}{
			{"a read without a watch", "/a", func(p string) error { _, _, err := c.Get(p); return err }, zktest.WatchCount{}},
			{"GetW", "/a", func(p string) error { _, _, _, err := c.GetW(p); return err }, zktest.WatchCount{Data: 1}},
			{"GetW again", "/a", func(p string) error { _, _, _, err := c.GetW(p); return err }, zktest.WatchCount{Data: 1}},
			{"ExistsW", "/a", func(p string) error { _, _, _, err := c.ExistsW(p); return err }, zktest.WatchCount{Data: 1}},
			{"ChildrenW", "/a", func(p string) error { _, _, _, err := c.ChildrenW(p); return err }, zktest.WatchCount{Data: 1, Child: 1}},
			{"a change", "/a", func(p string) error { return srv.Set(p, nil) }, zktest.WatchCount{Child: 1}},
			{"a new child", "/a", func(string) error { return srv.Create("/a/c", nil) }, zktest.WatchCount{}},
			{"GetW of nothing", "/x", func(p string) error { _, _, _, _ = c.GetW(p); return nil }, zktest.WatchCount{}},
			{"ChildrenW of nothing", "/x", func(p string) error { _, _, _, _ = c.ChildrenW(p); return nil }, zktest.WatchCount{}},
			{"ExistsW of nothing", "/x", func(p string) error { _, _, _, err := c.ExistsW(p); return err }, zktest.WatchCount{Data: 1}},
			{"its creation", "/x", func(p string) error { return srv.Create(p, nil) }, zktest.WatchCount{}},
			{"a watch on a child", "/a/b", func(p string) error { _, _, _, err := c.GetW(p); return err }, zktest.WatchCount{Data: 1}},
			{"its deletion", "/a/b", func(p string) error { return srv.Delete(p) }, zktest.WatchCount{}},
		} {
			if err := step.do(step.path); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if got := srv.Watches(step.path); got != step.want {
				t.Errorf("after %s: %+v, want %+v", step.name, got, step.want)
			}
		}
		if _, _, _, err := c.GetW("/a"); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := c.ChildrenW("/"); err != nil {
			t.Fatal(err)
		}
		if got := srv.AllWatches(); got != (zktest.WatchCount{Data: 1, Child: 1}) {
			t.Errorf("all watches: %+v", got)
		}
		c.Close()
		if got := srv.AllWatches(); got != (zktest.WatchCount{}) {
			t.Errorf("watches after the client's close: %+v", got)
		}
	})
}

// TestWatchesAfterReconnect: go-zookeeper sets its watches again on a new
// connection and learns what it has missed.
func TestWatchesAfterReconnect(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		type watched struct {
			path  string
			event <-chan zk.Event
			want  zk.EventType // while the client is away; 0: nothing
		}
		var all []watched
		data := func(path string, want zk.EventType) {
			_, _, ch, err := c.GetW(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, watched{path, ch, want})
		}
		exist := func(path string, want zk.EventType) {
			_, _, ch, err := c.ExistsW(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, watched{path, ch, want})
		}
		child := func(path string, want zk.EventType) {
			_, _, ch, err := c.ChildrenW(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, watched{path, ch, want})
		}
		for _, path := range []string{"/same", "/changed", "/deleted", "/parent", "/quiet"} {
			if err := srv.Create(path, nil); err != nil {
				t.Fatal(err)
			}
		}
		data("/same", 0)
		data("/changed", zk.EventNodeDataChanged)
		data("/deleted", zk.EventNodeDeleted)
		exist("/created", zk.EventNodeCreated)
		exist("/missing", 0)
		child("/parent", zk.EventNodeChildrenChanged)
		child("/quiet", 0)

		srv.Faults().RefuseFor(3 * time.Second)
		srv.Faults().CutAll()
		c.await(t, zk.StateDisconnected)
		if got := srv.AllWatches(); got != (zktest.WatchCount{}) {
			t.Errorf("watches without a connection: %+v", got)
		}
		if err := errorsOf(srv.Set("/changed", nil), srv.Delete("/deleted"), srv.Create("/created", nil), srv.Create("/parent/x", nil)); err != nil {
			t.Fatal(err)
		}
		c.await(t, zk.StateHasSession)
		synctest.Wait()
		for _, w := range all {
			select {
			case e := <-w.event:
				if e.Type != w.want {
					t.Errorf("%s: event %v, want %v", w.path, e.Type, w.want)
				}
			default:
				if w.want != 0 {
					t.Errorf("%s: no event, want %v", w.path, w.want)
				}
			}
		}
		// The others are set.
		if err := errorsOf(srv.Set("/same", nil), srv.Create("/missing", nil), srv.Create("/quiet/x", nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, w := range all {
			if w.want == 0 {
				select {
				case <-w.event:
				default:
					t.Errorf("%s: no event after the reconnect", w.path)
				}
			}
		}
	})
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestManyWatches: a client sets ten thousand watches again, in several large
// frames, before it reads any answer. Half of them fire at once.
func TestManyWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		const n = 10000
		for i := range n {
			if err := srv.Create(fmt.Sprintf("/a-node-with-a-long-name-%d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		events := make([]<-chan zk.Event, n)
		inParallel(t, n, func(i int) (err error) {
			_, _, events[i], err = c.GetW(fmt.Sprintf("/a-node-with-a-long-name-%d", i))
			return err
		})
		if got := srv.AllWatches(); got.Data != n {
			t.Fatalf("%d watches, want %d", got.Data, n)
		}
		srv.Faults().RefuseFor(time.Second)
		srv.Faults().CutAll()
		for i := 0; i < n; i += 2 {
			if err := srv.Delete(fmt.Sprintf("/a-node-with-a-long-name-%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		c.await(t, zk.StateHasSession)
		for i := 0; i < n; i += 2 {
			if e := <-events[i]; e.Type != zk.EventNodeDeleted {
				t.Fatalf("%d: event %v", i, e)
			}
		}
		synctest.Wait()
		if got := srv.AllWatches(); got.Data != n/2 {
			t.Errorf("%d watches after the reconnect, want %d", got.Data, n/2)
		}
		if got := srv.Requests(zktest.OpSetWatches); got < 2 {
			t.Errorf("%d setWatches requests, want several", got)
		}
	})
}

// TestHerd: of many clients that watch one node, each gets the event before an
// answer that shows the change.
func TestHerd(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		if err := srv.Create("/a", nil); err != nil {
			t.Fatal(err)
		}
		const n = 50
		var ready, done sync.WaitGroup
		ready.Add(n)
		for range n {
			d := rawSession(t, srv, 10*time.Second)
			done.Go(func() {
				d.do(`getData "/a" watch`)
				ready.Done()
				// Read until the change shows. The event must come first.
				for {
					told := false
					d.request(jute.OpGetData, jute.AppendBool(jute.AppendString(nil, "/a"), false))
					for {
						frame, end := d.readFrame()
						if end != "" {
							t.Errorf("%s", end)
							return
						}
						r := jute.NewReader(frame)
						xid := r.Int32()
						_, _ = r.Int64(), r.Int32()
						if xid == jute.XidWatchEvent {
							told = true
							continue
						}
						if changed := string(r.Buffer()) == "new"; changed != told {
							t.Errorf("the change shows: %v; told of it before: %v", changed, told)
							return
						}
						break
					}
					if told {
						return
					}
				}
			})
		}
		ready.Wait()
		if err := srv.Set("/a", []byte("new")); err != nil {
			t.Fatal(err)
		}
		done.Wait()
	})
}

// TestEventBeforeReply checks that order under load. Writers change a node that a
// reader watches and reads. If the reader sees a later version than the one at
// which it set its watch, it has got the event.
func TestEventBeforeReply(t *testing.T) {
	srv := newServer(t, zktest.Config{})
	if err := srv.Create("/a", nil); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := srv.Set("/a", nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	d := rawSession(t, srv, 10*time.Second)
	get := jute.AppendBool(jute.AppendString(nil, "/a"), true)
	watching, at := false, int32(-1) // the version at which the watch was set
	for range 3000 {
		d.request(jute.OpGetData, get)
		for {
			frame, end := d.readFrame()
			if end != "" {
				t.Fatal(end)
			}
			r := jute.NewReader(frame)
			xid := r.Int32()
			_, _ = r.Int64(), r.Int32()
			if xid == jute.XidWatchEvent {
				if !watching {
					t.Fatal("an event without a watch")
				}
				watching = false
				continue
			}
			_ = r.Buffer()
			for range 4 {
				_ = r.Int64()
			}
			version := r.Int32()
			if watching && version != at {
				t.Fatalf("version %d was read before the event of the watch set at %d", version, at)
			}
			watching, at = true, version
			break
		}
	}
	close(stop)
	writers.Wait()
}
