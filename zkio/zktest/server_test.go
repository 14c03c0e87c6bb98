// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is the logger of servers whose warnings are expected.
var quiet = slog.New(slog.DiscardHandler)

// newServer starts a server and closes it at the end of the test.
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
	events chan zk.Event // of the session, in order; never full in these tests
}

// oneServer is a zk.HostProvider of a single server. It makes the client pause for
// a second, and check whether it was closed, only after a failed dial.
type oneServer struct{ failed *atomic.Bool }

func (oneServer) Init([]string) error    { return nil }
func (oneServer) Len() int               { return 1 }
func (o oneServer) Next() (string, bool) { return "zktest:2181", o.failed.Swap(false) }
func (oneServer) Connected()             {}

// dialClient connects a go-zookeeper client and waits for its session. It closes the
// client at the end of the test.
func dialClient(t testing.TB, timeout time.Duration, dial dialer) *client {
	t.Helper()
	c := &client{events: make(chan zk.Event, 1000)}
	failed := new(atomic.Bool)
	conn, loop, err := zk.Connect([]string{"zktest:2181"}, timeout,
		zk.WithLogger(nolog{}), zk.WithLogInfo(false),
		zk.WithHostProvider(oneServer{failed}),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				c.events <- e
			}
		}),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
			nc, err := dial(context.Background(), network, addr)
			failed.Store(err != nil)
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

// bubbleClient is dialClient in a synctest bubble, over a pipe. It waits until the
// client is idle: shortly after reporting its session go-zookeeper reads its
// lastZxid without a lock if there is a watch, which the race detector reports.
func bubbleClient(t testing.TB, srv *zktest.Server, timeout time.Duration) *client {
	t.Helper()
	c := dialClient(t, timeout, srv.Dial)
	synctest.Wait()
	return c
}

type nolog struct{}

func (nolog) Printf(string, ...any) {}

// await reads session events until the state is reached.
func (c *client) await(t testing.TB, state zk.State) {
	t.Helper()
	limit := time.After(time.Minute)
	var before []zk.State
	for {
		select {
		case e := <-c.events:
			if e.State == state {
				return
			}
			before = append(before, e.State)
		case <-limit:
			t.Fatalf("client did not reach %v, but %v", state, before)
		}
	}
}

var open = zk.WorldACL(zk.PermAll)

// A dialer connects to a server.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// overTCP makes srv listen and returns a dialer for it.
func overTCP(t testing.TB, srv *zktest.Server) dialer {
	t.Helper()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// onBoth runs a test over TCP in real time, and over a pipe in virtual time.
func onBoth(t *testing.T, test func(t *testing.T, srv *zktest.Server, dial dialer)) {
	t.Run("tcp", func(t *testing.T) {
		srv := newServer(t, zktest.Config{})
		test(t, srv, overTCP(t, srv))
	})
	t.Run("pipe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, zktest.Config{})
			test(t, srv, srv.Dial)
		})
	})
}

// inBubble runs a test in virtual time on a server with a tick of 500 ms and
// session timeouts between 1 s and 1 h.
func inBubble(t *testing.T, test func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newServer(t, zktest.Config{TickTime: 500 * time.Millisecond, MaxSessionTimeout: time.Hour}))
	})
}

// TestManyAtOnce: many goroutines and clients create nodes at the same time, and no
// sequence number is given twice.
func TestManyAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		if err := srv.Create("/d", nil); err != nil {
			t.Fatal(err)
		}
		const clients, each = 4, 50
		var wg sync.WaitGroup
		for range clients {
			c := dialClient(t, 10*time.Second, dial)
			for range 5 {
				wg.Go(func() {
					for range each {
						path, err := c.Create("/d/n-", nil, zk.FlagSequence|zk.FlagEphemeral, open)
						if err != nil {
							t.Errorf("create: %v", err)
							return
						}
						if _, _, err := c.Get(path); err != nil {
							t.Errorf("get: %v", err)
						}
					}
				})
			}
		}
		wg.Wait()
		names := srv.Children("/d")
		if len(names) != clients*5*each {
			t.Errorf("%d children, want %d", len(names), clients*5*each)
		}
		for i, name := range names {
			if want := fmt.Sprintf("n-%010d", i); name != want {
				t.Fatalf("child %d is %s, want %s", i, name, want)
			}
		}
	})
}

