// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// connect returns a Manager on a ZooKeeper server within this process. A program would have its own
// configuration here.
func connect() (m *manager.Manager, done func()) {
	quiet := slog.New(slog.DiscardHandler)
	srv := zktest.NewServer(zktest.Config{Logger: quiet})
	m, err := manager.Open(context.Background(), manager.Config{Servers: []string{"embedded"}, Dialer: srv.Dial, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	return m, func() {
		_ = m.Close()
		_ = srv.Close()
	}
}

// The job runs at each planned time on one of the processes that call Run.
func Example() {
	m, done := connect()
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	c, err := cron.New(m, "reports", cron.Options{
		Schedule: cron.Every(50 * time.Millisecond), // five minutes, say
		Missed:   cron.RunAll,                       // each of them is needed
		Attempts: 3,                                 // if the process dies in the middle
	})
	if err != nil {
		log.Fatal(err)
	}
	var last cron.Tick
	err = c.Run(ctx, func(ctx context.Context, t cron.Tick) error {
		if last.Attempt > 0 {
			fmt.Println("planned", t.Planned.Sub(last.Planned), "after the last, with the same token:", t.Token == last.Token)
			stop() // for the example
		}
		last = t
		return nil // or what went wrong; ctx ends when this process must stop
	})
	fmt.Println("stopped:", errors.Is(err, context.Canceled))
	// Output:
	// planned 50ms after the last, with the same token: true
	// stopped: true
}

// Each process has a timer of its own, and calls RunDue. The first that comes runs the job.
func ExampleCron_RunDue() {
	m, done := connect()
	defer done()
	ctx := context.Background()
	clock := time.Date(2026, 3, 1, 11, 59, 0, 0, time.UTC) // for the example
	c, err := cron.New(m, "reports", cron.Options{
		Schedule: cron.Every(time.Hour),
		Now:      func() time.Time { return clock },
	})
	if err != nil {
		log.Fatal(err)
	}
	onTimer := func() {
		n, err := c.RunDue(ctx, func(ctx context.Context, t cron.Tick) error {
			fmt.Println("the report of", t.Planned.Format("15:04"))
			return nil
		})
		switch {
		case errors.Is(err, manager.ErrLocked):
			fmt.Println("another process is at it")
		case err != nil:
			log.Fatal(err)
		case n == 0:
			fmt.Println("nothing is due")
		}
	}
	if err := c.Begin(ctx); err != nil { // when the program starts
		log.Fatal(err)
	}
	onTimer()
	clock = clock.Add(time.Minute)
	onTimer()
	onTimer()
	// Output:
	// nothing is due
	// the report of 12:00
	// nothing is due
}
