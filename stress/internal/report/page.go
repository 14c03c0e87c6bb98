// SPDX-License-Identifier: Apache-2.0

package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
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
	"number":   figures.NumberOf,
	"int":      func(n uint64) int { return int(n) }, //nolint:gosec // no run has so many
	"count":    figures.Count,
	"join":     strings.Join,
	"duration": func(ns int64) string { return figures.Duration(time.Duration(ns)) },
	"ms":       func(ms float64) string { return figures.Duration(time.Duration(ms * float64(time.Millisecond))) },
	"date": func(text string) string {
		if wall, err := time.Parse(time.RFC3339, text); err == nil {
			return wall.Format("2006-01-02 15:04:05 MST")
		}
		return text
	},
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
	Header   history.Header
	Verdict  verdict.Verdict
	Hits     []verdict.Hit // the faults that the verdict lists
	Data     template.JS
	Pictures []string // names of pages beside this one, of what is not linearizable

	Events, Acquisitions int // that the history has
	Ran                  int64
}

func newView(c *collector, data []byte, pictures []string) view {
	return view{
		c: c, Header: c.header, Verdict: c.verdict, Hits: c.hits, Pictures: pictures,
		Data:   template.JS(data), //nolint:gosec // encoding/json has made it safe
		Events: c.events, Acquisitions: c.total, Ran: c.end - c.begin(),
	}
}

// Why says why a void run shows nothing.
func (v view) Why() string { return strings.TrimSuffix(v.Verdict.Why(), ".") }

// SoFar returns when the page was written, if the run went on then.
func (v view) SoFar() string {
	if v.c.soFar == 0 {
		return ""
	}
	return figures.Duration(time.Duration(v.c.soFar - v.c.begin()))
}

// Kinds returns of how many kinds the faults were.
func (v view) Kinds() int {
	kinds := map[string]bool{}
	for _, f := range v.Verdict.Faults {
		if f.N > 0 {
			kinds[f.Kind] = true
		}
	}
	for _, h := range v.Hits {
		kinds[h.Kind] = true
	}
	return len(kinds)
}

// A place is a time on the timeline, in microseconds.
type place struct{ From, Until int64 }

// Unlisted returns how many findings the verdict has no text of.
func (v view) Unlisted() int { return max(v.Verdict.Found-len(v.Verdict.Findings), 0) }

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
	for kind, all := range c.points {
		limit(pointKind(kind).String(), len(all.items), all.total)
	}
	if c.texts.dropped > 0 {
		add("%s of why a lock was lost or refused are left out.", figures.Count(c.texts.dropped, "text"))
	}
	if len(c.locks) > mostLocks {
		add("Only the first %s locks have names on the timeline; the others are called %q.", figures.Number(mostLocks), otherLocks)
	}
	if len(c.processes) == mostProcesses {
		add("The timeline has the first %s processes.", figures.Number(mostProcesses))
	}
	return all
}

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

// A folded list is one of which a reader sees the first items at once, and the rest after
// opening it. Print shows all.
type folded[T any] struct{ First, Rest []T }

// fold returns a list of which about so many items are open: hiding a few is not worth a line.
func fold[T any](all []T, open int) folded[T] {
	if len(all) <= open+open/2 {
		open = len(all)
	}
	return folded[T]{all[:open], all[open:]}
}
