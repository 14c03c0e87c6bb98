// SPDX-License-Identifier: Apache-2.0

// Command leadercron runs a job every second, on the leader of several processes, and
// catches up on what was due while no process led.
//
//	go run ./examples/leadercron                         on an embedded ZooKeeper server
//	go run ./examples/leadercron -servers host:2181      on yours
//
// On yours, run it several times at once, and end the one that leads. On the embedded
// server it is two processes in one: A runs the job for three seconds and ends, for three
// seconds there is no process, and B catches up.
//
// Cron is a recipe of its own, made of what package election offers any program: a leader
// reads and writes by [election.Leadership.Get] and [election.Leadership.Guard]. So a new
// leader sees what the last one has done, and one that was replaced and does not know it
// yet cannot put the time back. A leader can die after the job and before it has noted that
// it was done. The next one runs the job again then: it is run at least once.
package main
