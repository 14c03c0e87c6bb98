// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// script makes a history of lines about a worker and a lock, a process, or the harness. Each has
// what happens there, with the times in seconds:
//
//	p0 a: 1 request, 1.5 granted t10      process 0, worker 0: lock "a", token 10; t10.2 is turn 2 of it
//	p0w2 rw write: 1 request, 2 granted   worker 2; the mode of both is write
//	p0i1 s: 1 request n2                  process 0 when it has been started again; two permits
//	p0 a: 2 lost 0x1, 3 released unsure   the session; the text
//	p0 a: 1.5 write t10 ok                to the register, which has accepted it
//	p0: 1 session suspended               what it is told of its session, or session began 0x1
//	p0 a: 1.5 overlap t10                 what its referee sees; or overlap t10 fell, shared, rounds,
//	                                      or premature 2 3: beside the processes 2 and 3
//	h: 3 stopping                         the harness
//	h: 2 accepted a t10, 2 stale a t9     the register
//	h: 1 started p0, 3 ended p0           a process; or it ended in good order: ended p0 well
//	h: 1 began 3 kill-worker process 1    fault 3; or revoke lock a of a, which is about that lock
//	h: 2 over 3                           or, if it had no effect, over 3 failed
//	h: 2 expired 0x1                      the leader has ended the session; or a deposed one: expired 0x1 deposed
//	h: 5.2 stood 3.2                      the machine stood still until then, for 3.2 s
//	h: 3 left /x, 3 little happened       what is left, or too little; so also failure, overlap and disagree a
//
// A semicolon is as good as the end of a line. The operations of a worker on a lock follow each
// other. All is put in the order of time, and what is at the same time in that of the text; but
// what is behind a line "late" comes after all the rest.
func script(t testing.TB, text string) (events []history.Event) {
	t.Helper()
	ops, next := map[string]uint64{}, uint64(0)
	for part := range strings.SplitSeq(text, "\nlate") {
		before := len(events)
		for line := range strings.Lines(strings.ReplaceAll(part, ";", "\n")) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			head, happened, ok := strings.Cut(line, ": ")
			about := append(strings.Fields(head), "", "") // a worker, a lock and a mode
			if !ok || len(about) > 5 {
				t.Fatalf("line %q", line)
			}
			for what := range strings.SplitSeq(happened, ", ") {
				e := event(t, about, strings.Fields(what))
				if key := about[0] + " " + e.Lock; about[0] != "h" {
					if e.Kind == history.Request || ops[key] == 0 {
						next++
						ops[key] = next
					}
					e.Op = ops[key]
				}
				events = append(events, e)
			}
		}
		slices.SortStableFunc(events[before:], func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	}
	return events
}

// event makes the event of these words about a worker, a lock and a mode, or the harness.
func event(t testing.TB, about, words []string) history.Event {
	t.Helper()
	if len(words) < 2 {
		t.Fatalf("event %q", words)
	}
	e := history.Event{At: nanoseconds(t, words[0]), Kind: history.Kind(words[1]), Lock: about[1]}
	if about[0] == "h" {
		harness(t, &e, words[2:])
		return e
	}
	who(t, about[0], &e)
	switch e.Kind {
	case history.Request, history.Granted:
		e.Mode = history.Mode(about[2])
	case history.Overlap:
		e.Target, e.Text = history.SeenOverlap, "what the referee says"
	case history.Refused, history.Changed, history.Valid, history.Lost, history.Revoked, history.Release, history.Released, history.Write, history.Session, history.Alive, history.Failure:
	default:
		t.Fatalf("a worker does not write %q", e.Kind)
	}
	for _, word := range words[2:] {
		argument(t, &e, word)
	}
	return e
}

