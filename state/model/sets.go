// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
)

// sets has the sets of searches for -set.
var sets = map[string]func() []search{
	"quick": quick,
	"full":  func() []search { return slices.Concat(quick(), more(), naive()) },
	"long":  long,
}

// quick is the set that every change must pass: one process with every kind of trouble,
// and all wrong variants of its rounds. None of them is deep.
func quick() []search {
	searches := slices.Concat(
		rounds(holds, "",
			[]string{},
			[]string{"CANCEL=1"},
			[]string{"GATE"},
			[]string{"LOST=2"}, // like one loss of two joined requests
			[]string{"REFUSE=1"},
			[]string{"SHUT=1"},
			[]string{"WORKERS=2"},
			[]string{"FULL1"},
			[]string{"GATE", "REOPEN"},
		),
		large(rounds(holds, "",
			[]string{"EXPIRE=0"},
			[]string{"FINE"},
		)),
		large(rounds(holds, progress,
			[]string{"CANCEL=1"},
		)),
		rounds(holds, "answered",
			[]string{"STAY", "LIVE=0"},
			[]string{"STAY", "LIVE=0", "GATE"},
			[]string{"STAY", "LIVE=2", "GATE"},
			[]string{"STAY", "LIVE=0", "GATE", "REOPEN", "PROBE=1", "LONG"}, // a newcomer, beside a holder that stays
		),
		wrong(),
	)
	for i := range searches {
		searches[i].depth = cmp.Or(searches[i].depth, 1_000_000)
		searches[i].plain = true // the largest, of two million states, takes 641 MB
	}
	return searches
}

// large marks searches of some hundred thousand states.
func large(searches []search) []search {
	for i := range searches {
		searches[i].large = true
	}
	return searches
}

// shallow is a depth at which an error is found soon; a deeper search would first
// explore long paths.
const shallow = 150

// wrong returns searches of the wrong variants of rounds.
func wrong() []search {
	return slices.Concat(
		rounds(fails, "",
			[]string{"V_LATELOAD"},
			[]string{"V_EARLY"},
			[]string{"V_CANCEL", "SOFT", "CANCEL=1"},
			[]string{"V_CANCELD", "CANCEL=1"},
			[]string{"V_GRANT0", "CANCEL=1"},
			[]string{"V_WANTFIRST", "CANCEL=1"},
			[]string{"V_ADMIT"},
			[]string{"V_NOLINK", "SOFT"},
			[]string{"V_NOAGAIN"},
			[]string{"V_NOGUARD", "WORKERS=2"},
			[]string{"V_ORDER", "FINE", "WORKERS=2"},
			[]string{"V_CURFIRST", "CANCEL=1", "WORKERS=2"},
			[]string{"V_NOSETTLE", "REFUSE=1"},
			[]string{"V_WAKEFIRST", "SHUT=1"},
			[]string{"V_SHUT", "SHUT=1"},
			[]string{"V_DEADLEAVE", "REFUSE=1"},
			[]string{"V_DEADLINE", "EXPIRE=0"},
			[]string{"V_REVIVE", "EXPIRE=0"},
			[]string{"V_RECHECK", "EXPIRE=0"},
			[]string{"V_LATEMARK", "EXPIRE=0"},
			[]string{"V_NOREQUEUE", "EXPIRE=0"},
			[]string{"V_ORPHAN", "LOST=1"},
			[]string{"V_FREEGATE", "GATEANY"},
			[]string{"V_COUNTLATE", "GATE", "REOPEN"},
			[]string{"V_BACK", "GATE", "REOPEN"},
		),
		rounds(fails, progress,
			[]string{"V_CUT", "FINE"},
		),
		rounds(fails, "answered",
			[]string{"STAY", "LIVE=2"}, // without a tenure
			[]string{"V_SHUT4EVER", "STAY", "LIVE=0", "GATE", "REOPEN", "PROBE=1", "LONG"},
			[]string{"V_NOMOVE", "STAY", "LIVE=0", "GATE", "REOPEN", "PROBE=1", "LONG"},
			[]string{"V_NOASK", "STAY", "LIVE=0", "GATE", "REOPEN", "PROBE=1", "LONG"},
			[]string{"V_OPENEARLY", "STAY", "LIVE=2", "GATE", "REOPEN"},
		),
	)
}

