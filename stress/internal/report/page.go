// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/judge"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"css":    func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // it is ours
	"js":     func() template.JS { return template.JS(pageJS) },    //nolint:gosec // it is ours
	"policy": func() string { return contentSecurityPolicy },
	"text":   func(s string) string { return clean(s, longText) },
	"long":   func(s string) string { return clean(s, longFinding) },
	"number": number[int],
	"count":  number[uint64],
	"ms":     func(ms float64) string { return durationText(time.Duration(ms * float64(time.Millisecond))) },
}).Parse(pageHTML))

// contentSecurityPolicy lets the browser run the page's own script and apply its own
// style, which it knows by their hashes. It forbids all else.
var contentSecurityPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; " +
	"style-src " + hashOf(pageCSS) + "; script-src " + hashOf(pageJS)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Limits of texts and tables.
const (
	longName    = 100
	longFinding = 4000
	mostRows    = 400 // of a table of faults or losses
	mostLost    = 40  // lost holds listed for one fault
	mostActive  = 20  // faults listed for one lost hold
	mostFaults  = 5000
)

// A view is what the template of the page gets.
type view struct {
	c        *collector
	Data     template.JS
	Pictures []string // names of pages beside this one, of what is not linearizable
}

func newView(c *collector, data []byte, pictures []string) view {
	return view{c, template.JS(data), pictures} //nolint:gosec // encoding/json has made it safe
}

// Outcome returns the verdict in a word.
func (v view) Outcome() string {
	if v.c.soFar != 0 {
		return string(v.c.verdict.Outcome) + " so far"
	}
	return string(v.c.verdict.Outcome)
}

// Class returns how the verdict is to look.
func (v view) Class() string {
	switch v.c.verdict.Outcome {
	case judge.OK:
		return "good"
	case judge.Void:
		return "warn"
	}
	return "bad"
}

// Sentence returns what the run has shown.
func (v view) Sentence() string {
	j := v.c.verdict
	var b strings.Builder
	switch j.Outcome {
	case judge.Violation:
		fmt.Fprintf(&b, "a lock failed to exclude (%s): ", count(j.Found, "finding"))
	case judge.Failed:
		fmt.Fprintf(&b, "the locks excluded, but something else is wrong (%s): ", count(j.Found, "finding"))
	case judge.Void:
		if j.Diverged != "" {
			fmt.Fprintf(&b, "ZooKeeper's servers contradicted each other %s. What was found shows nothing about the locks: ", j.Diverged)
			break
		}
		b.WriteString("too little happened, or too little of it could be judged, to show anything: ")
	}
	fmt.Fprintf(&b, "%s to %s", count(int(j.Grants), "grant"), count(v.c.header.Processes, "process")) //nolint:gosec // no run has so many
	if n := j.FaultCount(); n == 0 {
		b.WriteString(", no faults")
	} else {
		kinds := map[string]bool{}
		for _, f := range j.Faults {
			kinds[f.Kind] = f.N > 0
		}
		for _, h := range j.Injected {
			kinds[h.Kind] = true
		}
		fmt.Fprintf(&b, ", %s of %s", count(n, "fault"), count(numberOf(kinds), "kind"))
	}
	switch {
	case j.LostHolds == 0:
		b.WriteString(", no hold lost")
	case j.ToldLate == 0 && j.LossesJudged == 0:
		fmt.Fprintf(&b, ", %s lost; whether that was told before sessions expired cannot be judged", count(j.LostHolds, "hold"))
	case j.ToldLate == 0 && j.LossesJudged < j.LostHolds:
		fmt.Fprintf(&b, ", %s lost; of those %s can be judged, and were told before their sessions expired", count(j.LostHolds, "hold"), number(j.LossesJudged))
	case j.LostHolds == 1 && j.ToldLate == 0:
		b.WriteString(", 1 hold lost, which was told before its session expired")
	case j.ToldLate == 0:
		fmt.Fprintf(&b, ", %s lost, all told before their sessions expired", count(j.LostHolds, "hold"))
	default:
		fmt.Fprintf(&b, ", %s lost, %s of them told late", count(j.LostHolds, "hold"), number(j.ToldLate))
	}
	b.WriteString(".")
	return b.String()
}

// SoFar says what the page lacks if it was written while the run went on.
func (v view) SoFar() string {
	if v.c.soFar == 0 {
		return ""
	}
	return fmt.Sprintf("This page was written while the run went on, and says what was judged until %s after its beginning. The timeline has the faults, but no grants, and the list of lost holds is missing. The run writes the whole page at its end. If it was killed, the command go run ./stress -check, with the directory of this page, judges its history and writes the whole page.", durationText(time.Duration(v.c.soFar-v.c.begin())))
}

