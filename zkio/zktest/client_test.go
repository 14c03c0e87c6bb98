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

// firstAnswer is how long a wire waits for the answer to the handshake. ZooKeeper 3.8 never
// answers a connection that it accepts just before it serves, and does not close it, for its
// "ZooKeeperServer not running" ends in a NullPointerException. go-zookeeper would wait
// for six and two thirds of the session's timeout.
const firstAnswer = 10 * time.Second

func (w *wire) SetReadDeadline(d time.Time) error {
	w.mu.Lock()
	answered := len(w.first) > 0
	w.mu.Unlock()
	if limit := time.Now().Add(firstAnswer); !answered && (d.IsZero() || d.After(limit)) {
		d = limit
	}
	return w.Conn.SetReadDeadline(d)
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
	return connectedFor(t, sys, 4*time.Second)
}

// connectedFor is connected with a session timeout. Where the session must outlive an
// interruption, it should be long enough for a slow machine.
func connectedFor(t *testing.T, sys system, timeout time.Duration) (*client, *cable) {
	t.Helper()
	c := &cable{addr: sys.addr}
	return dialClient(t, timeout, c.dial), c
}

// make creates a node at path.
func (c *client) make(t *testing.T, path string, flags int32) {
	t.Helper()
	got, err := c.Create(path, nil, flags, open)
	made(t, path, got, err)
}

// made fails the test unless a create succeeded and made the node at path.
func made(t *testing.T, path, got string, err error) {
	t.Helper()
	if err != nil || got != path {
		t.Fatalf("create %s: %q, %v", path, got, err)
	}
}

// watch watches the node at path, and watchChildren its children.
func (c *client) watch(t *testing.T, path string) <-chan zk.Event {
	t.Helper()
	_, _, watch, err := c.GetW(path)
	wantErr(t, "GetW", err, nil)
	return watch
}

