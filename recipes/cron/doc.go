// SPDX-License-Identifier: Apache-2.0

// Package cron runs a job once for each planned time, on one of several processes.
//
// The process that runs the job has a lock of package manager, and everything that its
// documentation promises and does not promise holds for it. The others wait in the lock's queue, and
// the next of them takes over when it ends. The job gets the time for which its run is planned and a
// fencing token, as a [Tick].
//
//	c, err := cron.New(m, "reports", cron.Options{Schedule: cron.Every(5 * time.Minute)})
//	…
//	err = c.Run(ctx, func(ctx context.Context, t cron.Tick) error {
//		return report(ctx, t.Planned, t.Token)
//	})
//
// [Cron.Run] has a timer and runs the job for as long as the program likes. [Cron.RunDue] is for
// programs that have a timer of their own. For cron expressions use the parser of
// github.com/robfig/cron, whose schedules are Schedules as they are:
//
//	schedule, err := robfig.ParseStandard("*/5 * * * *")
//
// # What is promised
//
// Before a run begins, its planned time is claimed in ZooKeeper, in a record that only the process
// that has the lock can change, and only from what it has read. The next planned time is the one that
// the Schedule names after the last one that was claimed. So
//
//   - each planned time is begun once. If its run is interrupted, it counts as run: at most once;
//   - with Options.Attempts of more than one, an interrupted run is begun again, by whichever process is
//     next, with Tick.Attempt 2. With RunAll, which passes over none, each planned time is run to its
//     end at least once, unless all of its attempts are interrupted;
//   - a wall clock that is set back repeats no planned time, and one that is set forward leaves none
//     out, but for what Options.Missed says: they are run late or early.
//
// Exactly once needs the help of what the job writes to. A process that was paused goes on for a moment
// after it has lost the lock, and its job may have requests under way when the next run begins. So
// have the resource store Tick.Planned and Tick.Token with what it stores, and refuse a run with a lower
// token, and one whose planned time it has already, unless Attempt says that it may be half done.
// For data in the same ZooKeeper, [manager.Hold.Guard] of Tick.Hold does that.
//
// A run that takes longer than to the next planned time makes that one late; two runs never
// overlap, unless a lock was lost. A job that ignores the end of its context delays its own process only: another process takes
// over as soon as the lock is lost, and the two jobs run at the same time until the first returns.
//
// If a program comes with another schedule, that counts from the last planned time on.
//
// The first process that comes notes in the record that the schedule begins at that moment. So what is
// planned before is not missed, and what is planned after it is not lost if that process ends.
//
// # Clocks
//
// Whether a planned time has come is decided by the clock of the machine that runs the job. Keep the clocks
// of all machines synchronized: if the next process's clock is behind by a second, a run is late by that.
// If a process whose clock is ahead by a year runs the job, nothing is due for a year then: [EventAhead]
// tells of that. To mend it, have the schedule begin anew, as the next section says. A process notices
// within a second that its clock was set.
//
// # When the record is damaged
//
//   - Deleted: the process that has the lock writes it again with its next run, and goes on. It does so
//     too if [Cron.Begin] of a process whose clock is behind has made a new one meanwhile. If
//     another process gets the lock before, the schedule begins anew. So to begin anew, delete the
//     record, and have the lock revoked: holdfast revoke <name>/lock.
//   - Changed by another client: what it says counts once it is read. The process that runs the job reads
//     it when its next write finds that it was changed, which is at the next planned time that it knows
//     of, and every ten seconds while the record is more than a minute in the future. A process that gets
//     the lock reads it, too, so a revocation has it read at once. To have times run again, set planned
//     back, and state to done.
//   - Not readable: Run fails with [ErrBadRecord] in every process, and the job does not run.
//   - A state that this version does not know counts as done, and fields that it does not know are
//     left out when it writes the record.
//
// # Costs and limits
//
// A run costs two small writes. The process that runs the job looks at the clock once a second, and
// sends nothing for that beside what keeps the lock, unless the record is in the future; the others cost what waiters for a lock cost. If
// the process dies, ZooKeeper notices after the session timeout, and another one goes on:
// within the session timeout, plus tickTime, plus half a second. Planned times closer to each other than
// a few round trips to ZooKeeper become late. However many planned times are past, no more than
// some thousand steps are spent on passing over them, which assumes that Schedule.Next rises with t.
//
// # Nodes
//
//	<name>/lock      the lock's queue
//	<name>/record    {"planned": "2026-03-01T05:00:00Z", "state": "done", "token": 4294967302, "attempt": 1, "id": "4711@db7"}
//
// The record stays when the last process has gone.
package cron