// TestListenSaysSo: a server that listens logs what it is for.
func TestListenSaysSo(t *testing.T) {
	var log bytes.Buffer
	srv := newServer(t, zktest.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "for development and tests only") || !strings.Contains(got, addr) {
		t.Errorf("logged %q", got)
	}
	if _, err := srv.Listen(addr); err == nil {
		t.Error("a second Listen on the same address succeeded")
	}
}

func TestClose(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 10*time.Second, dial)
		if _, err := c.Create("/a", nil, 0, open); err != nil {
			t.Fatal(err)
		}
		srv.Faults().Blackhole(dialClient(t, 10*time.Second, dial).SessionID())
		srv.Faults().RefuseFor(time.Hour).Remove()
		mute := srv.Faults().BlackholeNew()
		nc, err := dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		<-mute.Hit()
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		c.await(t, zk.StateDisconnected)
		if err := srv.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if _, err := dial(t.Context(), "tcp", "zktest:2181"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial after Close: %v, want a refused connection", err)
		}
		if _, err := srv.Listen("127.0.0.1:0"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Listen after Close: %v", err)
		}
		if !srv.Exists("/a") {
			t.Error("the tree cannot be inspected after Close")
		}
	})
}

func TestDialContext(t *testing.T) {
	srv := newServer(t, zktest.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := srv.Dial(ctx, "tcp", "zktest:2181"); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial with an ended context: %v", err)
	}
	nc, err := srv.Dial(t.Context(), "tcp", "zktest:2181")
	if err != nil {
		t.Fatal(err)
	}
	if got := nc.RemoteAddr().String(); got != "zktest:2181" {
		t.Errorf("remote address %s, want the one that was dialled", got)
	}
	_ = nc.Close()
}

// TestUnreadAnswers: a client may write any number of requests before it reads the
// first answer.
func TestUnreadAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 10*time.Second)
		const n = 20000
		for range n {
			d.request(jute.OpGetChildren2, jute.AppendBool(jute.AppendString(nil, "/"), false))
		}
		for i := range n {
			if _, end := d.readFrame(); end != "" {
				t.Fatalf("answer %d: %s", i, end)
			}
		}
	})
}

// TestTLS: Serve takes a TLS listener. Connections behave as they do without
// TLS, including one that was in a blackhole before its TLS handshake.
func TestTLS(t *testing.T) {
	srv := newServer(t, zktest.Config{})
	web := httptest.NewUnstartedServer(nil) // for its certificate
	web.StartTLS()
	web.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", web.TLS)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Serve(l); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	config := &tls.Config{RootCAs: roots, ServerName: "example.com"}
	hole := srv.Faults().BlackholeNew()
	silenced, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	<-hole.Hit()
	hole.Remove() // before the handshake
	r := newRecord(t, func(client string) (net.Conn, error) {
		if client == "B" {
			return tls.Client(silenced, config), nil
		}
		return tls.Dial("tcp", l.Addr().String(), config)
	})
	r.control(srv).expect(`
A: connect -> S1 for 10000 ms
A: create "/a" flags=1 -> z+1 0 /a
A: getEphemerals "/" -> z+1 0 ["/a"]
A: word ruok -> "imok"
server: Blackhole A
A: send ping
server: Remove 0
A: answer -> z+1 0
server: DropReply op=setData
A: setData "/a" -> connection closed
A: connect session=S1 -> S1 for 10000 ms
server: SwallowReply op=setData
A: send setData "/a"
A: brief getData "/a" -> z+3 0 ""
B: connect -> S2 for 10000 ms
B: close -> z+5 0, connection closed
server: Cut A -> true
A: ended -> connection closed
A: connect session=S1 -> S1 for 10000 ms
A: close -> z+6 0, connection closed
C: connect -> S3 for 10000 ms
server: ExpireSession C -> true
C: ended -> connection closed
`)
	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, _ = plain.Write([]byte("ruok"))
	if err := srv.Close(); err != nil { // does not wait for that handshake
		t.Error(err)
	}
	if err := srv.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed server: %v", err)
	}
}
