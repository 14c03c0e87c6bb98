// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// passes returns the result of a run in which the tests pass.
func passes(tests ...string) result { return result{ok: true, built: true, passed: tests} }

// oneMutant is a mutant of a file that is in the working directory.
func oneMutant(old, new string) mutant {
	return mutant{
		name: "F001-wrong", what: "is wrong", faults: []string{"F1", "F2"}, pkg: "./p", tests: []string{"TestIt"},
		hunks: []hunk{{file: "it.go", lines: []line{{'-', old}, {'+', new}}}},
	}
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		what   string
		old    string
		mutant result
		err    error  // of the run of the mutant's tests
		fault  string // a part of the error; "" if there is to be none
		prints string
	}{
		{"killed", "right", result{built: true, failed: []string{"TestIt"}}, nil, "", "killed by TestIt\n1 mutants: 1 killed, 0 survived, 0 errors"},
		{"survives", "right", passes("TestIt"), nil, "1 mutants survived", "SURVIVED TestIt"},
		{"does not compile", "right", result{output: []string{"undefined: x"}}, nil, "could not be tested", "ERROR: it does not compile: undefined: x"},
		{"its test is gone", "right", passes(), nil, "could not be tested", "ERROR: no test has run"},
		{"cannot be run", "right", result{}, errors.New("no go command"), "could not be tested", "ERROR: no go command"},
		{"the code has changed", "left", passes("TestIt"), nil, "could not be tested", "ERROR: it.go does not have the lines that it changes"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("it.go", []byte("right\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := run(t.Context(), &out, []mutant{oneMutant(tt.old, "wrong")}, func(_ context.Context, asked trial) (result, error) {
				if asked.pkg != "./p" || !slices.Equal(asked.tests, []string{"TestIt"}) || !asked.quick {
					t.Errorf("asked for %+v", asked)
				}
				if asked.overlay == "" {
					return passes("TestIt"), nil
				}
				return tt.mutant, tt.err
			})
			wantError(t, err, tt.fault)
			if !strings.Contains(out.String(), tt.prints) {
				t.Errorf("it printed\n%s\nwithout %q", out.String(), tt.prints)
			}
		})
	}
}

// Tests that fail on the unchanged code kill nothing.
func TestRunNeedsSoundTests(t *testing.T) {
	for _, tt := range []struct {
		what  string
		sound result
		fault string
	}{
		{"one fails", result{built: true, passed: []string{"TestTwo"}, failed: []string{"TestIt"}}, "the unchanged ./p does not pass: TestIt"},
		{"one is not there", passes("TestTwo"), "./p has no test TestIt, or it did not run"},
		{"it does not compile", result{output: []string{"undefined: x"}}, "does not compile: undefined: x"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			err := run(t.Context(), io.Discard, []mutant{oneMutant("a", "b")}, func(context.Context, trial) (result, error) {
				return tt.sound, nil
			})
			wantError(t, err, tt.fault)
		})
	}
}

