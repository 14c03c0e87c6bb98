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

// passes is what a run of tests looks like that pass.
func passes(tests ...string) result { return result{ok: true, built: true, passed: tests} }

// A list of one mutant of a file that says "right", and what comes of the run.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		what   string
		old    string
		mutant result
		err    error  // of the run of the mutant's tests
		fault  string // a part of the error; "" if all is well
		prints string
	}{
		{"killed", "right", result{built: true, failed: []string{"TestIt"}}, nil, "", "killed by TestIt\n1 mutants: 1 killed, 0 survived, 0 errors"},
		{"survives", "right", passes("TestIt"), nil, "1 mutants survived", "SURVIVED TestIt"},
		{"does not compile", "right", result{output: []string{"undefined: x"}}, nil, "do not fit", "ERROR: it does not compile: undefined: x"},
		{"its test is gone", "right", passes(), nil, "do not fit", "ERROR: no test has run"},
		{"cannot be run", "right", result{}, errors.New("no go command"), "do not fit", "ERROR: no go command"},
		{"the code has changed", "left", passes("TestIt"), nil, "do not fit", `has changed: 0 times there is, and not once, "left"`},
		{"not one place", "t", passes("TestIt"), nil, "do not fit", `has changed: 2 times there is, and not once, "t"`},
		{"changes nothing", "wrong", passes("TestIt"), nil, "do not fit", "has changed"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "it.go")
			if err := os.WriteFile(file, []byte("right is right, wrong is not\n")[9:], 0o600); err != nil {
				t.Fatal(err)
			}
			list := []mutant{{fault: "F1 F2", what: "it is wrong", file: file, old: tt.old, new: "wrong", pkg: "./p", tests: "TestIt"}}
			var out strings.Builder
			err := run(t.Context(), &out, list, "F2", func(_ context.Context, pkg string, tests []string, _ int, overlay string) (result, error) {
				if pkg != "./p" || !slices.Equal(tests, []string{"TestIt"}) {
					t.Errorf("asked for %q of %s", tests, pkg)
				}
				if overlay == "" {
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

// What does not pass as the code is kills nothing.
func TestRunNeedsSoundTests(t *testing.T) {
	list := []mutant{{fault: "F1", file: "none", old: "a", new: "b", pkg: "./p", tests: "TestOne TestTwo"}}
	for _, tt := range []struct {
		what  string
		sound result
		fault string
	}{
		{"one fails", result{built: true, passed: []string{"TestTwo"}, failed: []string{"TestOne"}}, "./p does not pass as it is: TestOne"},
		{"one is not there", passes("TestOne"), "./p has no test TestTwo, or it did not run"},
		{"it does not compile", result{output: []string{"undefined: x"}}, "does not compile: undefined: x"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			err := run(t.Context(), io.Discard, list, "", func(context.Context, string, []string, int, string) (result, error) {
				return tt.sound, nil
			})
			wantError(t, err, tt.fault)
		})
	}
	wantError(t, run(t.Context(), io.Discard, list, "F11", nil), "no mutant of")
}

// The go command itself says whether a mutant of a little module is noticed.
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
	for i, tt := range []struct{ new, by, err string }{
		{"return 1 + 1", "", ""},
		{"return 3", "TestTwo", ""},
		{"panic(2)", "TestTwo (panic)", ""},
		{"return two", "", "it does not compile: "},
		{"return 3 }", "", "it does not compile: "},
	} {
		o := mutant{file: "p/p.go", old: "return 2", new: tt.new, pkg: "./p", tests: "TestTwo"}.try(t.Context(), dir, i, goTest)
		if o.by != tt.by {
			t.Errorf("%s: killed by %q, want %q", tt.new, o.by, tt.by)
		}
		wantError(t, o.err, tt.err)
	}
	o := mutant{file: "p/p.go", old: "return 2", new: "return 3", pkg: "./p", tests: "TestNone"}.try(t.Context(), dir, 9, goTest)
	wantError(t, o.err, "no test has run")
}

func TestKiller(t *testing.T) {
	for _, tt := range []struct {
		what    string
		r       result
		by, err string
	}{
		{"the innermost of what failed", result{built: true, failed: []string{"TestA/1", "TestA"}}, "TestA/1", ""},
		{"a panic", result{built: true, failed: []string{"TestA"}, output: []string{"panic: oh [recovered, repanicked]"}}, "TestA (panic)", ""},
		{"a panic of another goroutine", result{built: true, running: []string{"TestA"}, output: []string{"panic: oh"}}, "TestA (panic)", ""},
		{"all goroutines asleep", result{built: true, running: []string{"TestA", "TestA/1"}, output: []string{"fatal error: all goroutines are asleep"}}, "TestA/1 (panic)", ""},
		{"too long", result{built: true, failed: []string{"TestA"}, output: []string{"panic: test timed out after 15s"}}, "TestA (timeout)", ""},
		{"goroutines", result{built: true, passed: []string{"TestA"}, output: []string{"goleak: Errors on successful test run: found unexpected goroutines:"}}, "goroutines that are left behind", ""},
		{"nobody knows", result{built: true, passed: []string{"TestA"}, output: []string{"exit status 3"}}, "", "without a test that did: exit status 3"},
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
