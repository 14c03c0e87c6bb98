// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is the logger of servers whose warnings are expected.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// newServer starts a server for the test and closes it at its end.
func newServer(t testing.TB, cfg zktest.Config) *zktest.Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	srv := zktest.NewServer(cfg)
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return srv
}

// A client is a go-zookeeper connection with its session events.
type client struct {
	*zk.Conn
	events chan zk.Event // all events, in order; never full in these tests
}

// oneServer is a zk.HostProvider of a single server that never sleeps.
type oneServer struct{}

func (oneServer) Init([]string) error  { return nil }
func (oneServer) Len() int             { return 1 }
func (oneServer) Next() (string, bool) { return "zktest:2181", false }
func (oneServer) Connected()           {}

// dialClient connects a go-zookeeper client by dial and waits for its session.
// At the end of the test it is closed.
func dialClient(t testing.TB, timeout time.Duration, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *client {
	t.Helper()
	c := &client{events: make(chan zk.Event, 1000)}
	conn, loop, err := zk.Connect([]string{"zktest:2181"}, timeout,
		zk.WithLogger(nolog{}), zk.WithLogInfo(false),
		zk.WithHostProvider(oneServer{}),
		zk.WithEventCallback(func(e zk.Event) { c.events <- e }),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
			nc, err := dial(context.Background(), network, addr)
			if err != nil {
				time.Sleep(50 * time.Millisecond) // the client has no pause of its own here
			}
			return nc, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	c.Conn = conn
	t.Cleanup(func() {
		conn.Close()
		for range loop { // its end is the end of the client's goroutines
		}
	})
	c.await(t, zk.StateHasSession)
	return c
}

type nolog struct{}

func (nolog) Printf(string, ...any) {}

// await reads session events until the state is reached.
func (c *client) await(t testing.TB, state zk.State) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e := <-c.events:
			if e.Type == zk.EventSession && e.State == state {
				return
			}
		case <-limit:
			t.Fatalf("client did not reach %v", state)
		}
	}
}

var open = zk.WorldACL(zk.PermAll)

func TestSmoke(t *testing.T) {
	run := func(t *testing.T, dial func(ctx context.Context, network, addr string) (net.Conn, error), srv *zktest.Server) {
		c := dialClient(t, 10*time.Second, dial)
		if _, err := c.Create("/a", []byte("x"), 0, open); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/a/n-0000000000", "/a/n-0000000001"} {
			got, err := c.Create("/a/n-", nil, zk.FlagEphemeral|zk.FlagSequence, open)
			if err != nil || got != want {
				t.Fatalf("Create = %q, %v; want %q", got, err, want)
			}
		}
		_, _, fired, err := c.GetW("/a/n-0000000000")
		if err != nil {
			t.Fatal(err)
		}
		if got := srv.Watches("/a/n-0000000000"); got.Data != 1 {
			t.Errorf("Watches = %+v, want one data watch", got)
		}
		names, stat, err := c.Children("/a")
		if err != nil || len(names) != 2 || stat.NumChildren != 2 {
			t.Fatalf("Children = %v, %+v, %v", names, stat, err)
		}
		if err := c.Delete("/a/n-0000000000", -1); err != nil {
			t.Fatal(err)
		}
		if e := <-fired; e.Type != zk.EventNodeDeleted {
			t.Errorf("event %v, want node deleted", e)
		}
		c.Close()
		if got := srv.Nodes(); len(got) != 1 || got[0] != "/a" {
			t.Errorf("Nodes after close = %v, want [/a]", got)
		}
	}
	t.Run("tcp", func(t *testing.T) {
		srv := newServer(t, zktest.Config{})
		addr, err := srv.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		run(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}, srv)
	})
	t.Run("pipe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, zktest.Config{})
			run(t, srv.Dial, srv)
		})
	})
}

func TestExpirySmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, zktest.Config{TickTime: 500 * time.Millisecond})
		c := dialClient(t, 3*time.Second, srv.Dial)
		if _, err := c.Create("/e", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !srv.Exists("/e") {
			t.Fatal("a session that pings has expired")
		}
		hole := srv.Faults().Blackhole(c.SessionID())
		time.Sleep(4 * time.Second)
		if srv.Exists("/e") {
			t.Fatal("a silent session has not expired")
		}
		x := srv.Expired()
		if len(x) != 1 || x[0].At.Sub(x[0].LastTouch) < 3*time.Second || x[0].At.Sub(x[0].LastTouch) > 3500*time.Millisecond {
			t.Errorf("Expired = %+v", x)
		}
		hole.Remove()
		c.await(t, zk.StateExpired)
	})
}