// nanoseconds reads a number of seconds.
func nanoseconds(t testing.TB, word string) int64 {
	t.Helper()
	seconds, err := strconv.ParseFloat(word, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(math.Round(seconds * 1e9))
}

// number reads a number.
func number(t testing.TB, word string) int {
	t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// seen are the words for what a referee sees.
var seen = map[string]string{
	"fell": history.SeenTokenFell, "shared": history.SeenTokenShared, "rounds": history.SeenTwoRounds, "premature": history.SeenPremature,
}

// whoWrites matches p1i2w3.
var whoWrites = regexp.MustCompile(`^p(\d+)(?:i(\d+))?(?:w(\d+))?$`)

// who reads which worker of which process it is.
func who(t testing.TB, word string, e *history.Event) {
	t.Helper()
	parts := whoWrites.FindStringSubmatch(word)
	if parts == nil {
		t.Fatalf("%q is no worker", word)
	}
	e.Process, e.Incarnation, e.Worker = number(t, parts[1]), number(t, "0"+parts[2]), number(t, "0"+parts[3])
}

// argument reads a word of what a worker writes.
func argument(t testing.TB, e *history.Event, word string) {
	t.Helper()
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
		e.Others = append(e.Others, number(t, word))
	case word == "ok":
		e.OK = true
	case strings.HasPrefix(word, "0x"):
		e.Session = word
	case word == "unsure", e.Kind == history.Session:
		e.Text = word
	case strings.HasPrefix(word, "n"):
		e.Permits = number(t, word[1:])
	default:
		t.Fatalf("%q is nothing that a worker writes", word)
	}
}

// harness reads the rest of what the harness writes.
func harness(t testing.TB, e *history.Event, words []string) {
	t.Helper()
	e.Process = history.Harness
	text := strings.Join(words, " ")
	switch e.Kind {
	case "began", "over":
		e.Fault = number(t, words[0])
		rest := words[1:]
		if i := slices.Index(rest, "of"); i >= 0 {
			e.Lock, rest = rest[i+1], rest[:i]
		}
		if e.Kind == "began" {
			e.Kind, e.Text, e.Target = history.FaultBegan, rest[0], strings.Join(rest[1:], " ")
		} else {
			e.Kind, e.OK = history.FaultEnded, !slices.Contains(words, "failed")
		}
	case history.Started, history.Ended:
		who(t, words[0], e)
		e.OK = slices.Contains(words, "well")
	case history.Accepted, history.Stale:
		e.Lock = words[0]
		for _, word := range words[1:] {
			argument(t, e, word)
		}
	case history.Expired:
		if e.Session = words[0]; slices.Contains(words, "deposed") {
			e.Text = history.Deposed
		}
	case "stood":
		e.Kind, e.Lasted, e.Text = history.StoodStill, nanoseconds(t, words[0]), "the machine stood still"
	case "little":
		e.Kind, e.Text = history.TooLittle, text
	case "disagree":
		e.Kind, e.Lock, e.Text = history.Disagreed, words[0], strings.Join(words[1:], " ")
	case "compared":
		e.Kind, e.Count = history.Compared, 7
	case history.Left, history.Failure, history.Overlap:
		e.Text = text
	case history.Stopping, history.Alive:
	default:
		t.Fatalf("the harness does not write %q", e.Kind)
	}
}

// header is that of the scripts.
func header() history.Header {
	return history.Header{
		Processes: 4, Goroutines: 4, SessionTimeout: int64(2 * time.Second), Tenure: int64(100 * time.Millisecond),
		Locks: []history.Lock{
			{Name: "a", Mode: history.Exclusive}, {Name: "m", Mode: history.Mutex}, {Name: "rw"},
			{Name: "s", Mode: history.Permit, Capacity: 2}, {Name: "one", Mode: history.Exclusive, Once: true}, {Name: "e*", Mode: history.Exclusive, Once: true},
		},
	}
}

// on returns the verdict on the history that these parts of a script are together.
func on(t testing.TB, h history.Header, parts ...string) verdict.Verdict {
	t.Helper()
	return judged(h, script(t, strings.Join(parts, "; ")))
}

// checkOf returns the check of that name.
func checkOf(v verdict.Verdict, name string) verdict.Check {
	return v.Checks[slices.IndexFunc(v.Checks, func(c verdict.Check) bool { return c.Name == name })]
}

// says reports whether one of the findings has that text in it.
func says(v verdict.Verdict, text string) bool {
	return slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return strings.Contains(f.Text, text) })
}

// judged returns the verdict on the events.
func judged(h history.Header, events []history.Event) verdict.Verdict {
	j := New(h)
	j.all(events...)
	return j.Finish()
}

// all adds the events.
func (j *Judge) all(events ...history.Event) {
	for _, e := range events {
		j.Add(e)
	}
}

// held are the events of a hold from its request until it is released, of which e has the rest.
func held(e history.Event, at, step int64) (events []history.Event) {
	for i, kind := range []history.Kind{history.Request, history.Granted, history.Release, history.Released} {
		e.At, e.Kind = at+int64(i)*step, kind
		events = append(events, e)
	}
	return events
}
