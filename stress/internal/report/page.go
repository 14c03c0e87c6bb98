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
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
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
	"css":      func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // it is ours
	"js":       func() template.JS { return template.JS(pageJS) },    //nolint:gosec // it is ours
	"policy":   func() string { return contentSecurityPolicy },
	"text":     func(s string) string { return clean(s, longText) },
	"long":     func(s string) string { return clean(s, longFinding) },
	"number":   figures.Number[int],
	"count":    count,
	"number64": figures.Number[uint64],
	"ms":       func(ms float64) string { return figures.Duration(time.Duration(ms * float64(time.Millisecond))) },
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

	// Rows that a reader sees at once. The others are behind a line that says how many.
	openFindings = 2
	openRows     = 5
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
	case verdict.OK:
		return "good"
	case verdict.Void:
		return "warn"
	}
	return "bad"
}

// Sentence returns what the run has shown.
func (v view) Sentence() string {
	j := v.c.verdict
	var b strings.Builder
	switch j.Outcome {
	case verdict.Violation:
		fmt.Fprintf(&b, "a lock failed to exclude (%s): ", count(j.Found, "finding"))
	case verdict.Failed:
		fmt.Fprintf(&b, "the locks excluded, but something else is wrong (%s): ", count(j.Found, "finding"))
	case verdict.Void:
		b.WriteString("the run shows nothing about the locks: " + strings.TrimSuffix(j.Why(), ".") + ". It had ")
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
		fmt.Fprintf(&b, ", %s lost; of those %s can be judged, each told before its session expired", count(j.LostHolds, "hold"), figures.Number(j.LossesJudged))
	case j.LostHolds == 1 && j.ToldLate == 0:
		b.WriteString(", 1 hold lost, which was told before its session expired")
	case j.ToldLate == 0:
		fmt.Fprintf(&b, ", %s lost, all told before their sessions expired", count(j.LostHolds, "hold"))
	default:
		fmt.Fprintf(&b, ", %s lost, %s of them told late", count(j.LostHolds, "hold"), figures.Number(j.ToldLate))
	}
	b.WriteString(".")
	return b.String()
}

// SoFar says what the page lacks if it was written while the run went on.
func (v view) SoFar() string {
	if v.c.soFar == 0 {
		return ""
	}
	return fmt.Sprintf("This page was written while the run went on, and says what was judged until %s after its beginning. The timeline has the faults, but no grants, and the list of lost holds is missing. The run writes the whole page at its end. If it was killed, the command go run ./stress -check, with the directory of this page, judges its history and writes the whole page.", figures.Duration(time.Duration(v.c.soFar-v.c.begin())))
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

// A fact is a line about the run.
type fact struct{ Name, Value string }

// Facts returns how the run was set up.
func (v view) Facts() []fact {
	h := v.c.header
	seconds := func(ns int64) string { return figures.Duration(time.Duration(ns)) }
	began := h.BeginWall
	if wall, err := time.Parse(time.RFC3339, began); err == nil {
		began = wall.Format("2006-01-02 15:04:05 MST")
	}
	facts := []fact{
		{"Began", began},
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

// Hits returns the faults that the verdict lists.
func (v view) Hits() []verdict.Hit { return v.c.hits }

// Verdict returns the verdict itself.
func (v view) Verdict() verdict.Verdict { return v.c.verdict }

// A place is a time on the timeline, in microseconds.
type place struct{ From, Until int64 }

// Unlisted returns how many findings the verdict has no text of.
func (v view) Unlisted() int { return max(v.c.verdict.Found-len(v.c.verdict.Findings), 0) }

// Omissions returns what the page leaves out, in sentences.
func (v view) Omissions() (all []string) {
	c := v.c
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if g := c.trimmed; g.Segments > 0 {
		add("%s MiB of events, until %s after the beginning, were removed during the run, to limit the space that they take. They were judged before, but the timeline and the tables of losses lack them.", figures.Number(g.Bytes>>20), figures.Duration(time.Duration(g.Until-c.header.Begin)))
	}
	if n := c.total - len(c.closed); n > 0 {
		gone := int64(0)
		for _, g := range c.thinner.gone {
			gone += min(g.until, c.end) - g.from
		}
		add("The timeline draws %s of %s acquisitions one by one: those around losses, findings and faults first. Of %s of the run (%.0f %%), hatched below the timeline's axis, it has totals only, per %s.",
			figures.Number(len(c.closed)), figures.Number(c.total), figures.Duration(time.Duration(gone)), 100*float64(gone)/float64(max(c.end-c.first, 1)), figures.Duration(time.Duration(c.meters.width)))
	}
	if n := c.verdict.FaultCount(); n > mostFaults {
		add("The timeline has %s of %s faults, those that cost a lock first.", figures.Number(mostFaults), figures.Number(n))
	}
	limit := func(what string, kept, total int) {
		if total > kept {
			add("Of %s %s, the page has the first %s.", figures.Number(total), what, figures.Number(kept))
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
		add("Only the first %s locks have names on the timeline; the others are called %q.", figures.Number(mostLocks), otherLocks)
	}
	if len(c.processes) == mostProcesses {
		add("The timeline has the first %s processes.", figures.Number(mostProcesses))
	}
	return all
}

// Events and Acquisitions return how many the history has.
func (v view) Events() int       { return v.c.events }
func (v view) Acquisitions() int { return v.c.total }

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
	return figures.Number(n) + " " + noun
}