func (c *client) watchChildren(t *testing.T, path string) <-chan zk.Event {
	t.Helper()
	_, _, watch, err := c.ChildrenW(path)
	wantErr(t, "ChildrenW", err, nil)
	return watch
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

// wantErr fails the test unless err is target.
func wantErr(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

var clientCases = []clientCase{
	{"operations", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		other, _ := connected(t, sys)
		create := func(name string, flags int32) func() (any, error) {
			return func() (any, error) { return c.Create(root+name, []byte("data"), flags, open) }
		}
		get := func(c *client, name string) func() (any, error) {
			return func() (any, error) { data, _, err := c.Get(root + name); return string(data), err }
		}
		exists := func(name string) func() (any, error) {
			return func() (any, error) { ok, _, err := c.Exists(root + name); return ok, err }
		}
		set := func(name string, version int32) func() (any, error) {
			return func() (any, error) {
				st, err := c.Set(root+name, []byte("newer"), version)
				if err != nil {
					return nil, err
				}
				return [3]any{st.Version, st.DataLength, st.Mzxid > st.Czxid}, nil
			}
		}
		remove := func(name string, version int32) func() (any, error) {
			return func() (any, error) { return nil, c.Delete(root+name, version) }
		}
		children := func(name string) func() (any, error) {
			return func() (any, error) {
				names, st, err := c.Children(root + name)
				if err != nil {
					return nil, err
				}
				return [2]int{len(names), int(st.NumChildren)}, nil
			}
		}
		for _, step := range []struct {
			name string
			do   func() (any, error)
			want any // nil: not looked at
			err  error
		}{
			{"create", create("/a", 0), root + "/a", nil},
			{"create again", create("/a", 0), "", zk.ErrNodeExists},
			{"create below nothing", create("/x/a", 0), "", zk.ErrNoNode},
			{"create a bad path", create("/a//b", 0), "", zk.ErrInvalidPath}, // refused by the client
			{"create without an ACL", func() (any, error) { return c.Create(root+"/b", nil, 0, nil) }, "", zk.ErrInvalidACL},
			{"create a sequential", create("/a/s-", zk.FlagSequence), root + "/a/s-0000000000", nil},
			{"create a sequential ephemeral", create("/a/s-", zk.FlagSequence|zk.FlagEphemeral), root + "/a/s-0000000001", nil},
			{"create below an ephemeral", create("/a/s-0000000001/x", 0), "", zk.ErrNoChildrenForEphemerals},
			{"create a container", func() (any, error) { return c.CreateContainer(root+"/c", nil, zk.FlagContainer, open) }, root + "/c", nil},
			{"create protected", func() (any, error) {
				path, err := c.CreateProtectedEphemeralSequential(root+"/c/n-", nil, open)
				return len(path), err
			}, len(root + "/c/_c_0123456789abcdef0123456789abcdef-n-0000000000"), nil},
			{"get", get(c, "/a"), "data", nil},
			{"get nothing", get(c, "/x"), "", zk.ErrNoNode},
			{"exists", exists("/a"), true, nil},
			{"exists nothing", exists("/x"), false, nil},
			{"set", set("/a", 0), [3]any{int32(1), int32(5), true}, nil},
			{"set an old version", set("/a", 0), nil, zk.ErrBadVersion},
			{"set nothing", set("/x", -1), nil, zk.ErrNoNode},
			{"get what another has set", get(other, "/a"), "newer", nil},
			{"children", children("/a"), [2]int{2, 2}, nil},
			{"children of nothing", children("/x"), nil, zk.ErrNoNode},
			{"delete one with children", remove("/a", -1), nil, zk.ErrNotEmpty},
			{"delete an old version", remove("/a/s-0000000000", 7), nil, zk.ErrBadVersion},
			{"delete", remove("/a/s-0000000000", 0), nil, nil},
			{"delete nothing", remove("/a/s-0000000000", 0), nil, zk.ErrNoNode},
			{"sync", func() (any, error) { return c.Sync(root) }, root, nil},
			{"the lock's transaction", func() (any, error) {
				res, err := c.Multi(&zk.CreateRequest{Path: root + "/c/n-", Acl: open, Flags: zk.FlagSequence | zk.FlagEphemeral}, &zk.SetDataRequest{Path: root + "/c", Version: -1})
				if err != nil {
					return nil, err
				}
				_, st, err := c.Get(res[0].String)
				return [3]any{res[0].String, res[1].Stat.NumChildren, res[1].Stat.Mzxid == st.Czxid}, err
			}, [3]any{root + "/c/n-0000000001", int32(2), true}, nil},
			{"a transaction of every kind", func() (any, error) {
				res, err := c.Multi(
					&zk.CreateRequest{Path: root + "/m", Acl: open},
					&zk.SetDataRequest{Path: root + "/m", Version: 0},
					&zk.CheckVersionRequest{Path: root + "/m", Version: 1},
					&zk.DeleteRequest{Path: root + "/m", Version: 1})
				return len(res), err
			}, 4, nil},
			{"a failing transaction", func() (any, error) {
				res, err := c.Multi(&zk.DeleteRequest{Path: root + "/c/n-0000000001", Version: -1}, &zk.CheckVersionRequest{Path: root + "/x", Version: -1}, &zk.DeleteRequest{Path: root + "/a", Version: -1})
				return [3]bool{res[0].Error == nil, res[1].Error == zk.ErrNoNode, res[2].Error != nil}, err
			}, [3]bool{true, true, true}, zk.ErrNoNode},
			{"which changed nothing", children("/c"), [2]int{2, 2}, nil},
			{"set the ACL", func() (any, error) {
				st, err := c.SetACL(root+"/a", zk.WorldACL(zk.PermRead), 0)
				return st.Aversion, err
			}, int32(1), nil},
			{"write without permission", set("/a", -1), nil, zk.ErrNoAuth},
		} {
			got, err := step.do()
			wantErr(t, step.name, err, step.err)
			if step.want != nil && !reflect.DeepEqual(got, step.want) {
				t.Errorf("%s: got %v, want %v", step.name, got, step.want)
			}
		}
	}},
	{"nodes that go by themselves", func(t *testing.T, sys system) {
		c, _ := connected(t, sys)
		for _, path := range []string{root + "/container", root + "/fresh"} {
			got, err := c.CreateContainer(path, nil, zk.FlagContainer, open)
			made(t, path, got, err)
		}
		c.make(t, root+"/container/child", zk.FlagEphemeral)
		gone := c.watch(t, root+"/container")
		got, err := c.CreateTTL(root+"/mortal", nil, zk.FlagTTL, open, 2*time.Second)
		made(t, root+"/mortal", got, err)
		dead := c.watch(t, root+"/mortal")
		untold(t, gone) // it has a child
		wantErr(t, "delete the child", c.Delete(root+"/container/child", -1), nil)
		wantTold(t, gone, zk.EventNodeDeleted, root+"/container")
		wantTold(t, dead, zk.EventNodeDeleted, root+"/mortal")
		if names, _, err := c.Children(root); !slices.Equal(names, []string{"fresh"}) || err != nil {
			t.Errorf("left are %v, %v", names, err)
		}
	}},
	{"credentials", func(t *testing.T, sys system) {
		c, wires := connectedFor(t, sys, 10*time.Second)
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
		inParallel(t, count, func(k int) error {
			path := fmt.Sprintf("%s/%02000d", root, k)
			if got, err := c.Create(path, nil, 0, open); err != nil || got != path {
				return fmt.Errorf("create: %q, %w", got, err)
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
		watch := c.watchChildren(t, root)
		c.make(t, root+"/a", 0)
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
		c, wires := connectedFor(t, sys, 10*time.Second)
		other, _ := connected(t, sys)
		// The client sets them again in several requests, of at most 128 kB
		// each.
		const count = 400
		paths := make([]string, count)
		watches := make([]<-chan zk.Event, count)
		inParallel(t, count, func(k int) error {
			paths[k] = fmt.Sprintf("%s/%0500d", root, k)
			if _, err := c.Create(paths[k], nil, 0, open); err != nil {
				return err
			}
			var err error
			_, _, watches[k], err = c.GetW(paths[k])
			return err
		})
		children := c.watchChildren(t, root)
		quiet := c.watch(t, root)
		_, _, appears, err := c.ExistsW(root + "/new")
		wantErr(t, "ExistsW", err, nil)
		wires.plug(false)
		wires.cut()
		c.await(t, zk.StateDisconnected)
		inParallel(t, count, func(k int) error {
			return other.Delete(paths[k], -1)
		})
		other.make(t, root+"/new", 0)
		for _, watch := range append(watches, children, appears) {
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
		wantTold(t, appears, zk.EventNodeCreated, root+"/new")
		_, err = other.Set(root, []byte("x"), -1)
		wantErr(t, "Set", err, nil)
		wantTold(t, quiet, zk.EventNodeDataChanged, root)
	}},
	{"watches of a session that ends", func(t *testing.T, sys system) {
		c, wires := connected(t, sys)
		watch := c.watchChildren(t, root)
		id := c.SessionID()
		c.make(t, root+"/e", zk.FlagEphemeral)
		told(t, watch) // of the node
		watch = c.watchChildren(t, root)
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
		c, wires := connectedFor(t, sys, 10*time.Second)
		id := c.SessionID()
		path := root + "/e"
		c.make(t, path, zk.FlagEphemeral)
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
		gone := other.watch(t, path)
		c.Close()
		wantTold(t, gone, zk.EventNodeDeleted, path)
	}},
	{"a session that expires", func(t *testing.T, sys system) {
		wires := &cable{addr: sys.addr}
		c := dialClient(t, time.Second, wires.dial)
		other, _ := connected(t, sys)
		path := root + "/e"
		c.make(t, path, zk.FlagEphemeral)
		gone := other.watch(t, path)
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
		c.make(t, root+"/e", zk.FlagEphemeral)
		watch := c.watchChildren(t, root)
		wires.freeze()
		// After two thirds of the session timeout the client gives up the
		// connection, but not the session.
		wantErr(t, "a request that is not answered", c.Delete(root+"/missing", -1), zk.ErrConnectionClosed)
		c.await(t, zk.StateHasSession)
		if c.SessionID() != id {
			t.Fatal("the session was lost")
		}
		other, _ := connected(t, sys)
		other.make(t, root+"/a", 0)
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
