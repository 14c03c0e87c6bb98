// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// oldScript makes a history of lines such as
//
//	1.5 p0 granted a t10       process 0, worker 0: lock "a", token 10
//	1.5 p0w2 request a write   worker 2, mode write
//	1.5 p0i1 ...               process 0 when it has been started again
//	1.5 p0 session suspended   what it is told of its session, or session began 0x1
//	1.5 p0 overlap a t10       what its referee sees; or overlap a t10 fell, shared, rounds,
//	                           or premature 2 3: beside the processes 2 and 3
//	1.5 h stopping             the harness
//	1.5 h ended p0             the process has ended; or in good order: ended p0 well
//	1.5 h began 3 kill-worker process 1
//	1.5 h expired 0x1          the leader has ended the session; or a deposed one: expired 0x1 deposed
//	1.6 h over 3               or, if it had no effect, over 3 failed
//
// The operations of a worker on a lock follow each other. The lines are put in the order of
// time, but those after the line "late" come after all others.
func oldScript(t testing.TB, text string) (events []history.Event) {
	t.Helper()
	early, late, _ := strings.Cut(text, "\nlate")
	ops, next := map[string]uint64{}, uint64(0)
	return append(oldPart(t, early, ops, &next), oldPart(t, late, ops, &next)...)
}

// oldPart makes the events of a part of a script.
func oldPart(t testing.TB, text string, ops map[string]uint64, next *uint64) (events []history.Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) < 3 {
			t.Fatalf("line %q", line)
		}
		seconds, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		e := history.Event{At: int64(math.Round(seconds * 1e9)), Kind: history.Kind(words[2])}
		if words[1] == "h" {
			oldHarness(t, &e, words[2], words[3:])
			events = append(events, e)
			continue
		}
		who(t, words[1], &e)
		if e.Kind == history.Overlap {
			e.Target, e.Text = history.SeenOverlap, "what the referee says"
		}
		for _, word := range words[3:] {
			oldArgument(t, &e, word)
		}
		key := fmt.Sprint(words[1], e.Lock)
		if e.Kind == history.Request || ops[key] == 0 {
			*next++
			ops[key] = *next
		}
		e.Op = ops[key]
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// oldArgument reads a word of what a worker writes.
func oldArgument(t testing.TB, e *history.Event, word string) {
	switch mode := history.Mode(word); mode {
	case history.Exclusive, history.Mutex, history.Read, history.Upgradable, history.WriteMode, history.Permit:
		e.Mode = mode
		return
	}
	token, turn, _ := strings.Cut(strings.TrimPrefix(word, "t"), ".")
	n, err := strconv.ParseUint(token, 10, 64)
	switch {
	case err == nil && word[0] == 't':
		e.Token = n
		e.Turn, _ = strconv.ParseUint(turn, 10, 64)
	case e.Kind == history.Overlap && seen[word] != "":
		e.Target = seen[word]
	case e.Kind == history.Overlap && word[0] <= '9':
		e.Others = append(e.Others, int(word[0]-'0'))
	case word == "ok":
		e.OK = true
	case strings.HasPrefix(word, "0x"):
		e.Session = word
	case word == "unsure", e.Kind == history.Session:
		e.Text = word
	case strings.HasPrefix(word, "n"):
		e.Permits, err = strconv.Atoi(word[1:])
		if err != nil {
			t.Fatal(err)
		}
	default:
		e.Lock = word
	}
}

// oldHarness reads the rest of what the harness writes.
func oldHarness(t testing.TB, e *history.Event, kind string, words []string) {
	e.Process = history.Harness
	switch kind {
	case "began", "over":
		n, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatal(err)
		}
		rest := words[1:]
		if i := slices.Index(rest, "of"); i >= 0 {
			e.Lock, rest = rest[i+1], rest[:i]
		}
		if kind == "began" {
			e.Kind, e.Fault, e.Text, e.Target = history.FaultBegan, n, rest[0], strings.Join(rest[1:], " ")
		} else {
			e.Kind, e.Fault, e.OK = history.FaultEnded, n, !slices.Contains(rest, "failed")
		}
	case "started", "ended":
		who(t, words[0], e)
		e.OK = slices.Contains(words, "well")
	case "accepted", "stale":
		for _, word := range words {
			oldArgument(t, e, word)
		}
	case "expired":
		if e.Session = words[0]; slices.Contains(words, "deposed") {
			e.Text = history.Deposed
		}
	case "stood":
		seconds, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		e.Kind, e.Lasted, e.Text = history.StoodStill, int64(math.Round(seconds*1e9)), "the machine stood still"
	case "little":
		e.Kind, e.Text = history.TooLittle, strings.Join(words, " ")
	case "disagree":
		e.Kind, e.Lock, e.Text = history.Disagreed, words[0], strings.Join(words[1:], " ")
	case "compared":
		e.Kind, e.Count = history.Compared, 7
	case "left", "failure", "overlap":
		e.Text = strings.Join(words, " ")
	case "stopping", "alive":
	default:
		t.Fatalf("the harness does not write %q", kind)
	}
}
