// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strconv"
	"strings"
)

// A result is what the checker printed.
type result struct {
	found    string // the first error: an assertion, a cycle, an end that is none
	tooSmall string // it is that the model has not room enough: says nothing about the lock
	complete bool   // everything was searched
	cut      string // why not

	states, depth   int64
	memory, seconds float64 // MB
}

// what is the result in a word or two.
func (r result) what() string {
	switch {
	case r.tooSmall != "":
		return "too small"
	case r.found != "":
		return short(r.found)
	case !r.complete:
		return "cut off"
	}
	return "holds"
}

var (
	foundLine = regexp.MustCompile(`(?m)^pan:1: (assertion violated .*|acceptance cycle|non-progress cycle|invalid end state|.+) \(at depth \d+\)$`)
	errorsAre = regexp.MustCompile(`errors: (\d+)`)
	stored    = regexp.MustCompile(`(?m)^\s*(\d+) states, stored`)
	reached   = regexp.MustCompile(`depth reached (\d+)`)
	memory    = regexp.MustCompile(`(?m)^\s*([\d.]+)\s+total actual memory usage`)
	elapsed   = regexp.MustCompile(`elapsed time ([\d.]+) seconds`)

	// Assertions about the model's own arrays and channels.
	limits = regexp.MustCompile(`q_full\(rq|\(hi<`)
	// What pan says when it has not searched everything.
	cutOff = regexp.MustCompile(`(?m)^.*(max search depth too small|reached -DMEMLIM|out of memory|Search not completed|hash table full|VECTORSZ|Interrupted|aborting).*$`)
)

// parse reads pan's output. A search is complete only if it says how many errors
// there are, and nothing of having been cut off.
func parse(out string) result {
	var r result
	if m := foundLine.FindStringSubmatch(out); m != nil {
		r.found = strings.TrimSpace(m[1])
		if limits.MatchString(r.found) {
			r.tooSmall = r.found
		}
	}
	number := func(re *regexp.Regexp) float64 {
		m := re.FindStringSubmatch(out)
		if m == nil {
			return 0
		}
		n, _ := strconv.ParseFloat(m[1], 64) // the expression matches numbers only
		return n
	}
	r.states, r.depth = int64(number(stored)), int64(number(reached))
	r.memory, r.seconds = number(memory), number(elapsed)

	m := errorsAre.FindStringSubmatch(out)
	switch {
	case m == nil:
		r.cut = "the checker did not come to its end: " + lastLine(out)
	case m[1] != "0" && r.found == "":
		r.found = "an error of a kind that is not known: " + lastLine(out)
	case m[1] == "0":
		r.cut = strings.TrimSpace(cutOff.FindString(out))
		r.complete = r.cut == ""
	}
	return r
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// short leaves of an assertion, as spin writes it, what fits into a table.
func short(found string) string {
	found = strings.Join(strings.Fields(strings.TrimPrefix(found, "assertion violated")), " ")
	if len(found) > 48 {
		found = found[:45] + "..."
	}
	return found
}
