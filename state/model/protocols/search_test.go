// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// All searches, as far as a test has time: those that need more states are left to the
// command.
func TestSearches(t *testing.T) {
	const limit = 4000
	judged := 0
	for _, s := range full() {
		r := s.run(limit)
		if r.Violated == "" && !r.Complete {
			continue
		}
		judged++
		if why := s.judge(r); why != "" {
			t.Errorf("%s: %s", s.name(), why)
		}
	}
	if judged < 70 {
		t.Errorf("only %d searches came to an end", judged)
	}
}

func TestJudge(t *testing.T) {
	right, wrong := search{}, search{violates: "exclusion"}
	for _, tt := range []struct {
		search search
		result checker.Result
		fault  string // a part of it; "" for none
	}{
		{right, checker.Result{Complete: true}, ""},
		{right, checker.Result{}, "cut off"},
		{right, checker.Result{Violated: checker.Trap, Complete: true}, "found trap"},
		{right, checker.Result{Violated: "exclusion: 1 and 2"}, "found exclusion: 1 and 2"},
		{wrong, checker.Result{Violated: "exclusion"}, ""},
		{wrong, checker.Result{Violated: "exclusion: 1 and 2"}, ""},
		{wrong, checker.Result{Violated: "exclusions"}, "found exclusions, expected exclusion"},
		{wrong, checker.Result{Violated: checker.Deadlock}, "found deadlock, expected exclusion"},
		{wrong, checker.Result{Complete: true}, "found nothing wrong"},
		{wrong, checker.Result{}, "cut off"},
	} {
		got := tt.search.judge(tt.result)
		if (got == "") != (tt.fault == "") || !strings.Contains(got, tt.fault) {
			t.Errorf("%q judged as if %q were expected: %q, want %q", tt.result.Violated, tt.search.violates, got, tt.fault)
		}
	}
}

// The sets have each search once, and no wrong reading is left out of the quick one.
func TestSets(t *testing.T) {
	for name, set := range sets {
		seen := map[string]bool{}
		for _, s := range set() {
			if seen[s.name()] {
				t.Errorf("%s: %s twice", name, s.name())
			}
			seen[s.name()] = true
		}
		for _, s := range full() {
			if !seen[s.name()] && (name != "quick" || s.violates != "") {
				t.Errorf("%s: no %s", name, s.name())
			}
		}
	}
}

var (
	rulesType    = regexp.MustCompile(`(?s)type \w+Rules struct \{.*?\n\}`)
	wrongReading = regexp.MustCompile(`(?m)((?:\t// .*\n)+)\t(\w+) +\w+$`) // comment, field
	wrongSearch  = regexp.MustCompile(`(?m)^\t\t(?:fails|wrong)\(.*$`)
	invariantOf  = regexp.MustCompile(`^\t\t(?:fails|wrong)\((?:"[^"]*", )*((?:checker\.)?\w+),`)
)

// Each field of a protocol's rules that stands for a wrong reading is searched, and
// its comment names the invariant that this search is expected to violate.
func TestWrongReadingsAreSearched(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, fields, ok := strings.Cut(rulesType.FindString(string(text)), "each is a wrong reading.\n")
		if !ok {
			continue
		}
		searches := wrongSearch.FindAllString(string(text), -1)
		for _, m := range wrongReading.FindAllStringSubmatch(fields, -1) {
			comment, field := m[1], regexp.MustCompile(`\b`+m[2]+`\b`)
			if m[2] == "token" {
				continue // its values have comments of their own
			}
			count++
			searched, named := false, false
			for _, line := range searches {
				if field.MatchString(line) {
					searched = true
					invariant := "checker.Deadlock" // unless the line names another one
					if m := invariantOf.FindStringSubmatch(line); m != nil {
						invariant = m[1]
					}
					named = named || strings.Contains(comment, invariant+".")
				}
			}
			if !searched {
				t.Errorf("%s: no search of %s", file, m[2])
			} else if !named {
				t.Errorf("%s: the comment on %s does not name the invariant that its searches violate", file, m[2])
			}
		}
	}
	if count < 40 {
		t.Errorf("found only %d wrong readings: have the files changed their form?", count)
	}
}
