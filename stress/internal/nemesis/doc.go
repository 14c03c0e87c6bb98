// SPDX-License-Identifier: Apache-2.0

// Package nemesis injects faults into a run of the stress harness.
//
// [Kinds] are the kinds of faults. [Parse] reads which of them a person wants, and
// [NewSchedule] decides, by a seed, when each comes. [Run] injects them, and says so in
// the history.
//
// A fault hits a server of an ensemble, a worker process, the connections of one, or a
// lock's nodes. Two faults never hit servers at the same time, and each of those is short,
// so the ensemble has a majority again soon. Faults of the other kinds overlap with those
// and with each other, but no two hit the same process at the same time. Every fault
// is undone before Run returns.
//
// A fault that hits a process which neither holds nor awaits a lock shows little. So Run
// prefers processes that do both, and then those that do one.
package nemesis
