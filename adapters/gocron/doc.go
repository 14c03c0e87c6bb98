// SPDX-License-Identifier: Apache-2.0

// Package gocron lets the processes of a service share the jobs of
// github.com/go-co-op/gocron/v2: every process has a scheduler with the same jobs, and
// Holdfast's locks decide which of them runs a job.
//
// The package has the name of the one that it extends. Import it under another:
//
//	import (
//		"github.com/go-co-op/gocron/v2"
//
//		holdfast "github.com/holdfast-go/holdfast/adapters/gocron"
//	)
//
//	locker, err := holdfast.New(m, holdfast.Config{}) // m is the process's *manager.Manager
//	if err != nil {
//		return err
//	}
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// The lock's name is the job's name, so give each job one, with gocron.WithName. Without
// it, a job has its function's name. Two jobs with one name exclude each other.
//
// # A job may still run twice
//
// A lock keeps two processes from running a job at the same time. It does not keep the
// second from running it after the first. If a job ends and gives its lock up before the
// timer of another process fires, because that process's clock is behind or the process was
// busy, that process gets the lock and runs the job again, for the same planned time.
//
// gocron expects its locker to cover such differences. [Config].Splay does: a lock is kept
// for that long, even if the job ends earlier. That makes a second run rare, but it cannot
// rule it out: a process may always be later than that. A job that must run once for each
// planned time needs a record of the times that were run. Use
// github.com/holdfast-go/holdfast/recipes/cron for it, which keeps one.
//
// A job may also be skipped or run twice when a process ends or is cut off. If it dies in
// the middle of a job, the other processes have skipped that run already, and the next
// run is theirs.
//
// # What happens when the lock is lost
//
// A process that is cut off from ZooKeeper loses its locks, and another may run the job.
// gocron gives a locker no way to tell its job, so the job must look:
//
//	gocron.NewTask(func(ctx context.Context) error {
//		hold := locker.Hold("nightly")
//		ctx, cancel := hold.Context(ctx) // ends when the lock is lost
//		defer cancel()
//		grant, err := hold.Grant() // grant.Token fences what the job writes
//		…
//	})
//
// Besides, [Config].OnLost is called.
//
// # Elector
//
// [Elector] is the other way to share jobs: one process, the leader, runs all of them. A
// job that is short does not run twice for that reason. But while the leader changes, the timer of
// one process may fire before it is the leader, and that of the other after it ceased to be:
// then no process runs the job at that time. If their clocks differ by longer than the
// change takes, both do.
package gocron
