// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// unchanged is the name of the program without a defect.
const unchanged = "unchanged"

// programs reads what is measured: lines with the name of a mutant, or with that of a broken
// lock, more arguments of the harness, a colon, and what is wrong with it. "## " begins the heading of a group, "# " a comment.
func programs(text string, mutants []mutant) (all []program, err error) {
	group := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, what, broken := strings.Cut(line, ": ")
		switch {
		case line == "", strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "## "):
			group = line[3:]
		case broken:
			words := strings.Fields(name)
			all = append(all, program{name: words[0], what: what, args: words[1:], group: group})
		default:
			i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
			if i < 0 {
				return nil, fmt.Errorf("%s: there is no mutant %s", detectionList, name)
			}
			all = append(all, program{name: name, what: mutants[i].what, mutant: &mutants[i], group: group})
		}
	}
	return all, nil
}

// readResults reads the file of results, if there is one.
func readResults(name string) (all []measurement, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		var m measurement
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
	return all, err
}

func appendResult(name string, m measurement) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(m), f.Close())
}

// judged puts into m what the harness has found, as the report in the directory says.
func (m measurement) judged(dir string) (measurement, error) {
	var run struct{ Begin int64 }
	var v struct {
		Outcome  string
		Interim  bool
		Diverged string
		Findings []struct {
			Check, Text string
			At          int64
		}
		Standstills []struct{ Text string }
	}
	if err := errors.Join(readJSON(filepath.Join(dir, "run.json"), &run), readJSON(filepath.Join(dir, "verdict.json"), &v)); err != nil {
		return m, err
	}
	switch {
	case v.Interim:
		return m, errors.New("the harness did not end")
	case v.Diverged != "":
		return m, fmt.Errorf("the servers contradicted each other %s", v.Diverged)
	case len(v.Standstills) > 0:
		return m, fmt.Errorf("the machine stood still %s", v.Standstills[0].Text)
	case v.Outcome != "VIOLATION" && v.Outcome != "FAILED":
		return m, nil
	}
	if len(v.Findings) == 0 {
		return m, errors.New("the harness failed, and its history has no finding")
	}
	f := v.Findings[0] // the earliest of the worst ones
	m.Found, m.Took, m.Check, m.Says = true, math.Round(float64(f.At-run.Begin)/1e8)/10, f.Check, f.Text
	return m, nil
}

func readJSON(name string, to any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// table returns the table of what was measured.
func table(all []program, done []measurement, mutants []mutant) string {
	var b strings.Builder
	b.WriteString("| broken | the harness | the simulation | unit tests |\n|---|---|---|---|\n")
	group := ""
	for _, p := range all {
		if p.group != group {
			group = p.group
			fmt.Fprintf(&b, "| **%s** | | | |\n", group)
		}
		sim, tests := "", ""
		if p.mutant != nil {
			sim, tests = sum(done, p.name, bySim), unitTests(*p.mutant, mutants)
		}
		what, _, _ := strings.Cut(p.what, ", under random faults")
		fmt.Fprintf(&b, "| %s: %s | %s | %s | %s |\n", p.name, what, sum(done, p.name, byStress), sim, tests)
	}
	return b.String()
}

// unitTests returns the tests that notice the mutant. Those of one that is meant for the
// simulation are the tests of the mutant without that in its name.
func unitTests(m mutant, mutants []mutant) string {
	if name, simulated := strings.CutSuffix(m.name, "-in-simulation"); simulated {
		i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return "none"
		}
		m = mutants[i]
	}
	return "`" + strings.Join(m.tests, "`, `") + "`"
}

// result returns what was measured.
func (m measurement) result() string {
	if !m.Found {
		return amount(math.Inf(1), m.By)
	}
	return strings.TrimSuffix(amount(m.Took, m.By)+", "+m.Check+": "+m.Says, ", : ")
}

// sum returns the median and the maximum of what was measured of a program.
func sum(done []measurement, program, by string) string {
	var took []float64
	found := 0
	for _, d := range done {
		switch {
		case d.Program != program || d.By != by:
		case d.Found:
			found++
			took = append(took, d.Took)
		default:
			took = append(took, math.Inf(1))
		}
	}
	slices.Sort(took)
	n := len(took)
	switch {
	case n == 0:
		return "not measured"
	case found == 0 && by == bySim:
		return "0 of " + figures.Number(n*mostSeeds)
	case found == 0:
		return fmt.Sprintf("0 of %d", n)
	}
	text := amount(took[n/2], by) + ", " + amount(took[n-1], by)
	if n < attempts {
		text += fmt.Sprintf(" (of %d)", n)
	}
	return text
}

// amount returns how many seeds or seconds it took.
func amount(n float64, by string) string {
	switch none := math.IsInf(n, 1); {
	case none && by == bySim:
		return "> " + figures.Number(mostSeeds)
	case none:
		return fmt.Sprintf("> %d s", mostSecs)
	case by == bySim:
		return figures.Number(int(n))
	}
	return figures.Duration(time.Duration(n * float64(time.Second)))
}

// writeTable writes the table into the document.
func writeTable(document, table string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	changed, err := withTable(string(text), table)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(changed), 0o644)
}

// withTable returns the document with the table in its place.
func withTable(text, table string) (string, error) {
	const begin, end = "<!-- detection -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("no place between %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin + table + end + after, nil
}
