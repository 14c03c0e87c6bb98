// SPDX-License-Identifier: Apache-2.0

package zkio_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// watcher closes its channel when something happens to its path.
type watcher chan struct{}

func (w watcher) PathChanged(path string, ev zkio.Event) {
	fmt.Println("a contender was", ev)
	close(w)
}

// A contender queues with a node of its own, waits until another's is gone,
// and knows from the lease how long it may trust its own to be there.
func Example() {
	quiet := slog.New(slog.DiscardHandler)
	server := zktest.NewServer(zktest.Config{Logger: quiet}) // a real ensemble, in production
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := zkio.Open(ctx, zkio.Config{Servers: []string{"zk"}, Dialer: server.Dial, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := client.Session()
	if err := s.EnsureDir("/queue", nil); err != nil {
		fmt.Println(err)
		return
	}
	names := 0
	guid := func() string { names++; return fmt.Sprintf("%016x", names) }
	ahead := zkio.NewNode("/queue", "lock-", guid, nil, nil, nil)
	mine := zkio.NewNode("/queue", "lock-", guid, nil, nil, nil)
	for _, n := range []*zkio.Node{ahead, mine} {
		if err := n.Create(s); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n.Name())
	}

	gone := make(watcher)
	path := ahead.Path()
	client.Watch(path, gone) // before the read that sets the watch
	if _, _, err := s.Get(path); err != nil {
		fmt.Println(err)
		return
	}
	if err := ahead.Delete(s); err != nil {
		fmt.Println(err)
		return
	}
	<-gone
	client.Unwatch(path, gone)
	fmt.Println("trusted:", s.Lease().InForce())

	if err := mine.Delete(s); err != nil {
		fmt.Println(err)
	}
	fmt.Println("closed:", client.Close(ctx))
	fmt.Println("trusted:", s.Lease().InForce())
	// Output:
	// _c_0000000000000001-lock-0000000000
	// _c_0000000000000002-lock-0000000001
	// a contender was deleted
	// trusted: true
	// closed: <nil>
	// trusted: false
}

// connect returns a session with a server within this process.
func connect(server *zktest.Server) (s *zkio.Session, done func()) {
	client, err := zkio.Open(context.Background(), zkio.Config{
		Servers: []string{"zk"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	return client.Session(), func() { _ = client.Close(context.Background()) }
}

// A transaction does all of its operations or none: here, a write on the condition that
// another node is still there.
func ExampleSession_Multi() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	s, done := connect(server)
	defer done()
	if err := server.CreateAll("/config/limit", []byte("10")); err != nil {
		log.Fatal(err)
	}

	_, err := s.Multi(
		zkio.CheckOp("/config/unlocked", -1),
		zkio.SetOp("/config/limit", []byte("20"), -1),
	)
	data, _, _ := server.Get("/config/limit")
	fmt.Printf("refused: %t, limit %s\n", errors.Is(err, zkio.ErrNoNode), data)
	// Output:
	// refused: true, limit 10
}

// Set with a version writes only if nothing has changed since the data were read.
func ExampleSession_Set() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	s, done := connect(server)
	defer done()
	if err := s.Create("/limit", []byte("10"), nil); err != nil {
		log.Fatal(err)
	}
	_, stat, err := s.Get("/limit")
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Set("/limit", []byte("15")); err != nil { // another client
		log.Fatal(err)
	}
	_, err = s.Set("/limit", []byte("20"), stat.Version)
	fmt.Println("read again:", errors.Is(err, zkio.ErrBadVersion))
	// Output:
	// read again: true
}

// GetAll reads many nodes with one request. Each has an error of its own.
func ExampleSession_GetAll() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	s, done := connect(server)
	defer done()
	if err := server.CreateAll("/workers/a", []byte("10.0.0.1:80")); err != nil {
		log.Fatal(err)
	}
	for _, read := range s.GetAll("/workers/a", "/workers/b") {
		fmt.Printf("%s %q missing=%t\n", read.Path, read.Data, errors.Is(read.Err, zkio.ErrNoNode))
	}
	// Output:
	// /workers/a "10.0.0.1:80" missing=false
	// /workers/b "" missing=true
}

// The class of an error says whether a request may have taken effect.
func ExampleClassOf() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	s, done := connect(server)
	defer done()
	server.Faults().DropReply(zktest.Match{Op: zktest.OpCreate, Path: "/task", Times: 1})

	err := s.Create("/task", nil, nil)
	switch zkio.ClassOf(err) {
	case zkio.Unknown:
		fmt.Println("it may have been created: look") // see Node, which looks by itself
	case zkio.NotSent:
		fmt.Println("it was not created: try again")
	case zkio.Definite:
		fmt.Println("the server refuses:", err)
	case zkio.SessionOver, zkio.Closed:
		fmt.Println("this session makes no more requests")
	}
	// Output:
	// it may have been created: look
}

// A task is run by one of the client's workers, as soon as there is a connection.
func ExampleClient_Submit() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	s, done := connect(server)
	defer done()
	result := make(chan error)
	s.Client().Submit(zkio.Fetches, task(func(s *zkio.Session) { result <- s.Create("/task", nil, nil) }))
	fmt.Println(<-result)
	// Output:
	// <nil>
}

type task func(*zkio.Session)

func (t task) Run(s *zkio.Session) { t(s) }
