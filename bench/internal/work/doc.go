// SPDX-License-Identifier: Apache-2.0

// Package work is what the subjects of the benchmarks have in common: what is
// asked of a subject (Job), what it answers (Result), and the loops with which
// every subject that is written in Go is measured, so that they differ in
// nothing but the lock.
//
// # Subjects
//
// A subject is a program that takes and releases locks as it is told to. It is
// started once and stays for all measurements, so that what a virtual machine
// has compiled stays compiled; while others are measured it waits. It reads jobs
// from its standard input, one line of JSON each, and answers each with one line
// of JSON on its standard output; what it writes to its standard error is shown.
// It ends when its input does.
//
// The first job is [Hello]; the answer's Version says what the subject is. The
// other kinds of work are [Contend] and [Reenter]; what a subject cannot do, it
// answers with Unsupported and a reason.
//
// # Sessions
//
// Where the benchmarks speak of processes that contend, a subject opens as many
// sessions: each has a connection of its own, and shares nothing with the others
// but the subject's operating-system process. For ZooKeeper and for the locks that
// is the same as processes; and on a machine with few cores it keeps a virtual
// machine's start, thirty-two times over, out of the measurement.
package work
