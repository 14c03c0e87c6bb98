// SPDX-License-Identifier: Apache-2.0

// Package cron has the jobs of github.com/robfig/cron run once for each planned time, over all
// machines that run the same program. It is a module of its own:
//
//	go get github.com/holdfast-go/holdfast/adapters/cron
//
// Each process keeps its robfig Cron, and each of those fires at each planned time. The first that fires
// claims the planned time in ZooKeeper and runs the job; the others find that it has run, or that it
// runs, and do nothing:
//
//	c := robfig.New()
//	schedule, err := robfig.ParseStandard("*/5 * * * *")
//	…
//	once, err := adapter.New(ctx, m, "reports", schedule, nil, cron.Options{Location: c.Location()})
//	…
//	c.Schedule(schedule, once.Job(func(ctx context.Context, t cron.Tick) error { … }))
//
// Jobs that you have already are wrapped: robfig.NewChain(once.Wrap).Then(job).
//
// # What it promises
//
// What package recipes/cron promises for RunDue: each planned time is begun once, in order, with a rising
// fencing token, however the clocks of the machines differ. If the process that runs the job dies,
// Options.Attempts decides whether it counts as run. Choose RunAll with it: at the next firing a newer
// planned time is due, and RunLatest, the default, passes over the one that was interrupted, as Skip does
// unless Options.Grace is longer than the time between two.
//
// # What it does not promise
//
//   - A firing has no planned time. The job is run for the planned times that are past when a process
//     fires, by the clock of that process, and Tick.Planned says for which.
//   - There is no timer beside robfig's. If all processes miss a firing, or the one that runs the job dies
//     in the middle, the next firing after the lock is free catches up, as Options.Missed says: with
//     RunLatest, the default, it runs the newest planned time only.
//   - A firing during a run of the same job does nothing. The next firing after the run catches up.
//   - The planned times of "@every 1h" depend on when the schedule was asked, in each process: a run comes
//     up to an hour late. Use "0 * * * *", or Every of package recipes/cron, which are the same in all.
//   - The processes must agree on the schedule, its location and the options.
//   - With Wrap, the job cannot know that the lock was lost, and goes on. With Job, it stops when its
//     context ends.
//
// For a program that has no robfig Cron yet, Run of package recipes/cron is simpler, with robfig's parser: it
// has a timer of its own, on the one process that has the lock, which catches up at once.
//
// # How to stop
//
// Stop the robfig Cron, shut the Manager down, and then wait for the context that Stop has returned:
//
//	stopped := c.Stop()    // no firing any more
//	err := m.Shutdown(ctx) // waits for the run under way, until ctx ends
//	<-stopped.Done()
//
// Not the other way round: in an outage a firing waits for ZooKeeper until the Manager ends it.
package cron
