// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/internal/figures"
)

// A report is the result of a run.
type report struct {
	Began     time.Time         `json:"began"`
	Took      string            `json:"took"`
	Machine   string            `json:"machine"`
	Versions  map[string]string `json:"versions"` // of the subjects and servers
	Missing   map[string]string `json:"missing"`  // subjects that are not installed
	Refused   map[string]string `json:"refused"`  // what subjects cannot do
	Failed    []string          `json:"failed"`   // what went wrong
	Rounds    int               `json:"rounds"`
	Targets   targets           `json:"targets"`
	*measured `json:"-"`
	Results   map[string]map[string][]figuresOf `json:"results"` // by scenario, subject and round

	scenarios []scenario
	figures   []chart.Chart
}

// figuresOf is a result with quantiles, in microseconds, in place of all waits.
type figuresOf struct {
	result
	Waits map[string]float64 `json:"waits,omitempty"`
}

func figuresIn(r result) figuresOf {
	f := figuresOf{result: r}
	f.result.Waits = nil
	if len(r.Waits) > 0 {
		f.Waits = make(map[string]float64)
		for name, q := range map[string]float64{"p10": .1, "p50": .5, "p90": .9, "p99": .99, "max": 1} {
			f.Waits[name] = wait(q)(r)
		}
	}
	return f
}

// write writes results.json and RESULTS.md to dir. The latter ends with the contents
// of the file remarks.
func (r *report) write(dir, remarks string) error {
	r.Results = make(map[string]map[string][]figuresOf)
	for id, bySubject := range r.Scenarios {
		r.Results[id] = make(map[string][]figuresOf)
		for subject, results := range bySubject {
			for _, got := range results {
				r.Results[id][subject] = append(r.Results[id][subject], figuresIn(got))
			}
		}
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	said, err := os.ReadFile(remarks)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(r.markdown()+"\n"+string(said)), 0o644)
}

// printGoals prints the table of the targets in dir/results.json.
func printGoals(out io.Writer, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "results.json"), err)
	}
	met, missed, missing := r.Targets.tally()
	_, err = fmt.Fprintf(out, "%s\n%d goals are met, %d are not, %d were not measured; %s, %s\n",
		r.table(true), met, missed, missing, r.Began.UTC().Format("2 January 2006 15:04"), r.Machine)
	return err
}

// aboutFigures says how to read the figures.
const aboutFigures = "A mark is the median of the rounds, and its whiskers reach from the lowest to the highest of them. Each axis says which way is better. Three subjects are bounds to compare with, and no locks to use. *relay* is a queue of ephemeral nodes that takes as few requests as possible: one transaction leaves the queue and joins it again, and no failure is handled. *bare* creates one node and deletes it again, and excludes no other client. *naive* is one ephemeral node: all that wait are told when it goes, and try again at once."

// markdown returns the generated part of RESULTS.md.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of the benchmarks\n\n`go run ./bench` wrote this page on %s, in %s, on a machine with %s. Each figure is the median of %d rounds, with the lowest and the highest in brackets; each ratio is taken within a round. Compare ratios, not figures, with those of other machines or other runs.\n",
		r.Began.UTC().Format("2 January 2006"), r.Took, r.Machine, r.Rounds)
	b.WriteString("\n## Targets\n\n| | compared with | Holdfast | goal | met |\n|---|---|---|---|---|\n")
	for _, w := range r.Targets {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", w.Name, w.Against, w.value(), w.goal(), w.met())
	}
	b.WriteString("\n## Subjects\n\n| subject | description |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, r.Versions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Missing)) {
		fmt.Fprintf(&b, "| %s | not measured: %s |\n", name, r.Missing[name])
	}
	b.WriteString("\n## Figures\n\n" + aboutFigures + "\n\n")
	for _, f := range r.figures {
		fmt.Fprintf(&b, "![%s](%s)\n\n", f.Title, f.File)
	}
	b.WriteString("## All measurements\n")
	for _, sc := range r.scenarios {
		if len(r.Scenarios[sc.id]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n`%s`: %s.\n\n| subject |", sc.id, sc.what)
		columns := r.columns(sc)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.head)
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
		for _, subject := range sc.subjects {
			if len(r.Scenarios[sc.id][subject]) == 0 {
				continue
			}
			fmt.Fprintf(&b, "| %s |", subject)
			for _, c := range columns {
				if text := c.of(subject); text != "" {
					b.WriteString(" " + text)
				}
				b.WriteString(" |")
			}
			b.WriteString("\n")
		}
		for _, subject := range sc.subjects {
			if why := r.Refused[sc.id+" "+subject]; why != "" {
				fmt.Fprintf(&b, "\n%s: %s.\n", subject, why)
			}
		}
	}
	return b.String()
}

