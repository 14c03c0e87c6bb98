// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A report is what a run leaves behind.
type report struct {
	Began     time.Time         `json:"began"`
	Took      string            `json:"took"`
	Machine   string            `json:"machine"`
	Versions  map[string]string `json:"versions"` // of the subjects and servers
	Missing   map[string]string `json:"missing"`  // subjects that are not installed
	Refused   map[string]string `json:"refused"`  // what subjects cannot do
	Failed    []string          `json:"failed"`
	Rounds    int               `json:"rounds"`
	Rows      []row             `json:"rows"`
	*measured `json:"-"`
	Results   map[string]map[string][]figuresOf `json:"results"` // by cell, subject and round

	cells   []cell
	figures []figure
}

// figuresOf are what is kept of a result: of the waits, in microseconds, some
// quantiles.
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

// write writes results.json and RESULTS.md into dir; remarks, which people have
// written, end the latter.
func (r *report) write(dir, remarks string) error {
	r.Results = make(map[string]map[string][]figuresOf)
	for cell, bySubject := range r.Cells {
		r.Results[cell] = make(map[string][]figuresOf)
		for subject, results := range bySubject {
			for _, got := range results {
				r.Results[cell][subject] = append(r.Results[cell][subject], figuresIn(got))
			}
		}
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
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

// markdown returns the tables.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of the benchmarks\n\nWritten by `go run ./bench` on %s, in %s, on %s. Every figure is the median of %d rounds, with the lowest and the highest in brackets; every ratio is of figures of one round. Figures of other machines, or of other runs, are not to be compared with these; the ratios are.\n",
		r.Began.UTC().Format("2 January 2006"), r.Took, r.Machine, r.Rounds)
	b.WriteString("\n## What it is to show\n\n| | against | ours | goal | met |\n|---|---|---|---|---|\n")
	for _, w := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", w.Row, w.Against, w.value(), w.goal(), w.met())
	}
	b.WriteString("\n## Subjects\n\n| subject | what it is |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, r.Versions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Missing)) {
		fmt.Fprintf(&b, "| %s | MISSING in this run: %s |\n", name, r.Missing[name])
	}
	b.WriteString("\n## Figures\n\n")
	for _, f := range r.figures {
		fmt.Fprintf(&b, "![%s](%s)\n\n", f.Title, f.File)
	}
	b.WriteString("## Everything that was measured\n")
	for _, c := range r.cells {
		got := r.Cells[c.id]
		if len(got) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n`%s`: %s.\n\n", c.id, c.what)
		switch {
		case hasExtra(got):
			r.extras(&b, c)
		default:
			r.rates(&b, c)
		}
		for _, s := range c.subjects {
			if why := r.Refused[c.id+" "+s]; why != "" {
				fmt.Fprintf(&b, "\n%s: %s.\n", s, why)
			}
		}
	}
	return b.String()
}

func hasExtra(got map[string][]result) bool {
	for _, results := range got {
		if results[0].Entries == 0 {
			return true
		}
	}
	return false
}

// rates writes the table of a cell in which entries were counted.
func (r *report) rates(b *strings.Builder, c cell) {
	b.WriteString("| subject | per second | time each | wait p50 | wait p99 | longest wait seen | entries of each worker |\n|---|---|---|---|---|---|---|\n")
	for _, s := range c.subjects {
		if len(r.Cells[c.id][s]) == 0 {
			continue
		}
		rates := over(r.values(c.id, s, rate))
		p50, p99 := over(r.values(c.id, s, wait(.5))), over(r.values(c.id, s, wait(.99)))
		waits := "| | | "
		if len(r.Cells[c.id][s][0].Waits) > 0 {
			waits = fmt.Sprintf("| %s | %s | %s ", micros(p50.Median), micros(p99.Median), micros(over(r.values(c.id, s, wait(1))).High))
		}
		waits += "|"
		if got := r.Cells[c.id][s][0]; got.Most > 0 {
			waits += fmt.Sprintf(" %s – %s |", thousands(got.Fewest), thousands(got.Most))
		} else {
			waits += " |"
		}
		fmt.Fprintf(b, "| %s | %s (%s – %s) | %s %s\n", s, number(rates.Median), number(rates.Low), number(rates.High), micros(1e6/rates.Median), waits)
	}
}

// extras writes the table of a cell with figures of its own.
func (r *report) extras(b *strings.Builder, c cell) {
	var names []string
	for _, s := range c.subjects {
		for _, got := range r.Cells[c.id][s] {
			names = slices.Sorted(maps.Keys(got.Extra))
		}
	}
	fmt.Fprintf(b, "| subject | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, s := range c.subjects {
		if len(r.Cells[c.id][s]) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", s)
		for _, name := range names {
			fmt.Fprintf(b, " %s |", number(over(r.values(c.id, s, extra(name))).Median))
		}
		b.WriteString("\n")
	}
}

// table returns the rows for a terminal.
func (r *report) table() string {
	lines := [][]string{{"", "against", "ours", "goal", "met"}}
	for _, w := range r.Rows {
		lines = append(lines, []string{w.Row, w.Against, w.value(), w.goal(), w.met()})
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			b.WriteString(cell)
			if i < len(line)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// value writes what a row has come to.
func (r row) value() string {
	if r.Missing != "" {
		return r.Missing
	}
	if r.Value.Low == r.Value.High {
		return number(r.Value.Median) + " " + r.Unit
	}
	return fmt.Sprintf("%s %s (%s – %s)", number(r.Value.Median), r.Unit, number(r.Value.Low), number(r.Value.High))
}

// goal writes what a row is to come to.
func (r row) goal() string {
	switch {
	case r.Goal == 0:
		return "for information"
	case r.Unit == "allocations":
		return "none"
	case r.AtLeast:
		return "≥ " + number(r.Goal)
	}
	return "≤ " + number(r.Goal)
}

// number writes a figure with three significant digits, and large ones whole.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return thousands(int64(math.Round(v)))
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

// thousands writes n with commas between its groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// micros writes a time that is given in microseconds.
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
