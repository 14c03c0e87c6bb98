// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"

	holdfast "github.com/holdfast-go/holdfast/adapters/gocron"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
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

// Of all processes with this scheduler, one runs the job.
func Example() {
	m, done := connect()
	defer done()
	locker, err := holdfast.New(m, holdfast.Config{
		OnLost: func(key string, err error) { log.Printf("%s runs without its lock: %v", key, err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan string)
	_, err = scheduler.NewJob(
		gocron.OneTimeJob(gocron.OneTimeJobStartDateTime(time.Now().Add(10*time.Millisecond))),
		gocron.NewTask(func(ctx context.Context) error {
			hold := locker.Hold("nightly")
			ctx, cancel := hold.Context(ctx) // ends when the lock is lost
			defer cancel()
			grant, err := hold.Grant()
			if err != nil {
				return err
			}
			ran <- fmt.Sprint("the job runs, with a token: ", grant.Token != 0)
			return ctx.Err()
		}),
		gocron.WithName("nightly"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println(<-ran)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: the job runs, with a token: true
}

// Of all processes with this scheduler, the leader runs all jobs.
func ExampleElector() {
	m, done := connect()
	defer done()
	e, err := election.New(m, "scheduler", election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	elector := holdfast.NewElector(e)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan string, 1)
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
		select {
		case ran <- "the leader runs the job":
		default:
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println(<-ran)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(elector.Close(context.Background()))
	// Output:
	// the leader runs the job
	// <nil>
}