// A column of a scenario's table has the figures of each subject.
type column struct {
	head string
	of   func(subject string) string
}

// columns returns what a scenario measures.
func (r *report) columns(sc scenario) (columns []column) {
	rounds := r.Scenarios[sc.id]
	figure := func(subject string, of func(result) float64) spread { return over(r.values(sc.id, subject, of)) }
	for _, subject := range sc.subjects {
		// Some scenarios have their own figures.
		if got := rounds[subject]; len(got) > 0 && got[0].Entries == 0 {
			for _, name := range slices.Sorted(maps.Keys(got[0].Extra)) {
				columns = append(columns, column{name, func(s string) string { return number(figure(s, extra(name)).Median) }})
			}
			return columns
		}
	}
	waits := func(head string, q float64, of func(spread) float64) column {
		return column{head, func(s string) string {
			if len(rounds[s][0].Waits) == 0 {
				return ""
			}
			return micros(of(figure(s, wait(q))))
		}}
	}
	median := func(s spread) float64 { return s.Median }
	columns = []column{
		{"per second", func(s string) string { return figure(s, rate).String() }},
		{"time each", func(s string) string { return micros(1e6 / figure(s, rate).Median) }},
	}
	if sc.job.Work == work.Reenter {
		return append(columns, column{"allocations each", func(s string) string {
			n := figure(s, allocs).Median
			if n < 0 {
				return ""
			}
			return number(math.Round(100*n) / 100)
		}})
	}
	return append(columns,
		waits("wait p50", .5, median), waits("wait p99", .99, median), waits("longest wait", 1, func(s spread) float64 { return s.High }),
		column{"entries per worker", func(s string) string {
			if rounds[s][0].Most == 0 {
				return ""
			}
			return fmt.Sprintf("%s – %s", figures.Number(rounds[s][0].Fewest), figures.Number(rounds[s][0].Most))
		}})
}

// table returns the targets as a table for a terminal: all of them, or only those that
// were measured.
func (r *report) table(all bool) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tcompared with\tHoldfast\tgoal\tmet")
	for _, w := range r.Targets {
		if w.Missing == "" || all {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", w.Name, w.Against, w.value(), w.goal(), w.met())
		}
	}
	_ = table.Flush() // to memory
	return b.String()
}

// value formats the measured value.
func (r target) value() string {
	if r.Missing != "" {
		return r.Missing
	}
	if r.Value.Low == r.Value.High {
		return number(r.Value.Median) + " " + r.Unit
	}
	return fmt.Sprintf("%s %s (%s – %s)", number(r.Value.Median), r.Unit, number(r.Value.Low), number(r.Value.High))
}

// goal formats the goal.
func (r target) goal() string {
	switch {
	case r.Goal == 0:
		return "-"
	case r.Unit == "allocations":
		if n := int(r.Goal); n > 0 {
			return fmt.Sprint("≤ ", n)
		}
		return "none"
	case r.AtLeast:
		return "≥ " + number(r.Goal)
	}
	return "≤ " + number(r.Goal)
}

// number formats a figure with three significant digits, or more if it is large.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 0):
		return "∞"
	case a >= 1000:
		return figures.Number(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.01:
		return fmt.Sprintf("%.2f", v)
	case a < 1e-6:
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// micros formats a time in microseconds.
func micros(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3g s", v/1e6)
	case v >= 1000:
		return fmt.Sprintf("%.3g ms", v/1000)
	case v >= 1:
		return fmt.Sprintf("%.3g µs", v)
	}
	return fmt.Sprintf("%.3g ns", v*1000)
}