// A test that fails without optimizations, and passes with them, is run with them.
func TestRunOptimizes(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("it.go", []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := []mutant{oneMutant("right", "wrong"), oneMutant("right", "left")}
	list[1].name, list[1].tests = "F002-other", []string{"TestTwo"}
	var out strings.Builder
	err := run(t.Context(), &out, list, func(_ context.Context, asked trial) (result, error) {
		slow := slices.Contains(asked.tests, "TestIt")
		switch {
		case asked.overlay == "" && asked.quick:
			return result{built: true, passed: []string{"TestTwo"}, failed: []string{"TestIt"}}, nil
		case asked.overlay == "" && slices.Equal(asked.tests, []string{"TestIt"}):
			return passes("TestIt"), nil
		case asked.overlay != "" && asked.quick != slow:
			return result{built: true, failed: asked.tests}, nil
		}
		t.Errorf("asked for %+v", asked)
		return passes(asked.tests...), nil
	})
	wantError(t, err, "")
	if !strings.Contains(out.String(), "2 mutants: 2 killed") {
		t.Error(out.String())
	}
}

func TestChoose(t *testing.T) {
	list := []mutant{
		{name: "F001-a", faults: []string{"F1"}},
		{name: "F001-b", faults: []string{"F1", "F2"}},
		{name: "F003-a", faults: []string{"F3"}},
	}
	for _, tt := range []struct{ faults, names, want, fault string }{
		{"", "", "F001-a F001-b F003-a", ""},
		{"F2", "", "F001-b", ""},
		{"F2,F3", "", "F001-b F003-a", ""},
		{"", "F001-b", "F001-b", ""},
		{"", "F001-b.patch,F003-*", "F001-b F003-a", ""},
		{"F1", "*-a", "F001-a", ""},
		{"F4", "", "", `no mutant has the fault "F4"`},
		{"", "F001", "", `the name "F001"`},
		{"", "[", "", "syntax error"},
	} {
		chosen, err := choose(list, tt.faults, tt.names)
		var names []string
		for _, m := range chosen {
			names = append(names, m.name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("choose(%q, %q) is %q, want %q", tt.faults, tt.names, got, tt.want)
		}
		wantError(t, err, tt.fault)
	}
}

// The go command runs the tests of a small module with mutants of it.
func TestGoTest(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	for name, text := range map[string]string{
		"go.mod":      "module little\n\ngo 1.26\n",
		"p/p.go":      "package p\n\nfunc Two() int { return 2 }\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Error(Two())\n\t}\n}\n\nfunc TestSkipped(t *testing.T) {}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	try := func(new string, tests ...string) outcome {
		m := oneMutant("func Two() int { return 2 }", "func Two() int { "+new+" }")
		m.hunks[0].file, m.tests = "p/p.go", tests
		return m.try(t.Context(), dir, goTest, nil)
	}
	for _, tt := range []struct{ new, by, err string }{
		{"return 1 + 1", "", ""},
		{"return 3", "TestTwo", ""},
		{"panic(2)", "TestTwo (panic)", ""},
		{"return two", "", "it does not compile: "},
		{"return 3 }", "", "it does not compile: "},
	} {
		o := try(tt.new, "TestTwo")
		if o.by != tt.by {
			t.Errorf("%s: killed by %q, want %q", tt.new, o.by, tt.by)
		}
		wantError(t, o.err, tt.err)
	}
	wantError(t, try("return 3", "TestNone").err, "no test has run")
}

func TestKiller(t *testing.T) {
	for _, tt := range []struct {
		what    string
		r       result
		by, err string
	}{
		{"the innermost that failed", result{built: true, failed: []string{"TestA/1", "TestA"}}, "TestA/1", ""},
		{"a panic", result{built: true, failed: []string{"TestA"}, output: []string{"panic: oh [recovered, repanicked]"}}, "TestA (panic)", ""},
		{"a panic of another goroutine", result{built: true, running: []string{"TestA"}, output: []string{"panic: oh"}}, "TestA (panic)", ""},
		{"all goroutines asleep", result{built: true, running: []string{"TestA", "TestA/1"}, output: []string{"fatal error: all goroutines are asleep"}}, "TestA/1 (panic)", ""},
		{"too long", result{built: true, failed: []string{"TestA"}, output: []string{"panic: test timed out after 15s"}}, "TestA (timeout)", ""},
		{"goroutines", result{built: true, passed: []string{"TestA"}, output: []string{"goleak: Errors on successful test run: found unexpected goroutines:"}}, "leaked goroutines", ""},
		{"an unknown cause", result{built: true, passed: []string{"TestA"}, output: []string{"exit status 3"}}, "", "but no test did: exit status 3"},
	} {
		by, err := tt.r.killer()
		if by != tt.by {
			t.Errorf("%s: killed by %q, want %q", tt.what, by, tt.by)
		}
		wantError(t, err, tt.err)
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("error %v, want one that says %q", err, part)
	}
}
