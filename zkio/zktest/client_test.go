// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The client cases are modelled on go-zookeeper's own integration tests: basic
// operations, watches, and sessions whose connections fail, by its public API and
// over TCP. They run on an embedded server each, and one after the other on a real
// one.

// A system is a server under test. It allows nodes with a time to live, and its
// container check interval is checkInterval.
type system struct {
	addr    string
	restart func() // interrupts the service
}

// A clientCase is one of them. It finds an empty node at root.
type clientCase struct {
	name string
	run  func(t *testing.T, sys system)
}

const root = "/client"

// TestClient runs the client cases on embedded servers.
func TestClient(t *testing.T) {
	for _, tc := range clientCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := newServer(t, zktest.Config{TickTime: 500 * time.Millisecond, ContainerCheckInterval: checkInterval, ExtendedTypes: true})
			addr, err := srv.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			runClientCase(t, tc, system{addr, srv.Restart})
		})
	}
}

// TestClientReal runs them on a real server.
func TestClientReal(t *testing.T) {
	server := realzk.Start(t, realzk.JavaOption("-Dzookeeper.extendedTypesEnabled=true"),
		realzk.JavaOption(fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", checkInterval.Milliseconds())))
	for _, tc := range clientCases {
		t.Run(tc.name, func(t *testing.T) { runClientCase(t, tc, system{server.Addr(), server.Restart}) })
	}
}

func runClientCase(t *testing.T, tc clientCase, sys system) {
	newRecord(t, to(sys.addr)).play(`
		setup! connect
		setup! auth digest "joe:secret"
		setup! removeAll "/client"
		setup! create "/client"
		setup! close
	`)
	tc.run(t, sys)
}

// A cable connects to a server, and the test can interrupt it.
type cable struct {
	addr string

	mu        sync.Mutex // protects the rest
	wires     []*wire
	unplugged bool
}

func (c *cable) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	c.mu.Lock()
	unplugged := c.unplugged
	c.mu.Unlock()
	if unplugged {
		return nil, errors.New("the cable is unplugged")
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, c.addr)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: nc}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires = append(c.wires, w)
	return w, nil
}

// cut closes the current connections.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wires {
		_ = w.Close()
	}
}

// plug sets whether connections can be made.
func (c *cable) plug(in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = !in
}

// freeze stops the input of the current connections.
func (c *cable) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wires {
		w.mu.Lock()
		w.frozen = true
		w.mu.Unlock()
	}
}

// password returns the session's password, from the server's first answer.
func (c *cable) password() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.wires[len(c.wires)-1]
	w.mu.Lock()
	defer w.mu.Unlock()
	r := jute.NewReader(w.first)
	_, _, _, _ = r.Int32(), r.Int32(), r.Int32(), r.Int64() // length, version, timeout, session
	return bytes.Clone(r.Buffer())
}

// A wire is one connection of a cable.
type wire struct {
	net.Conn

	mu     sync.Mutex // protects the rest
	first  []byte     // what arrived first: the answer to the handshake
	frozen bool
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		w.mu.Lock()
		frozen := w.frozen
		if len(w.first) < 64 {
			w.first = append(w.first, p[:n]...)
		}
		w.mu.Unlock()
		if err != nil || !frozen {
			return n, err
		}
	}
}

// connected returns a client of sys, and its cable.
func connected(t *testing.T, sys system) (*client, *cable) {
	t.Helper()
	c := &cable{addr: sys.addr}
	return dialClient(t, 4*time.Second, c.dial), c
}

// made fails the test unless a create succeeded and made the node at path.
func made(t *testing.T, path, got string, err error) {
	t.Helper()
	if err != nil || got != path {
		t.Fatalf("create %s: %q, %v", path, got, err)
	}
}

// told waits for a watch's event.
func told(t *testing.T, watch <-chan zk.Event) zk.Event {
	t.Helper()
	select {
	case e := <-watch:
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("a watch did not fire")
		return zk.Event{}
	}
}

// wantTold fails the test unless the watch fires with the given event.
func wantTold(t *testing.T, watch <-chan zk.Event, kind zk.EventType, path string) {
	t.Helper()
	if e := told(t, watch); e.Type != kind || e.Path != path || e.Err != nil {
		t.Fatalf("a watch was told %+v, want %v of %s", e, kind, path)
	}
}

