// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strconv"
	"strings"
)

// A result is the parsed output of the checker.
type result struct {
	found    string // first error: an assertion, a cycle, an invalid end state
	tooSmall string // first error, if it is a limit of the model rather than a fault of the lock
	complete bool   // the search was exhaustive
	cut      string // why it was not

	states, depth   int64
	memory, seconds float64 // MB
}

// what summarizes the result.
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
	// Output of pan if the search was not exhaustive.
	cutOff = regexp.MustCompile(`(?m)^.*(max search depth too small|reached -DMEMLIM|out of memory|Search not completed|hash table full|VECTORSZ|Interrupted|aborting).*$`)
)

// parse parses pan's output. A search is complete only if the output has the number
// of errors and does not say that the search was cut short.
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
		n, _ := strconv.ParseFloat(m[1], 64) // the expression matches only numbers
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

// short shortens an assertion, as spin writes it, to fit a table.
func short(found string) string {
	found = strings.Join(strings.Fields(strings.TrimPrefix(found, "assertion violated")), " ")
	if len(found) > 48 {
		found = found[:45] + "..."
	}
	return found
}
