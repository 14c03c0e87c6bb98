// SPDX-License-Identifier: Apache-2.0

// Package sim simulates several processes that share locks while faults strike
// them, their connections and their server, in virtual time. It has only tests.
//
// One number, the seed, decides everything: how many processes there are, how they
// are configured, what their goroutines do, how long each request takes and which
// faults strike when. In a program that the weave command has prepared, it also
// decides the schedule: which goroutine runs when, and what happens between two
// atomic operations of another. There, the same seed always gives the same
// simulation, step by step:
//
//	make sim SEEDS=1000   1,000 seeds, from 501 on, each in a process of its own
//	make sim SEED=17      seed 17 again, with a log of what happened
//
// `go test ./internal/sim` simulates some seeds without weaving. The plan of each
// is the same, but Go's scheduler decides the rest; with -race, the race detector
// watches.
//
// In one seed of three the server is an ensemble, whose servers are cut off from each other, are
// slow, stop and elect leaders.
//
// A referee checks each simulation while it runs. A process that is told that it
// holds a lock must hold it by the embedded server's tree at that moment, in the
// order of the queue, and no other process may still be told so; fencing tokens
// must rise. In the end every call must have been answered, and no node, watch or
// session may be left.
//
// Timing is no excuse, since sessions end by the server's clock, and at the moment at which that
// is committed the lease of the session's process must be over. There is one
// exception: when the nemesis deletes a node or ends a session, its process has
// until the end of its lease to notice. The excuse covers that one node, and not
// another of the same name; and it does not cover a grant that came after the
// process was bound to know.
//
// Some breaches of the rules end well by luck, so the referee looks at the rules, too: no lease
// lasts for longer than half a session timeout after the session's last write, no lock is granted
// without a lease, and no session goes on at a server that is behind what it has seen.
//
// A simulation without faults shows little. So the branches of the code that
// handle faults are marked by comments that begin with //holdfast:reached, and
// over all seeds each must be reached.
package sim
