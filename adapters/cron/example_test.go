// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"fmt"
	stdlog "log"

	robfig "github.com/robfig/cron/v3"

	adapter "github.com/holdfast-go/holdfast/adapters/cron"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Each process has a Cron and adds the job to it. One of them runs it at each planned time.
func Example() {
	srv := zktest.NewServer(zktest.Config{Logger: quiet}) // a program would have ZooKeeper's servers
	defer srv.Close()
	ctx := context.Background()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{"embedded"}, Dialer: srv.Dial, Logger: quiet})
	if err != nil {
		stdlog.Fatal(err)
	}
	defer m.Close()

	c := robfig.New()
	schedule, err := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour).Parse("* * *") // each second, for the example
	if err != nil {
		stdlog.Fatal(err)
	}
	once, err := adapter.New(ctx, m, "reports", schedule, robfig.DiscardLogger, cron.Options{Location: c.Location()})
	if err != nil {
		stdlog.Fatal(err)
	}
	ran := make(chan string, 10)
	c.Schedule(schedule, once.Job(func(ctx context.Context, t cron.Tick) error {
		ran <- fmt.Sprintf("attempt %d, with a token: %t", t.Attempt, t.Token > 0)
		return ctx.Err() // it ends when the lock is lost
	}))
	c.Start()
	fmt.Println(<-ran)
	stopped := c.Stop()
	if err := m.Shutdown(ctx); err != nil { // waits for the run under way
		stdlog.Fatal(err)
	}
	<-stopped.Done()
	// Output: attempt 1, with a token: true
}