// numberOf returns how many are true.
func numberOf(all map[string]bool) (n int) {
	for _, yes := range all {
		if yes {
			n++
		}
	}
	return n
}

// Why returns why a run shows nothing, unless the findings say so.
func (v view) Why() (reasons []string) {
	if v.c.verdict.Outcome != judge.Void || len(v.c.verdict.Findings) > 0 {
		return nil
	}
	known := map[string]bool{}
	for _, f := range v.c.verdict.Faults {
		known[f.Kind] = true
		if f.Held == 0 || f.Waiting == 0 {
			reasons = append(reasons, fmt.Sprintf("%s hit %s while a lock was held, and %s while one was waited for", f.Kind, count(f.Held, "time"), count(f.Waiting, "time")))
		}
	}
	for _, kind := range v.c.header.Nemesis {
		if !known[kind] {
			reasons = append(reasons, kind+" was never injected")
		}
	}
	return reasons
}

// A fact is a line about the run.
type fact struct{ Name, Value string }

// Facts returns how the run was set up.
func (v view) Facts() []fact {
	h := v.c.header
	seconds := func(ns int64) string { return durationText(time.Duration(ns)) }
	facts := []fact{
		{"Began", h.BeginWall},
		{"Ran for", fmt.Sprintf("%s (planned: %s)", seconds(v.c.end-v.c.begin()), seconds(h.Planned))},
		{"Workload", fmt.Sprintf("%s, seed %d", cmp.Or(h.Workload, "default"), h.Seed)},
		{"Contenders", fmt.Sprintf("%s × %s on %s", count(h.Processes, "process"), count(h.Goroutines, "worker"), count(len(h.Locks), "lock"))},
		{"Session timeout", seconds(h.SessionTimeout)},
		{"Tenure", seconds(h.Tenure)},
		{"Faults that were on", strings.Join(h.Nemesis, ", ")},
		{"Servers", strings.Join(h.Servers, ", ")},
		{"ZooKeeper", h.ZooKeeper},
		{"Go", h.Go},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

// Command returns the command that repeats the run.
func (v view) Command() string { return v.c.header.Command }

// Verdict returns the verdict itself.
func (v view) Verdict() judge.Verdict { return v.c.verdict }

// A place is a time on the timeline, in microseconds.
type place struct{ From, Until int64 }

// A finding is one of the verdict.
type finding struct {
	judge.Finding
	At      string
	Place   place
	Holders string   // processes that held the lock then
	Active  []active // faults
}

// An active fault is one that may have to do with something.
type active struct {
	Fault int
	Kind  string
	When  string // of a loss: during it, or how long after
}

// Findings returns what is wrong.
func (v view) Findings() (all []finding) {
	kinds := map[int]string{}
	for _, h := range v.c.verdict.Injected {
		kinds[h.Fault] = h.Kind
	}
	for i, f := range v.c.verdict.Findings {
		at := v.c.micro(f.At)
		one := finding{Finding: f, At: v.clock(f.At), Place: place{at - 500_000, at + 500_000}}
		var numbers []string
		for _, n := range v.c.holders[i] {
			numbers = append(numbers, strconv.Itoa(n))
		}
		switch len(numbers) {
		case 0:
		case 1:
			one.Holders = "process " + numbers[0]
		default:
			one.Holders = "processes " + strings.Join(numbers, ", ")
		}
		for _, n := range f.Faults {
			one.Active = append(one.Active, active{Fault: n, Kind: kinds[n]})
		}
		all = append(all, one)
	}
	return all
}

// Unlisted returns how many findings the verdict has no text of.
func (v view) Unlisted() int { return max(v.c.verdict.Found-len(v.c.verdict.Findings), 0) }

// A hit is a fault with what it cost.
type hit struct {
	judge.Hit
	At    string
	For   string
	Place place
	Lost  []cost
}

// A cost is a hold that was lost while a fault was active, or shortly after.
type cost struct {
	Text string // of the verdict
	More string // when and why, as far as the history tells
}

// Hits returns the faults in the order of time. If they are too many for a table, those
// that cost nothing are left out first.
func (v view) Hits() (all []hit) {
	faults := v.c.verdict.Injected
	if len(faults) > mostRows {
		faults = slices.DeleteFunc(slices.Clone(faults), func(h judge.Hit) bool { return len(h.Lost) == 0 })
		faults = faults[:min(len(faults), mostRows)]
	}
	room := mostLostBytes
	for _, h := range faults {
		from, until := v.c.micro(h.Began), v.c.micro(v.c.endOf(h))
		one := hit{Hit: h, At: v.clock(h.Began), For: "a moment", Lost: v.costs(h, &room)}
		if until-from >= 1000 {
			one.For = durationText(time.Duration(v.c.endOf(h) - h.Began))
		}
		margin := max((until-from)/4, 1_000_000)
		one.Place = place{from - margin, until + max(margin, v.c.header.SessionTimeout/1000)}
		all = append(all, one)
	}
	return all
}

// costs returns what a fault cost.
func (v view) costs(h judge.Hit, room *int) (all []cost) {
	for _, text := range lostTexts(h, room) {
		one := cost{Text: text}
		for _, l := range v.c.losses.items {
			if *room > 0 && v.c.mayCost(h, l) && text == clean(fmt.Sprintf("lock %q by process %d", v.c.locks[l.lock], v.c.processes[l.process]), longText) {
				more := fmt.Sprintf("; at %s, %s", v.clock(l.at), v.whether(h, l))
				if l.text != "" {
					more += ": " + cause(l.text)
				}
				one.More += more
				*room -= len(more)
			}
		}
		one.More = strings.TrimPrefix(one.More, "; ")
		all = append(all, one)
	}
	return all
}

// cause returns the end of the error of a lost hold. The row says what the begin does.
func cause(text string) string {
	if _, why, ok := strings.Cut(text, "lock was lost: "); ok {
		return why
	}
	return text
}

// whether says whether a hold was lost during a fault, or how long after.
func (v view) whether(h judge.Hit, l loss) string {
	if after := l.at - v.c.endOf(h); after > 0 {
		return durationText(time.Duration(after)) + " after it"
	}
	return "during it"
}

// HitsLeftOut returns how many faults are not in the table, and how many of those cost
// something.
func (v view) HitsLeftOut() (left struct{ All, Costly int }) {
	costly := 0
	for _, h := range v.c.verdict.Injected {
		if len(h.Lost) > 0 {
			costly++
		}
	}
	if n := v.c.verdict.FaultCount(); n > mostRows {
		left.All, left.Costly = n-min(costly, mostRows), max(costly-mostRows, 0)
	}
	return left
}

// lostTexts returns what a fault cost, equal texts once, as far as there is room for so
// many bytes.
func lostTexts(h judge.Hit, room *int) []string {
	times := map[string]int{}
	var order []string
	for _, l := range h.Lost {
		l = clean(l, longText)
		if times[l]++; times[l] == 1 {
			order = append(order, l)
		}
	}
	lost := []string{}
	for i, l := range order {
		if i == mostLost || len(l) > *room {
			return append(lost, fmt.Sprintf("and %s more", number(len(order)-i)))
		}
		*room -= len(l)
		if n := times[l]; n > 1 {
			l += fmt.Sprintf(" (%d times)", n)
		}
		lost = append(lost, l)
	}
	return lost
}

// faults returns the faults for the timeline, those that cost something first to be kept.
func (c *collector) faults() []judge.Hit {
	all := c.verdict.Injected
	if len(all) <= mostFaults {
		return all
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b judge.Hit) int { return cmp.Compare(min(len(b.Lost), 1), min(len(a.Lost), 1)) })
	all = all[:mostFaults]
	slices.SortStableFunc(all, func(a, b judge.Hit) int { return cmp.Compare(a.Began, b.Began) })
	return all
}

// A lostHold is a row of the table of losses.
type lostHold struct {
	At, Lock, Workers, Held, Told, Token, Why string
	Late                                      bool
	Process                                   int
	Place                                     place
	Active                                    []active
}

// Losses returns the holds that were lost.
func (v view) Losses() (all []lostHold) {
	for _, l := range v.c.losses.items[:min(len(v.c.losses.items), mostRows)] {
		at := v.c.micro(l.at)
		one := lostHold{
			At: v.clock(l.at), Lock: v.c.locks[l.lock], Process: v.c.processes[l.process], Workers: workersText(l.workers),
			Held: durationText(time.Duration(l.at - l.since)), Token: tokenText(l.token, l.turn), Why: cause(l.text),
			Place: place{at - 2_000_000, at + 1_000_000},
		}
		if ended, ok := v.c.expired[l.session]; ok && l.session != "" {
			if margin := time.Duration(ended - l.at); int64(margin) > 2*v.c.header.SessionTimeout {
				one.Told = "its session lived on, for " + durationText(margin)
			} else if margin >= 0 {
				one.Told = durationText(margin) + " before the leader ended its session"
			} else if one.Told = durationText(-margin) + " after the leader had ended its session"; v.c.stopped(one.Process, ended) {
				one.Told += ", as soon as it ran again"
			} else {
				one.Late = true
			}
		}
		for _, h := range v.c.verdict.Injected {
			if v.c.mayCost(h, l) && len(one.Active) < mostActive {
				one.Active = append(one.Active, active{h.Fault, h.Kind, v.whether(h, l)})
			}
		}
		all = append(all, one)
	}
	return all
}

// workersText lists the workers that shared a hold.
func workersText(workers []int) string {
	const listed = 6
	workers = slices.Compact(slices.Sorted(slices.Values(workers)))
	var numbers []string
	for _, w := range workers[:min(len(workers), listed)] {
		numbers = append(numbers, strconv.Itoa(w))
	}
	text := "worker "
	if len(workers) > 1 {
		text = "workers "
	}
	text += strings.Join(numbers, ", ")
	if n := len(workers) - listed; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Omissions returns what the page leaves out, in sentences.
func (v view) Omissions() (all []string) {
	c := v.c
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if g := c.trimmed; g.Segments > 0 {
		add("%d MiB of events, until %s after the beginning, were removed during the run, to limit the space that they take. They were judged before, but the timeline and the tables of losses lack them.", g.Bytes>>20, durationText(time.Duration(g.Until-c.header.Begin)))
	}
	if n := c.total - len(c.closed); n > 0 {
		gone := int64(0)
		for _, g := range c.thinner.gone {
			gone += min(g.until, c.end) - g.from
		}
		add("The timeline draws %s of %s acquisitions one by one: those around losses, findings and faults first. Of %s of the run (%.0f %%), hatched below the timeline's axis, it has totals only, per %s.",
			number(len(c.closed)), number(c.total), durationText(time.Duration(gone)), 100*float64(gone)/float64(max(c.end-c.first, 1)), durationText(time.Duration(c.meters.width)))
	}
	if n := c.verdict.FaultCount(); n > mostFaults {
		add("The timeline has %s of %s faults, those that cost a lock first.", number(mostFaults), number(n))
	}
	limit := func(what string, kept, total int) {
		if total > kept {
			add("Of %s %s, the page has the first %s.", number(total), what, number(kept))
		}
	}
	limit("lost holds", len(c.losses.items), c.losses.total)
	limit("lives of processes", len(c.lives.items), c.lives.total)
	limit("outages of sessions", len(c.outages.items), c.outages.total)
	for _, p := range []struct{ kind, what string }{{pointRevoked, "revocations"}, {pointStale, "refused writes"}, {pointFailure, "failures"}, {pointSession, "begins and ends of sessions"}} {
		limit(p.what, len(c.points[p.kind].items), c.points[p.kind].total)
	}
	if c.texts.dropped > 0 {
		add("%s of why a lock was lost or refused are left out.", count(c.texts.dropped, "text"))
	}
	if len(c.locks) > mostLocks {
		add("Only the first %s locks have names on the timeline; the others are called %q.", number(mostLocks), otherLocks)
	}
	if len(c.processes) == mostProcesses {
		add("The timeline has the first %s processes.", number(mostProcesses))
	}
	return all
}

// Events and Acquisitions return how many the history has.
func (v view) Events() int       { return v.c.events }
func (v view) Acquisitions() int { return v.c.total }

// MoreLosses returns how many losses the table leaves out.
func (v view) MoreLosses() int { return max(v.c.losses.total-mostRows, 0) }

// clock returns a time since the workers began, as minutes, seconds and milliseconds.
func (v view) clock(at int64) string {
	ms := (at - v.c.begin()) / int64(time.Millisecond)
	sign := ""
	if ms < 0 {
		sign, ms = "−", -ms
	}
	if h := ms / 3_600_000; h > 0 {
		return fmt.Sprintf("%s%d:%02d:%02d.%03d", sign, h, ms/60_000%60, ms/1000%60, ms%1000)
	}
	return fmt.Sprintf("%s%d:%02d.%03d", sign, ms/60_000, ms/1000%60, ms%1000)
}

// count returns a number with its noun.
func count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return number(n) + " " + noun
}

// number returns a number with separators between thousands.
func number[T int | uint64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// durationText returns a duration with about three digits.
func durationText(d time.Duration) string {
	in := func(unit time.Duration, name string) string {
		x := float64(d) / float64(unit)
		digits := 0
		switch {
		case x < 10:
			digits = 2
		case x < 100:
			digits = 1
		}
		return strconv.FormatFloat(x, 'f', digits, 64) + " " + name
	}
	switch {
	case d < 0:
		return "−" + durationText(-d)
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return in(time.Microsecond, "µs")
	case d < time.Second:
		return in(time.Millisecond, "ms")
	case d < time.Minute:
		return in(time.Second, "s")
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}
