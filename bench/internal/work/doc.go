// SPDX-License-Identifier: Apache-2.0

// Package work defines the subjects of the benchmarks: the jobs they get (Job), the
// answers they give (Result), and the loops that measure every subject written in
// Go, so that these differ only in the lock.
//
// # Subjects
//
// A subject is a program that takes and releases locks as told. It is started once
// and stays for all measurements, so that a virtual machine keeps its compiled code;
// it is idle while others are measured. It reads jobs from its standard input, one
// line of JSON each, and answers each with a line of JSON on its standard output.
// Its standard error is shown. It exits at the end of its input.
//
// The first job is [Hello], which asks for the subject's version. The other kinds of
// work are [Contend], [Line], [Drain], [Reenter], [Many], [Footprint], [Own]
// and [Expire]. To a job that it cannot do a
// subject answers with Unsupported and a reason.
//
// # Sessions
//
// For each contending process of a scenario, a subject opens a session. Sessions
// have their own connections and share only the operating-system process. To
// ZooKeeper and to the locks they are like processes, and measurements on a machine
// with few cores do not include starting thirty-two virtual machines.
package work