// more returns searches of two full processes, with one kind of trouble each, of one with two
// kinds, and the longest of one with one kind.
func more() []search {
	return slices.Concat(
		large(rounds(holds, "",
			[]string{"SHUT=2"},
			[]string{"GATE", "REOPEN", "CANCEL=1", "K=6"},
			[]string{"GATE", "REOPEN", "SHUT=1", "K=6"},
		)),
		large(rounds(holds, "answered",
			[]string{"STAY", "LIVE=2", "GATE", "REOPEN", "PROBE=2"}, // a contender that stays
		)),
		rounds(holds, "",
			[]string{"GATEANY"},
			[]string{"FULL1", "LOST=1"},
			[]string{"FULL1", "CANCEL=1"},
		),
		rounds(holds, progress,
			[]string{"FINE"},
		),
	)
}

// naive returns searches of the wrong designs that rounds rule out. A change of rounds.pml does not
// change what they show, so the quick set is without them.
func naive() []search {
	return []search{
		{model: "lock.pml", defs: []string{"NAIVE_FAIL", "MAXEXP=0", "LIVE", "UNSTICK"}, ltl: "unstick", want: fails},
		{model: "lock.pml", defs: []string{"NAIVE_BARGE", "MAXEXP=0", "LIVE"}, ltl: "live", want: fails},
		{model: "lock.pml", defs: []string{"NAIVE_SIGNAL", "MAXEXP=0"}, want: fails},
		{model: "lock.pml", defs: []string{"NAIVE_EXPIRY"}, depth: shallow / 2, want: fails},
		{model: "lock.pml", defs: []string{"NAIVE_ORPHAN", "MAXEXP=0"}, depth: shallow, want: fails},
		{model: "lock.pml", defs: []string{"NAIVE_END"}, depth: shallow, want: fails},
	}
}

// long returns searches that take longer than minutes.
func long() []search {
	searches := rounds(holds, "",
		[]string{"FULL1", "EXPIRE=0"},
		[]string{"FULL1", "EXPIRE=1"},
		[]string{"TWO1", "CANCEL=3", "EXPIRE=0", "K=6"},
		[]string{"TWO1", "CANCEL=3", "EXPIRE=0", "GATE", "LOST=1", "FINE", "WORKERS=2", "K=7"},
	)
	for i := range searches {
		searches[i].bits = true
	}
	return searches
}

func rounds(want outcome, ltl string, defs ...[]string) (searches []search) {
	for _, d := range defs {
		searches = append(searches, search{model: "rounds.pml", defs: d, ltl: ltl, want: want})
	}
	return searches
}

// canaries returns searches of a small model that show that spin, the compiler and
// judge work on this machine. wrong is part of the expected verdict, or "" if the
// search should pass.
func canaries() []canary {
	c := func(want outcome, limit, depth int, wrong string, defs ...string) canary {
		return canary{search{model: "canary.pml", defs: defs, want: want, memory: limit, depth: depth}, wrong}
	}
	return []canary{
		c(holds, 0, 0, "", "GOOD"),
		c(fails, 0, 0, "", "BAD"),
		c(holds, 0, 0, "found: assertion violated", "BAD"),
		c(fails, 0, 0, "found no error", "GOOD"),
		c(holds, 0, 0, "found: invalid end state", "STUCK"),
		c(holds, 0, 50, "incomplete", "GOOD"),
		c(fails, 0, 50, "incomplete", "GOOD"),
		c(holds, 20, 0, "incomplete", "GOOD", "LARGE"),
	}
}

type canary struct {
	search
	wrong string
}
