// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every mutant fits the code, so a change of the code that takes a mutant's lines
// away is told at once, and not by the next run of all mutants.
func TestMutantsFit(t *testing.T) {
	list := loaded(t)
	var out strings.Builder
	if err := check(&out, os.DirFS("../.."), list); err != nil {
		t.Errorf("%s%v", out.String(), err)
	}
	tests := map[string]string{} // the tests of each package
	for _, m := range list {
		if tests[m.pkg] == "" {
			tests[m.pkg] = testsIn(t, filepath.Join("..", "..", m.pkg))
		}
		for _, name := range m.tests {
			if !strings.Contains(tests[m.pkg], "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("%s.patch: %s has no %s", m.name, m.pkg, name)
			}
		}
		if first := fmt.Sprintf("F%03s-", strings.TrimPrefix(m.faults[0], "F")); !strings.HasPrefix(m.name, first) {
			t.Errorf("%s.patch: its name does not begin with %s", m.name, first)
		}
	}
}

func loaded(t *testing.T) []mutant {
	t.Helper()
	list, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// testsIn returns the text of a package's tests.
func testsIn(t *testing.T, pkg string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// The catalogue of faults says why a fault has no mutant.
func TestMutantsAndCatalogue(t *testing.T) {
	text, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkCatalogue(string(text), loaded(t)) {
		t.Error(fault)
	}
}

var (
	// The row of a fault: number, event, effect, tests.
	faultRow = regexp.MustCompile(`(?m)^\| (F\d+) \|.*\|.*\|.*\|$`)
	// A reason in the section on mutants: numbers, and why they have none.
	reasonRow = regexp.MustCompile(`(?m)^- (F\d+(?:, F\d+)*): \w+ \w+`)
)

// checkCatalogue returns what is wrong with the catalogue's section on mutants:
// each fault must have either a mutant or a reason to have none.
func checkCatalogue(text string, list []mutant) (faults []string) {
	all, reasons, found := strings.Cut(text, "\n## Mutants\n")
	if !found {
		return []string{"the catalogue has no section on mutants"}
	}
	mutated, excused := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		for _, f := range m.faults {
			mutated[f] = true
		}
	}
	for _, row := range reasonRow.FindAllStringSubmatch(reasons, -1) {
		for f := range strings.SplitSeq(row[1], ", ") {
			if excused[f] {
				faults = append(faults, f+" has two reasons to have no mutant")
			}
			excused[f] = true
		}
	}
	for _, row := range faultRow.FindAllStringSubmatch(all, -1) {
		switch f := row[1]; {
		case mutated[f] && excused[f]:
			faults = append(faults, f+" has a mutant, and a reason to have none")
		case !mutated[f] && !excused[f]:
			faults = append(faults, f+" has neither a mutant nor a reason to have none")
		}
		delete(mutated, row[1])
		delete(excused, row[1])
	}
	for f := range mutated {
		faults = append(faults, fmt.Sprintf("a mutant is of %s, which the catalogue does not have", f))
	}
	for f := range excused {
		faults = append(faults, fmt.Sprintf("a reason is of %s, which the catalogue does not have", f))
	}
	slices.Sort(faults)
	return faults
}

func TestMutantsAndCatalogueCatches(t *testing.T) {
	const rows = "| F1 | happens | is seen | tests |\n| F2 | happens | is seen | tests |\n| F3 | happens | is seen | tests |\n"
	list := []mutant{{faults: []string{"F1"}}}
	for _, tt := range []struct {
		what, text string
		list       []mutant
		fault      string
	}{
		{"all there", rows + "\n## Mutants\n\n- F2, F3: too many places\n", list, ""},
		{"of two", rows + "\n## Mutants\n\n- F2: too many places\n", []mutant{{faults: []string{"F1", "F3"}}}, ""},
		{"no section", rows, list, "no section"},
		{"no reason", rows + "\n## Mutants\n\n- F2: too many places\n", list, "F3 has neither"},
		{"an empty one", rows + "\n## Mutants\n\n- F2: too many places\n- F3:\n", list, "F3 has neither"},
		{"both", rows + "\n## Mutants\n\n- F1, F2, F3: too many places\n", list, "F1 has a mutant, and a reason"},
		{"two reasons", rows + "\n## Mutants\n\n- F2, F3: too many places\n- F3: nowhere to be seen\n", list, "F3 has two reasons"},
		{"an unknown mutant", rows + "\n## Mutants\n\n- F2, F3: too many places\n", []mutant{{faults: []string{"F1"}}, {faults: []string{"F4"}}}, "a mutant is of F4"},
		{"an unknown reason", rows + "\n## Mutants\n\n- F2, F3, F4: too many places\n", list, "a reason is of F4"},
	} {
		faults := checkCatalogue(tt.text, tt.list)
		if tt.fault == "" && len(faults) > 0 || tt.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], tt.fault)) {
			t.Errorf("%s: faults %q, want %q", tt.what, faults, tt.fault)
		}
	}
}
