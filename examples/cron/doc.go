// SPDX-License-Identifier: Apache-2.0

// Command cron runs a job once a second on one of several machines.
//
//	go run ./examples/cron                         on an embedded ZooKeeper server
//	go run ./examples/cron -servers host:2181      on yours
//
// It starts three processes, which stand for machines, and prints what they do. One of
// them gets the job's lock and runs the job. In the middle of a run the program sends
// it SIGTERM: it finishes the run and gives the lock up, and the next process goes on
// at once. That one is killed in the middle of a run: the third process goes on when
// ZooKeeper has given up on the session of the second, which takes the session timeout.
//
// Cron in cron.go is what you would copy. Its lines to look at are these:
//
//   - The wait for the lock ends with SIGTERM. A run does not: it has a context of its
//     own, from [manager.Hold.Context], which ends only when the lock is lost. Then
//     another machine may be about to begin the next run, so the job has to stop.
//   - Each run begins with [manager.Hold.Grant]. It reads the clock, so after a pause
//     of the machine it reports that the lock was lost meanwhile, and no run begins.
//   - The job gets the fencing token and passes it to what it writes to. A job that was
//     killed may have requests under way, and one that was paused in the middle of a
//     run goes on for a moment: only a store that refuses tokens lower than the highest
//     it has seen keeps such late writes out.
//
// The lock says that no two machines run the job at the same time. It does not say that
// each run is complete: a machine can die in the middle of one. So a job should be able
// to run again after half a run, or note in its store how far it has come.
//
// Nor does it say what becomes of a run that was due while no machine was there. Package
// recipes/cron does, for jobs that are planned at certain times.
package main
