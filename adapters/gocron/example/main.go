// SPDX-License-Identifier: Apache-2.0

// Example has three processes with a gocron scheduler each and the same job, every two
// seconds. One process at a time runs it. One is killed in the middle of a run: the others
// have skipped that run, and run the job again when the lock of the killed process is free.
//
//	go run ./example
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	holdfast "github.com/holdfast-go/holdfast/adapters/gocron"
	"github.com/holdfast-go/holdfast/adapters/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

const interval = 2 * time.Second

func main() {
	var check checker
	demo.Main(demo.Program{Work: work, Watch: check.watch})
}

// work is a process: a scheduler with one job.
func work(ctx context.Context, m *manager.Manager, _ string) error {
	locker, err := holdfast.New(m, holdfast.Config{
		OnLost: func(key string, err error) { fmt.Println("lost", key, err) },
	})
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	job := func(ctx context.Context) error {
		hold := locker.Hold("nightly")
		ctx, cancel := hold.Context(ctx)
		defer cancel()
		grant, err := hold.Grant()
		if err != nil {
			return err
		}
		fmt.Printf("begins the run of %s, token %d\n", time.Now().Truncate(interval).Format(time.TimeOnly), grant.Token)
		select {
		case <-time.After(700 * time.Millisecond):
			fmt.Println("ends it")
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	skipped := func(_ uuid.UUID, _ string, err error) {
		if holder := new(manager.Error); errors.As(err, &holder) && holder.Holder != nil {
			fmt.Println("skips a run: the lock is held by process", holder.Holder.PID)
			return
		}
		fmt.Println("skips a run:", err)
	}
	_, err = scheduler.NewJob(gocron.DurationJob(interval), gocron.NewTask(job), gocron.WithName("nightly"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Truncate(interval).Add(2*interval))),
		gocron.WithEventListeners(gocron.AfterLockError(skipped)))
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown()
}

// A checker fails if a run is begun twice, or two at a time.
type checker struct {
	begun, ended map[string]bool // runs, by their planned times
	running      string          // the process that runs the job
	run, killed  string
}

func (c *checker) watch(process, line string) (demo.Next, error) {
	if c.begun == nil {
		c.begun, c.ended = map[string]bool{}, map[string]bool{}
	}
	switch {
	case strings.HasPrefix(line, "begins"):
		run := strings.Fields(line)[4]
		if c.begun[run] {
			return 0, fmt.Errorf("the run of %s is begun twice", run)
		}
		if c.running != "" {
			return 0, fmt.Errorf("%s begins while %s runs the job", process, c.running)
		}
		c.begun[run], c.running, c.run = true, process, run
		if len(c.begun) == 2 {
			c.running, c.killed = "", process
			return demo.Kill, nil
		}
	case line == "ends it" && process != c.killed:
		c.ended[c.run], c.running = true, ""
		if len(c.ended) == 3 {
			fmt.Printf("%d runs were begun, each by one process, and %d have ended\n", len(c.begun), len(c.ended))
			return demo.End, nil
		}
	}
	return demo.GoOn, nil
}
