// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// connect returns a Manager on a ZooKeeper server within this process. A program would
// have its own configuration here.
func connect() (m *manager.Manager, done func()) {
	quiet := slog.New(slog.DiscardHandler)
	srv := zktest.NewServer(zktest.Config{Logger: quiet})
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"embedded"}, Dialer: srv.Dial, Logger: quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	return m, func() {
		_ = m.Close()
		_ = srv.Close()
	}
}

// The function runs on one process at a time.
func ExampleElection_Run() {
	m, done := connect()
	defer done()
	e, err := election.New(m, "reports", election.Options{ID: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	err = e.Run(context.Background(), func(ctx context.Context, l *election.Leadership) error {
		fmt.Println("leading:", l.Token() != 0, ctx.Err())
		return errors.New("out of work")
	})
	fmt.Println(err)
	// Output:
	// leading: true <nil>
	// out of work
}

func ExampleElection_Campaign() {
	m, done := connect()
	defer done()
	ctx := context.Background()
	e, err := election.New(m, "reports", election.Options{ID: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for step := range 2 {
		if err := l.Err(); err != nil { // before each step that only the leader takes
			log.Fatal(err)
		}
		fmt.Println("step", step)
	}
	fmt.Println(l.Resign(ctx))
	// Output:
	// step 0
	// step 1
	// <nil>
}

// An observer learns who leads, and what the leader proclaims.
func ExampleElection_Observe() {
	m, done := connect()
	defer done()
	ctx := context.Background()
	e, err := election.New(m, "reports", election.Options{ID: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	leaders := e.Observe(ctx)
	fmt.Println("there is a leader:", (<-leaders).Token != 0)
	l, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the leader is", (<-leaders).ID)
	if err := l.Proclaim(ctx, []byte("report 17 is due")); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("it says: %s\n", (<-leaders).Data)
	_ = l.Resign(ctx)
	// Output:
	// there is a leader: false
	// the leader is 10.0.0.7:8080
	// it says: report 17 is due
}

// A leader writes to ZooKeeper only while it leads, however late the write arrives.
func ExampleLeadership_Guard() {
	m, done := connect()
	defer done()
	ctx := context.Background()
	e, err := election.New(m, "reports", election.Options{ID: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	next := zkio.CreateOp("/next-report", []byte("17"), nil)
	_, err = l.Guard(ctx, next)
	fmt.Println("leading:", err)
	if err := l.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = l.Guard(ctx, next)
	fmt.Println("resigned:", errors.Is(err, election.ErrResigned))
	// Output:
	// leading: <nil>
	// resigned: true
}
