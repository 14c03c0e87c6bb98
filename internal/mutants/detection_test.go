// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is measured exists, and what was measured is in the document as it is in the file.
func TestDetectionTable(t *testing.T) {
	mutants := loaded(t)
	list, err := os.ReadFile("testdata/detection.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := programs(string(list), mutants)
	if err != nil {
		t.Fatal(err)
	}
	done, err := readResults("testdata/detection.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(page), table(all, done, mutants))
	if err != nil {
		t.Fatal(err)
	}
	if want != string(page) {
		t.Error("docs/testing.md has another table: go run ./internal/mutants -detect -by table writes it")
	}
}

func TestTable(t *testing.T) {
	mutants := []mutant{
		{name: "F001-one", what: "does one", tests: []string{"TestOne", "TestTwo"}},
		{name: "F002-two-in-simulation", what: "does two, under random faults", tests: []string{"TestSeeds"}},
		{name: "F002-two", tests: []string{"TestTwo"}},
		{name: "F003-three-in-simulation", what: "does three"},
	}
	all, err := programs("# Why\n\n## Broken\nlies -locks 1: says it\n\n## Mutants\nF001-one\nF002-two-in-simulation\nF003-three-in-simulation\n", mutants)
	if err != nil {
		t.Fatal(err)
	}
	var done []measurement
	add := func(program, by string, took ...float64) { // 0: not found
		for i, n := range took {
			done = append(done, measurement{Program: program, By: by, Attempt: i + 1, Found: n > 0, Took: n})
		}
	}
	add("lies", byStress, 3, 1, 12.5, 2, 4)
	add("F001-one", bySim, 700, 0, 1, 0, 1000)
	add("F001-one", byStress, 0, 0)
	add("F002-two-in-simulation", bySim, 0, 0)
	add("F002-two-in-simulation", byStress, 0, 7.5, 6)
	const want = `| broken | the harness | the simulation | unit tests |
|---|---|---|---|
| **Broken** | | | |
| lies: says it | 3 s, 12.5 s |  |  |
| **Mutants** | | | |
| F001-one: does one | 0 of 2 | 1,000, > 1,000 | ` + "`TestOne`, `TestTwo`" + ` |
| F002-two-in-simulation: does two | 7.50 s, > 60 s (of 3) | 0 of 2,000 | ` + "`TestTwo`" + ` |
| F003-three-in-simulation: does three | not measured | not measured | none |
`
	if got := table(all, done, mutants); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}

	// The third attempt: what was measured, and what two attempts have not found, is left out.
	var left []string
	for _, by := range []string{bySim, byStress} {
		for _, m := range todo(all, done, by, 3) {
			left = append(left, m.Program+" "+m.By)
		}
	}
	if want := []string{"F003-three-in-simulation sim", "F003-three-in-simulation stress"}; !slices.Equal(left, want) {
		t.Errorf("left to measure: %q, want %q", left, want)
	}
}

func TestWithTable(t *testing.T) {
	got, err := withTable("a\n<!-- detection -->\nold\n<!-- end -->\nb\n", "new\n")
	if want := "a\n<!-- detection -->\nnew\n<!-- end -->\nb\n"; got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	_, err = withTable("a\n<!-- end -->\n", "new\n")
	wantError(t, err, "no place")
}

func TestFirstFailed(t *testing.T) {
	const out = "seed 9: exit status 1\n    woven_test.go:90: seed 9 failed; to simulate it again: make sim SEED=9\n    woven_test.go:90: seed 12 failed; to simulate it again: make sim SEED=12\n"
	for text, want := range map[string]int{"": 0, "PASS": 0, out: 9} {
		if got := firstFailed(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestNoticed(t *testing.T) {
	for line, want := range map[string]bool{
		"VIOLATION seen by process 1, overlap on lock 2":         true,
		"5s of 1m0s  entries 10  violations 0  FINDINGS 2":       true,
		"5s of 1m0s  entries 10  violations 0  faults 2":         false,
		"12:00:00.000  fault 3: kill-worker process 1, lock a-1": false,
	} {
		if got := noticed.MatchString(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

func TestJudged(t *testing.T) {
	const finding = `"findings":[{"check":"exclusion","text":"twice","at":3520000000},{"check":"faults","at":3000000000}]`
	for _, tt := range []struct {
		verdict string
		want    measurement
		fault   string
	}{
		{`{"outcome":"OK","findings":[]}`, measurement{}, ""},
		{`{"outcome":"VOID",` + finding + `}`, measurement{}, ""},
		{`{"outcome":"VIOLATION",` + finding + `}`, measurement{Found: true, Took: 2.5, Check: "exclusion", Says: "twice"}, ""},
		{`{"outcome":"FAILED","findings":[]}`, measurement{}, "no finding"},
		{`{"outcome":"FAILED",` + finding + `,"interim":true}`, measurement{}, "did not end"},
		{`{"outcome":"VOID",` + finding + `,"diverged":"at 2 s"}`, measurement{}, "contradicted each other at 2 s"},
		{`{"outcome":"FAILED",` + finding + `,"standstills":[{"text":"at 2 s"}]}`, measurement{}, "stood still at 2 s"},
		{``, measurement{}, "unexpected end"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"run.json": `{"begin":1000000000}`, "verdict.json": tt.verdict} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := measurement{}.judged(dir)
		wantError(t, err, tt.fault)
		if err == nil && got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.verdict, got, tt.want)
		}
	}
}

func TestResults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	all, err := readResults(name)
	if len(all) > 0 || err != nil {
		t.Errorf("without a file: %v, %v", all, err)
	}
	want := []measurement{{Program: "a", By: bySim, Attempt: 1, Found: true, Took: 7}, {Program: "b", By: byStress, Attempt: 2}}
	for _, m := range want {
		if err := appendResult(name, m); err != nil {
			t.Fatal(err)
		}
	}
	if all, err = readResults(name); !slices.Equal(all, want) || err != nil {
		t.Errorf("%v, %v, want %v", all, err, want)
	}
}

func TestProgramsCatches(t *testing.T) {
	_, err := programs("F009-none\n", nil)
	wantError(t, err, "there is no mutant F009-none")
}
