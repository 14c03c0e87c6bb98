// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestWeave(t *testing.T) {
	const point, stall = "holdfastyield.Point(); ", "holdfastyield.Stall(); "
	for _, test := range []struct {
		what, body string
		want       string // a part of the result
	}{
		{"an atomic call", "a.Load()", point + "a.Load()"},
		{"one in a condition", "if a.CompareAndSwap(0, 1) {\n}", point + "if a.CompareAndSwap(0, 1) {"},
		{"one in a function literal", "go func() {\n\t\ta.Store(1)\n\t}()", "go func() {\n\t\t" + point + "a.Store(1)"},
		{"one in a case", "switch {\n\tcase true:\n\t\ta.Add(1)\n\t}", "case true:\n\t\t" + point + "a.Add(1)"},
		{"nothing atomic", "println()", "{\n\tprintln()\n}"},
		{"a mark", "//holdfast:reached the end\n\tprintln()", "holdfastyield.Reached(\"the end\")\n\tprintln()"},
		{"a mark with a condition", "//holdfast:reached-if n > 1: many\n\tprintln()", "if n > 1 { holdfastyield.Reached(\"many\") }\n\tprintln()"},
	} {
		t.Run(test.what, func(t *testing.T) {
			src := "package p\n\nfunc f(a *T, n int) {\n\t" + test.body + "\n}\n"
			got, err := newWeaver().weave("f.go", []byte(src))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got\n%s\nwhich is without\n%s", got, test.want)
			}
			if a, b := strings.Count(src, "\n"), strings.Count(got, "\n"); a != b {
				t.Errorf("%d lines have become %d", a, b)
			}
			if _, err := parser.ParseFile(token.NewFileSet(), "f.go", got, 0); err != nil {
				t.Error(err)
			}
		})
	}
	got, err := newWeaver().weave("f.go", []byte("package p\n\nfunc (t *roundIO) grant(a *T) {\n\ta.Load()\n}\n"))
	if err != nil || !strings.Contains(got, stall+"a.Load()") {
		t.Errorf("a function that stalls: %v\n%s", err, got)
	}
	got, err = newWeaver().weave("f.go", []byte("package p\n\nfunc (ws *watches) tell(n int) {\n\tprintln(n)\n}\n"))
	if err != nil || !strings.Contains(got, "tell(n int) { holdfastyield.Lag(); \n") {
		t.Errorf("a function that lags: %v\n%s", err, got)
	}
}

func TestBranches(t *testing.T) {
	w := newWeaver()
	_, err := w.weave("f.go", []byte("package p\n\nfunc f() {\n\t//holdfast:reached one\n\t//holdfast:reached-if true: two\n}\n"))
	if err != nil || strings.Join(w.branches, ", ") != "one, two" {
		t.Errorf("got %q, %v", w.branches, err)
	}
	for _, wrong := range []string{"//holdfast:reach one", "//holdfast:reached-if no condition"} {
		if _, err := newWeaver().weave("f.go", []byte("package p\n\nfunc f() {\n\t"+wrong+"\n}\n")); err == nil {
			t.Errorf("%q is not refused", wrong)
		}
	}
}

// A name in a list that the code does not have is an error: the points that it
// stands for would be gone.
func TestUnknownNames(t *testing.T) {
	w := newWeaver()
	for _, list := range [][]string{atomics, stalling, lagging} {
		for _, name := range list {
			w.found[name] = true
		}
	}
	if err := w.unknown(); err != nil {
		t.Error(err)
	}
	delete(w.found, "waiter.wait")
	delete(w.found, "Settle")
	if err := w.unknown(); err == nil || !strings.Contains(err.Error(), "have no Settle (in atomics), waiter.wait (in stalling): change") {
		t.Errorf("error %v", err)
	}
	// A name is found where it is called or declared, and not where it is mentioned.
	w = newWeaver()
	if _, err := w.weave("f.go", []byte("package p\n\n// Store is not called.\nfunc (t *roundIO) Step(a *T) {\n\ta.Load()\n\tt.fetch()\n}\n")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"Load": true, "Store": false, "roundIO.Step": true, "roundIO.fetch": false} {
		if w.found[name] != want {
			t.Errorf("%s found: %t", name, !want)
		}
	}
}

// TestListsFitTheCode weaves the module's packages, as the simulation does.
func TestListsFitTheCode(t *testing.T) {
	o := &overlay{dir: t.TempDir(), Replace: map[string]string{}}
	if branches, err := o.weave("../../.."); err != nil || len(branches) == 0 {
		t.Errorf("%d branches, %v", len(branches), err)
	}
}

// An edit that does not fit the file says so: another version of Go must not be
// taken for one whose choices follow the seed.
func TestPatchThatDoesNotFit(t *testing.T) {
	p := patch{file: "x.go", edits: []edit{{"old", "new"}}, tail: "tail"}
	for src, fits := range map[string]bool{"an old line": true, "nothing": false, "old and old": false} {
		got, err := p.apply(src)
		if (err == nil) != fits || fits && got != "an new linetail" {
			t.Errorf("%q: got %q, %v", src, got, err)
		}
	}
}
