// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A server for a test, to which any client can connect by TCP.
func Example() {
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer srv.Close()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}

	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	path, err := conn.Create("/task-", []byte("data"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)

	// The test can look at what the program has left in the server.
	fmt.Println(srv.Nodes())
	// Output:
	// /task-0000000000 <nil>
	// [/task-0000000000]
}

// connect returns a client with an in-memory connection to srv, and a function that
// closes it and waits for its goroutines to end.
func connect(srv *zktest.Server) (conn *zk.Conn, stop func(), err error) {
	conn, events, err := zk.Connect([]string{"127.0.0.1"}, 10*time.Second, zk.WithLogger(nolog{}),
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			return srv.Dial(context.Background(), network, address)
		}))
	return conn, func() {
		conn.Close()
		for range events {
		}
	}, err
}

// A follower that is cut off from its leader answers from what it knows.
func ExampleEnsemble() {
	e := zktest.NewEnsemble(zktest.EnsembleConfig{})
	defer e.Close()
	leader, follower := e.Server(e.Leader()), 1
	conn, stop, err := connect(e.Server(follower))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	exists := func(when string) {
		there, _, err := conn.Exists("/task")
		fmt.Println(when, there, err)
	}
	exists("before:")
	e.Isolate(follower)
	fmt.Println("created:", leader.Create("/task", nil))
	exists("cut off:")
	e.Heal()
	exists("healed:")
	// Output:
	// before: false <nil>
	// created: <nil>
	// cut off: false <nil>
	// healed: true <nil>
}

// The server can lose an answer whenever a test needs it to. The client cannot know
// that its node was created.
func ExampleFaults_DropReply() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv) // by way of srv.Dial
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	lost := srv.Faults().DropReply(zktest.Match{Op: zktest.OpCreate, Path: "/task", Times: 1})
	_, err = conn.Create("/task", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println("the client sees:", err)
	fmt.Println("the node is there:", srv.Exists("/task"))
	fmt.Println("answers lost:", lost.Hits())
	// Output:
	// the client sees: zk: connection closed
	// the node is there: true
	// answers lost: 1
}

// A hook acts exactly between two requests of a client, where a race would strike
// once in a million runs.
func ExampleServer_OnRequest() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	_ = srv.CreateAll("/jobs/1", nil)
	srv.OnRequest(func(_ int64, op zktest.Op, path string) {
		if op == zktest.OpGetData && path == "/jobs/1" {
			_ = srv.Delete("/jobs/1") // another client takes it first
		}
	})
	names, _, err := conn.Children("/jobs")
	fmt.Println(names, err)
	_, _, err = conn.Get("/jobs/1")
	fmt.Println(err)
	// Output:
	// [1] <nil>
	// zk: node does not exist
}

// A follower that lags shows its clients the past until they write or sync.
func ExampleFaults_Lag() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	_, _ = conn.Sync("/") // there is a session now

	lag := srv.Faults().Lag(-1, conn.SessionID())
	_ = srv.Create("/leader", []byte("me"))
	there, _, err := conn.Exists("/leader")
	fmt.Println(there, err)
	_, _ = conn.Sync("/leader")
	there, _, err = conn.Exists("/leader")
	fmt.Println(there, err)
	fmt.Println("stale answers:", lag.Hits())
	// Output:
	// false <nil>
	// true <nil>
	// stale answers: 1
}

// A test ends a session, as ZooKeeper does with that of a process it has not heard from.
func ExampleServer_ExpireSession() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	_, err = conn.Create("/worker", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	fmt.Println(srv.Exists("/worker"), err)

	fmt.Println("expired:", srv.ExpireSession(srv.Sessions()[0].ID))
	fmt.Println(srv.Exists("/worker"))
	// Output:
	// true <nil>
	// expired: true
	// false
}

// The server refuses a request with any error that ZooKeeper has.
func ExampleFaults_FailRequest() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	denied := srv.Faults().FailRequest(zktest.Match{Op: zktest.OpCreate, Times: zktest.Every}, zktest.CodeNoAuth)
	_, err = conn.Create("/task", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	denied.Remove()
	_, err = conn.Create("/task", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	// Output:
	// zk: not authenticated
	// <nil>
}

// While answers are held back, a test can look at what the program does without them.
func ExampleFaults_BlockReplies() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	_, _ = conn.Sync("/") // there is a session now

	block := srv.Faults().BlockReplies(conn.SessionID())
	created := make(chan error)
	go func() {
		_, err := conn.Create("/task", nil, 0, zk.WorldACL(zk.PermAll))
		created <- err
	}()
	<-block.Hit()
	fmt.Println("the node is there, and its creator does not know:", srv.Exists("/task"))
	block.Remove()
	fmt.Println(<-created)
	// Output:
	// the node is there, and its creator does not know: true
	// <nil>
}

// A server that was restarted has lost its connections, and neither nodes nor sessions.
func ExampleServer_Restart() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	conn, stop, err := connect(srv)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	_, err = conn.Create("/worker", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if err != nil {
		fmt.Println(err)
		return
	}
	session := conn.SessionID()
	srv.Restart()
	fmt.Println(srv.Nodes(), srv.Sessions()[0].ID == session)
	// Output:
	// [/worker] true
}

// TestVirtualTime is the example in the package documentation.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(zktest.Config{TickTime: time.Second})
		defer srv.Close()
		conn, stop, err := connect(srv)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if _, err := conn.Create("/here", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}

		partition := srv.Faults().BlackholeAll()
		defer partition.Remove()
		time.Sleep(10 * time.Second)
		if !srv.Exists("/here") {
			t.Error("the session expired too early")
		}
		time.Sleep(2 * time.Second)
		if srv.Exists("/here") {
			t.Error("the session did not expire")
		}
	})
}
