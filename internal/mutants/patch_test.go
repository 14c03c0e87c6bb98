// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

const header = "Mutant:  leaves it out\nFault:   F1 F2\nPackage: ./p\nTests:   TestA TestB\n\n"

// module is what the patches of these tests are for.
var module = fstest.MapFS{
	"p/a.go": {Data: []byte("package p\n\nfunc one() {\n\tfirst()\n\tsecond(1, 2)\n}\n\nfunc two() {\n\tfirst()\n}\n")},
	"p/b.go": {Data: []byte("package p\n\nfunc three() {\n\tthird(3)\n}\n")},
}

func TestPatch(t *testing.T) {
	const ab = "--- a/p/a.go\n+++ b/p/a.go\n"
	for _, tt := range []struct {
		what, patch string
		file        string
		want        string // a part of the file; "" if there is to be an error
		err         string
	}{
		{"a line is replaced", ab + "@@ -1 +1 @@\n-\tsecond(1, 2)\n+\tother()\n", "p/a.go", "{\n\tfirst()\n\tother()\n}\n\nfunc two", ""},
		{"and removed", ab + "@@\n-\tsecond(1, 2)\n", "p/a.go", "{\n\tfirst()\n}\n\nfunc two", ""},
		{"and added, after context", ab + "@@\n func two() {\n+\tother()\n", "p/a.go", "two() {\n\tother()\n\tfirst()\n}", ""},
		{"as git writes it", "diff --git a/p/a.go b/p/a.go\nindex 1234567..89abcde 100644\n" + ab + "@@ -8,3 +8,2 @@ func two() {\n func two() {\n-\tfirst()\n }\n", "p/a.go", "func two() {\n}\n", ""},
		{"in another indentation", ab + "@@\n func two() {\n-\t\t\tfirst()\n+\t\tother()\n", "p/a.go", "two() {\n\t\tother()\n}", ""},
		{"across an empty line", ab + "@@\n }\n\n-func two() {\n+func four() {\n", "p/a.go", "}\n\nfunc four() {\n\tfirst()", ""},
		{"two hunks", ab + "@@\n-\tsecond(1, 2)\n+\tother()\n@@\n-func two() {\n+func four() {\n", "p/a.go", "other()\n}\n\nfunc four() {", ""},
		{"two files", ab + "@@\n-\tsecond(1, 2)\n+\tother()\n--- a/p/b.go\n+++ b/p/b.go\n@@\n-\tthird(3)\n+\tthird(4)\n", "p/b.go", "third(4)", ""},

		{"not there", ab + "@@\n-\tfourth()\n+\tother()\n", "", "", "p/a.go does not have the lines"},
		{"there twice", ab + "@@\n-\tfirst()\n+\tother()\n", "", "", "in 2 places (lines 4, 9): add lines of context"},
		{"no such file", "--- a/p/c.go\n+++ b/p/c.go\n@@\n-\tfirst()\n+\tother()\n", "", "", "p/c.go"},
		{"no context", ab + "@@\n+\tother()\n", "", "", "only adds lines"},
		{"no change", ab + "@@\n \tfirst()\n", "", "", "changes nothing"},
		{"no hunk", ab, "", "", "it lacks a hunk"},
		{"no file", "@@\n-\tfirst()\n", "", "", "a hunk without a file"},
		{"not a patch", ab + "@@\n-\tsecond(1, 2)\nother()\n", "", "", `line 10: "other()" in a hunk`},
	} {
		t.Run(tt.what, func(t *testing.T) {
			m, err := parse("F001-x", header+tt.patch)
			var files map[string]string
			if err == nil {
				files, err = m.mutate(module)
			}
			wantError(t, err, tt.err)
			if !strings.Contains(files[tt.file], tt.want) {
				t.Errorf("got\n%s\nwithout\n%s", files[tt.file], tt.want)
			}
		})
	}
}

func TestPatchHeader(t *testing.T) {
	const hunk = "--- a/p/a.go\n+++ b/p/a.go\n@@\n-\tsecond(1, 2)\n"
	m, err := parse("F001-x", header+"Seeds: 12\n"+hunk)
	if err != nil || m.what != "leaves it out" || len(m.faults) != 2 || m.pkg != "./p" || len(m.tests) != 2 || m.seeds != 12 {
		t.Errorf("got %+v, %v", m, err)
	}
	for left, fault := range map[string]string{
		"Mutant:  leaves it out": "it lacks Mutant:",
		"Fault:   F1 F2":         "it lacks Fault:",
		"Package: ./p":           "it lacks Package:",
		"Tests:   TestA TestB":   "it lacks Tests:",
	} {
		_, err := parse("F001-x", strings.Replace(header, left, "", 1)+hunk)
		wantError(t, err, fault)
	}
	_, err = parse("F001-x", header+"Reason: none\n"+hunk)
	wantError(t, err, `"Reason: none" is none of Mutant:`)
	_, err = parse("F001-x", header+"Seeds: none\n"+hunk)
	wantError(t, err, `"none" is not a number of seeds`)
}

// check leads a contributor to the lines that have changed.
func TestCheck(t *testing.T) {
	patch := func(file, old string) mutant {
		m, err := parse("F001-x", header+"--- a/"+file+"\n+++ b/"+file+"\n@@\n-"+old+"\n+\tother()\n")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, tt := range []struct {
		what   string
		m      mutant
		prints []string // nil: it fits
	}{
		{"it fits", patch("p/a.go", "second(1, 2)"), nil},
		{"the line has changed", patch("p/a.go", "second(1, 3)"), []string{"F001-x.patch: p/a.go does not", "wants  second(1, 3)", "nearest at p/a.go:5", "finds  \tsecond(1, 2)"}},
		{"it has moved", patch("p/a.go", "third(3)"), []string{"they have moved to p/b.go:4"}},
		{"its file is gone", patch("q/a.go", "third(4)"), []string{"q/a.go", "nearest at p/b.go:4"}},
		{"it is gone", patch("p/a.go", "fourth(4)"), []string{"no file has anything like it"}},
		{"it is there twice", patch("p/a.go", "first()"), []string{"in 2 places"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var out strings.Builder
			err := check(&out, module, []mutant{tt.m})
			if tt.prints == nil {
				wantError(t, err, "")
				return
			}
			wantError(t, err, "1 of 1 mutants do not fit the code")
			for _, part := range tt.prints {
				if !strings.Contains(out.String(), part) {
					t.Errorf("it printed\n%s\nwithout %q", out.String(), part)
				}
			}
		})
	}
}
