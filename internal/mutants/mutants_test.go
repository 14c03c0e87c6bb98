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

// Each mutant fits the code as it is, so that who changes the code is told at
// once, and not by the next run.
func TestMutantsFit(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutants {
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.mutate(string(source)); err != nil {
			t.Errorf("%s, %s: %v: change the mutant, too", m.fault, m.what, err)
		}
		if m.what == "" || m.tests == "" {
			t.Errorf("%s: it does not say what is wrong, or which tests notice", m.fault)
		}
		tests := testsIn(t, m.pkg)
		for name := range strings.FieldsSeq(m.tests) {
			if !strings.Contains(tests, "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("%s, %s: %s has no %s", m.fault, m.what, m.pkg, name)
			}
		}
	}
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

// The catalogue says of each fault that has no mutant why.
func TestMutantsAndCatalogue(t *testing.T) {
	text, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkCatalogue(string(text), mutants) {
		t.Error(fault)
	}
}

var (
	// A row of a fault: number, what happens, what comes of it, tests.
	faultRow = regexp.MustCompile(`(?m)^\| (F\d+) \|.*\|.*\|.*\|$`)
	// A reason in the section on mutants: numbers, why there is none.
	reasonRow = regexp.MustCompile(`(?m)^- (F\d+(?:, F\d+)*): \w+ \w+`)
)

// checkCatalogue returns what is wrong with the section on mutants: a fault that
// has neither a mutant nor a reason, or both, or is not there at all.
func checkCatalogue(text string, list []mutant) (faults []string) {
	all, reasons, found := strings.Cut(text, "\n## Mutants\n")
	if !found {
		return []string{"the catalogue has no section on mutants"}
	}
	mutated, excused := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		for _, f := range m.faults() {
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
	list := []mutant{{fault: "F1"}}
	for _, tt := range []struct {
		what, text string
		list       []mutant
		fault      string
	}{
		{"all there", rows + "\n## Mutants\n\n- F2, F3: too many places\n", list, ""},
		{"of two", rows + "\n## Mutants\n\n- F2: too many places\n", []mutant{{fault: "F1 F3"}}, ""},
		{"no section", rows, list, "no section"},
		{"no reason", rows + "\n## Mutants\n\n- F2: too many places\n", list, "F3 has neither"},
		{"an empty one", rows + "\n## Mutants\n\n- F2: too many places\n- F3:\n", list, "F3 has neither"},
		{"both", rows + "\n## Mutants\n\n- F1, F2, F3: too many places\n", list, "F1 has a mutant, and a reason"},
		{"two reasons", rows + "\n## Mutants\n\n- F2, F3: too many places\n- F3: nowhere to be seen\n", list, "F3 has two reasons"},
		{"an unknown mutant", rows + "\n## Mutants\n\n- F2, F3: too many places\n", []mutant{{fault: "F1"}, {fault: "F4"}}, "a mutant is of F4"},
		{"an unknown reason", rows + "\n## Mutants\n\n- F2, F3, F4: too many places\n", list, "a reason is of F4"},
	} {
		faults := checkCatalogue(tt.text, tt.list)
		if tt.fault == "" && len(faults) > 0 || tt.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], tt.fault)) {
			t.Errorf("%s: faults %q, want %q", tt.what, faults, tt.fault)
		}
	}
}