// untold fails the test if a watch has fired. Events come before answers, so the
// client must have got an answer since.
func untold(t *testing.T, watch <-chan zk.Event) {
	t.Helper()
	select {
	case e := <-watch:
		t.Fatalf("a watch was told %+v too early", e)
	default:
	}
}

// wantErr fails the test unless err is target or, if that is a string, contains it.
func wantErr(t *testing.T, what string, err error, target any) {
	t.Helper()
	switch target := target.(type) {
	case nil:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case error:
		if !errors.Is(err, target) {
			t.Errorf("%s: error %v, want %v", what, err, target)
		}
	case string:
		if err == nil || !strings.Contains(err.Error(), target) {
			t.Errorf("%s: error %v, want one that says %q", what, err, target)
		}
	}
}

var clientCases = []clientCase{
	{"one node", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		other, _ := connected(t, sys)
		path := root + "/a"
		got, err := c.Create(path, []byte("one"), 0, open)
		made(t, path, got, err)
		data, stat, err := other.Get(path)
		if string(data) != "one" || err != nil || stat.Version != 0 || stat.DataLength != 3 || stat.Czxid != stat.Mzxid {
			t.Errorf("Get: %q, %+v, %v", data, stat, err)
		}
		_, err = other.Set(path, []byte("two"), 7)
		wantErr(t, "set an old version", err, zk.ErrBadVersion)
		if stat, err = other.Set(path, []byte("three"), 0); err != nil || stat.Version != 1 || stat.Mzxid <= stat.Czxid {
			t.Errorf("Set: %+v, %v", stat, err)
		}
		if ok, stat, err := c.Exists(path); !ok || err != nil || stat.Version != 1 || stat.DataLength != 5 {
			t.Errorf("Exists: %v, %+v, %v", ok, stat, err)
		}
		_, err = c.Create(path, nil, 0, open)
		wantErr(t, "create it again", err, zk.ErrNodeExists)
		wantErr(t, "delete an old version", c.Delete(path, 0), zk.ErrBadVersion)
		wantErr(t, "delete", c.Delete(path, 1), nil)
		wantErr(t, "delete it again", c.Delete(path, -1), zk.ErrNoNode)
		if ok, _, err := other.Exists(path); ok || err != nil {
			t.Errorf("Exists: %v, %v", ok, err)
		}
		if synced, err := c.Sync(root); synced != root || err != nil {
			t.Errorf("Sync: %q, %v", synced, err)
		}
	}},
	{"nodes that go by themselves", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		for _, path := range []string{root + "/container", root + "/fresh"} {
			got, err := c.CreateContainer(path, nil, zk.FlagContainer, open)
			made(t, path, got, err)
		}
		got, err := c.Create(root+"/container/child", nil, zk.FlagEphemeral, open)
		made(t, root+"/container/child", got, err)
		_, _, gone, err := c.GetW(root + "/container")
		wantErr(t, "watch the container", err, nil)
		got, err = c.CreateTTL(root+"/mortal", nil, zk.FlagTTL, open, 2*time.Second)
		made(t, root+"/mortal", got, err)
		_, _, dead, err := c.GetW(root + "/mortal")
		wantErr(t, "watch the node with a time to live", err, nil)
		untold(t, gone) // it has a child
		wantErr(t, "delete the child", c.Delete(root+"/container/child", -1), nil)
		wantTold(t, gone, zk.EventNodeDeleted, root+"/container")
		wantTold(t, dead, zk.EventNodeDeleted, root+"/mortal")
		if names, _, err := c.Children(root); !slices.Equal(names, []string{"fresh"}) || err != nil {
			t.Errorf("left are %v, %v", names, err)
		}
	}},
	{"multi", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		path := root + "/a"
		res, err := c.Multi(
			&zk.CreateRequest{Path: path, Data: []byte("one"), Acl: open},
			&zk.SetDataRequest{Path: path, Data: []byte("two"), Version: 0},
			&zk.CreateRequest{Path: path + "/s-", Acl: open, Flags: zk.FlagSequence},
			&zk.CheckVersionRequest{Path: path, Version: 1},
			&zk.DeleteRequest{Path: path + "/s-0000000000", Version: 0},
		)
		if err != nil || len(res) != 5 || res[0].String != path || res[1].Stat == nil || res[1].Stat.Version != 1 || res[2].String != path+"/s-0000000000" {
			t.Fatalf("Multi: %+v, %v", res, err)
		}
		if data, stat, err := c.Get(path); string(data) != "two" || err != nil || stat.NumChildren != 0 || stat.Cversion != 2 || stat.Pzxid != stat.Czxid {
			t.Errorf("Get: %q, %+v, %v", data, stat, err)
		}
		res, err = c.Multi(
			&zk.CreateRequest{Path: root + "/b", Acl: open},
			&zk.CreateRequest{Path: path, Acl: open},
			&zk.DeleteRequest{Path: path, Version: -1},
		)
		if err != zk.ErrNodeExists || len(res) != 3 || res[0].Error != nil || res[1].Error != zk.ErrNodeExists || res[2].Error == nil {
			t.Errorf("a failing Multi: %+v, %v", res, err)
		}
		_, _, err = c.Get(root + "/b")
		wantErr(t, "what a failed Multi would have made", err, zk.ErrNoNode)
	}},
	{"credentials", func(t *testing.T, sys system) {
		c, wires := connected(t, sys)
		path := root + "/mine"
		acl := zk.DigestACL(zk.PermAll, "joe", "secret")
		got, err := c.Create(path, []byte("secret"), 0, acl)
		made(t, path, got, err)
		_, _, err = c.Get(path)
		wantErr(t, "read before they are given", err, zk.ErrNoAuth)
		wantErr(t, "AddAuth", c.AddAuth("digest", []byte("joe:secret")), nil)
		read := func(when string) {
			t.Helper()
			if data, _, err := c.Get(path); string(data) != "secret" || err != nil {
				t.Errorf("read %s: %q, %v", when, data, err)
			}
		}
		read("with them")
		if got, _, err := c.GetACL(path); !reflect.DeepEqual(got, acl) || err != nil {
			t.Errorf("GetACL: %v, %v", got, err)
		}
		wires.cut()
		c.await(t, zk.StateDisconnected)
		c.await(t, zk.StateHasSession)
		read("on a new connection")
		sys.restart()
		c.await(t, zk.StateDisconnected)
		c.await(t, zk.StateHasSession)
		read("after a restart of the server")
	}},
	{"many children", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		// More than a megabyte, the bound of requests.
		const count = 800
		inParallel(t, 16, func(i int) error {
			for k := i; k < count; k += 16 {
				path := fmt.Sprintf("%s/%02000d", root, k)
				if got, err := c.Create(path, nil, 0, open); err != nil || got != path {
					return fmt.Errorf("create: %q, %w", got, err)
				}
			}
			return nil
		})
		names, stat, err := c.Children(root)
		if err != nil || len(names) != count || stat.NumChildren != count {
			t.Fatalf("%d children, %+v, %v", len(names), stat, err)
		}
		slices.Sort(names)
		for i, name := range names {
			if want := fmt.Sprintf("%02000d", i); name != want {
				t.Fatalf("child %d is called %s", i, name)
			}
		}
	}},
	{"watches on children", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		_, _, watch, err := c.ChildrenW(root)
		wantErr(t, "ChildrenW", err, nil)
		got, err := c.Create(root+"/a", nil, 0, open)
		made(t, root+"/a", got, err)
		wantTold(t, watch, zk.EventNodeChildrenChanged, root)
		if e, ok := <-watch; ok {
			t.Errorf("told a second time: %+v", e)
		}
		names, stat, watch, err := c.ChildrenW(root + "/a")
		if err != nil || len(names) != 0 || stat == nil {
			t.Errorf("ChildrenW: %v, %+v, %v", names, stat, err)
		}
		_, err = c.Set(root+"/a", nil, -1)
		wantErr(t, "Set", err, nil)
		untold(t, watch)
		wantErr(t, "Delete", c.Delete(root+"/a", -1), nil)
		wantTold(t, watch, zk.EventNodeDeleted, root+"/a")
		_, _, _, err = c.ChildrenW(root + "/a")
		wantErr(t, "ChildrenW of nothing", err, zk.ErrNoNode)
	}},
	{"watches on a new connection", func(t *testing.T, sys system) {
		c, wires := connected(t, sys)
		other, _ := connected(t, sys)
		// The client sets them again in several requests, of at most 128 kB
		// each.
		const count = 400
		paths := make([]string, count)
		watches := make([]<-chan zk.Event, count)
		inParallel(t, 16, func(i int) error {
			for k := i; k < count; k += 16 {
				paths[k] = fmt.Sprintf("%s/%0500d", root, k)
				if _, err := c.Create(paths[k], nil, 0, open); err != nil {
					return err
				}
				var err error
				if _, _, watches[k], err = c.GetW(paths[k]); err != nil {
					return err
				}
			}
			return nil
		})
		_, _, children, err := c.ChildrenW(root)
		wantErr(t, "ChildrenW", err, nil)
		_, _, quiet, err := c.GetW(root)
		wantErr(t, "GetW", err, nil)
		wires.plug(false)
		wires.cut()
		c.await(t, zk.StateDisconnected)
		inParallel(t, 16, func(i int) error {
			for k := i; k < count; k += 16 {
				if err := other.Delete(paths[k], -1); err != nil {
					return err
				}
			}
			return nil
		})
		for _, watch := range append(watches, children) {
			untold(t, watch)
		}
		id := c.SessionID()
		wires.plug(true)
		c.await(t, zk.StateHasSession)
		if c.SessionID() != id {
			t.Fatal("the session was lost, which takes longer than this test should")
		}
		for k, watch := range watches {
			wantTold(t, watch, zk.EventNodeDeleted, paths[k])
		}
		wantTold(t, children, zk.EventNodeChildrenChanged, root)
		_, err = other.Set(root, []byte("x"), -1)
		wantErr(t, "Set", err, nil)
		wantTold(t, quiet, zk.EventNodeDataChanged, root)
	}},
	{"watches of a session that ends", func(t *testing.T, sys system) {
		c, wires := connected(t, sys)
		_, _, watch, err := c.ChildrenW(root)
		wantErr(t, "ChildrenW", err, nil)
		id := c.SessionID()
		got, err := c.Create(root+"/e", nil, zk.FlagEphemeral, open)
		made(t, root+"/e", got, err)
		told(t, watch) // of the node
		_, _, watch, err = c.ChildrenW(root)
		wantErr(t, "ChildrenW", err, nil)
		// Another client with the session's password closes the session.
		wires.plug(false)
		thief := newRecord(t, to(sys.addr)).peer("thief")
		thief.passwords[id] = wires.password()
		if got := thief.do(fmt.Sprintf("connect session=%d", id)); thief.session != id {
			t.Fatalf("the session was not taken over: %s", got)
		}
		c.await(t, zk.StateDisconnected)
		thief.do("close")
		wires.plug(true)
		if e := told(t, watch); e.Err != zk.ErrSessionExpired || e.Type != zk.EventNotWatching || e.Path != root {
			t.Errorf("the watch was told %+v", e)
		}
		c.await(t, zk.StateHasSession)
		if c.SessionID() == id {
			t.Error("the session was resumed")
		}
		if names, _, err := c.Children(root); len(names) != 0 || err != nil {
			t.Errorf("left are %v, %v", names, err)
		}
	}},
	{"a session on a new connection", func(t *testing.T, sys system) {
		c, wires := connected(t, sys)
		id := c.SessionID()
		path := root + "/e"
		got, err := c.Create(path, nil, zk.FlagEphemeral, open)
		made(t, path, got, err)
		for _, interrupt := range []func(){wires.cut, sys.restart} {
			interrupt()
			c.await(t, zk.StateDisconnected)
			c.await(t, zk.StateHasSession)
			ok, stat, err := c.Exists(path)
			if !ok || err != nil || c.SessionID() != id || stat.EphemeralOwner != id {
				t.Errorf("Exists: %v, %+v, %v; session %x, was %x", ok, stat, err, c.SessionID(), id)
			}
		}
		other, _ := connected(t, sys)
		_, _, gone, err := other.GetW(path)
		wantErr(t, "GetW", err, nil)
		c.Close()
		wantTold(t, gone, zk.EventNodeDeleted, path)
	}},
	{"a session that expires", func(t *testing.T, sys system) {
		wires := &cable{addr: sys.addr}
		c := dialClient(t, time.Second, wires.dial)
		other, _ := connected(t, sys)
		path := root + "/e"
		got, err := c.Create(path, nil, zk.FlagEphemeral, open)
		made(t, path, got, err)
		_, _, gone, err := other.GetW(path)
		wantErr(t, "GetW", err, nil)
		id := c.SessionID()
		wires.plug(false)
		wires.cut()
		wantTold(t, gone, zk.EventNodeDeleted, path)
		wires.plug(true)
		c.await(t, zk.StateExpired)
		c.await(t, zk.StateHasSession)
		if c.SessionID() == id {
			t.Error("the session was resumed")
		}
	}},
	{"a slow server", func(t *testing.T, sys system) {
		c, wires := connected(t, sys)
		id := c.SessionID()
		got, err := c.Create(root+"/e", nil, zk.FlagEphemeral, open)
		made(t, root+"/e", got, err)
		_, _, watch, err := c.ChildrenW(root)
		wantErr(t, "ChildrenW", err, nil)
		wires.freeze()
		// After two thirds of the session timeout the client gives up the
		// connection, but not the session.
		wantErr(t, "a request that is not answered", c.Delete(root+"/missing", -1), zk.ErrConnectionClosed)
		c.await(t, zk.StateHasSession)
		if c.SessionID() != id {
			t.Fatal("the session was lost")
		}
		other, _ := connected(t, sys)
		got, err = other.Create(root+"/a", nil, 0, open)
		made(t, root+"/a", got, err)
		wantTold(t, watch, zk.EventNodeChildrenChanged, root)
		if ok, _, err := c.Exists(root + "/e"); !ok || err != nil {
			t.Errorf("Exists: %v, %v", ok, err)
		}
	}},
	{"large answers", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		small, events, err := zk.Connect([]string{sys.addr}, 4*time.Second, zk.WithLogger(nolog{}), zk.WithMaxBufferSize(1024))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			small.Close()
			for range events {
			}
		}()
		data := bytes.Repeat([]byte{7}, 500)
		for range 2 {
			got, err := c.Create(root+"/a", data, 0, open)
			made(t, root+"/a", got, err)
			read, _, err := small.Get(root + "/a")
			switch {
			case len(data) > 1024:
				wantErr(t, "an answer that is too large for the client", err, zk.ErrConnectionClosed)
			case err != nil || !bytes.Equal(read, data):
				t.Errorf("Get: %d bytes, %v", len(read), err)
			}
			if read, _, err := c.Get(root + "/a"); err != nil || !bytes.Equal(read, data) {
				t.Errorf("Get by another client: %d bytes, %v", len(read), err)
			}
			wantErr(t, "Delete", c.Delete(root+"/a", -1), nil)
			data = append(data, data...)
			data = append(data, data...)
		}
		// The server bounds requests.
		_, err = c.Create(root+"/large", make([]byte, 1<<20), 0, open)
		if err == nil {
			t.Error("a request of more than a megabyte was executed")
		}
		c.await(t, zk.StateHasSession)
		if ok, _, err := c.Exists(root + "/large"); ok || err != nil {
			t.Errorf("Exists: %v, %v", ok, err)
		}
	}},
	{"the client's own lock", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		other, _ := connected(t, sys)
		path := root + "/deep/down"
		first, second := zk.NewLock(c.Conn, path, open), zk.NewLock(other.Conn, path, open)
		wantErr(t, "Lock", first.Lock(), nil)
		wantErr(t, "Lock again", first.Lock(), zk.ErrDeadlock)
		locked := make(chan error, 1)
		go func() { locked <- second.Lock() }()
		for queued := 0; queued < 2; {
			names, _, watch, err := c.ChildrenW(path)
			if err != nil {
				t.Fatal(err)
			}
			if queued = len(names); queued < 2 {
				told(t, watch)
			}
		}
		select {
		case err := <-locked:
			t.Fatalf("both have the lock: %v", err)
		default:
		}
		wantErr(t, "Unlock", first.Unlock(), nil)
		wantErr(t, "the other's Lock", <-locked, nil)
		wantErr(t, "the other's Unlock", second.Unlock(), nil)
		wantErr(t, "Unlock again", second.Unlock(), zk.ErrNotLocked)
	}},
}
