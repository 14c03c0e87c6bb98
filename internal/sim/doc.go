// SPDX-License-Identifier: Apache-2.0

// Package sim is a simulation of several processes that share locks, and of all
// that goes wrong between them and ZooKeeper, in virtual time. It has tests only.
//
// One number, the seed, decides everything: how many processes there are and how
// they are configured, what each of their goroutines does, how long each request
// takes, which faults strike when, and, in a program that the weave command has
// prepared, which goroutine runs when and what comes between two atomic
// operations. A simulation of the same seed is the same one, to the last step:
//
//	make sim SEEDS=1000   1,000 seeds, each in a process of its own
//	make sim SEED=17      seed 17 again, with all that happened in it
//
// `go test ./internal/sim` simulates some seeds without the weaving: the plan of
// each is the same, but Go's scheduler decides the rest, and with -race the race
// detector watches.
//
// Each simulation is checked while it runs: whoever is told that he holds a lock
// must hold it by the embedded server's tree at that moment, in the order of the
// queue, with nobody else inside who is still told so; and tokens must rise.
// After it, everybody must have been answered and nothing must be left. What the
// checks do not accept as an excuse is timing: sessions end by the server's
// clock. Only for a node that an administrator deletes, or a session that he
// ends, is there a grace, since no client can know of that in advance.
//
// A run that saw no fault shows nothing, so the branches that handle faults are
// counted (see the comments that begin with //holdfast:reached in the code), and
// over all seeds each must have been taken.
package sim
