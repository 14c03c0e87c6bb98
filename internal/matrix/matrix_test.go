// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a test needs is found through functions, methods and variables, in the files of its
// package's tests. A local name that is the same as one of these counts, too.
func TestSurvey(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a_test.go"), `package p
import ("testing"; "github.com/holdfast-go/holdfast/internal/realzk"; rt "example.com/recipetest")
func TestDirect(t *testing.T) { realzk.Start(t) }
func TestThroughHelper(t *testing.T) { helper(t) }
func TestThroughMethod(t *testing.T) { newPair(t).begin() }
func TestThroughVariable(t *testing.T) { for _, run := range cases { run(t) } }
func TestBoth(t *testing.T) { helper(t); program(t) }
func TestRenamedImport(t *testing.T) { rt.OnReal(t) }
func TestLocalName(t *testing.T) { Begin := 0; _ = Begin }
func TestNone(t *testing.T) { realzk.Addrs() }
func Testify(t *testing.T) { realzk.Start(t) }
`)
	write(t, filepath.Join(dir, "b_test.go"), `package p
import ("testing"; "github.com/holdfast-go/holdfast/internal/realzk"; "github.com/holdfast-go/holdfast/internal/otherclients")
var cases = []func(*testing.T){helper}
func helper(t *testing.T) { realzk.Shared(t) }
func program(t *testing.T) { otherclients.Curator(t) }
func Begin(t *testing.T) { realzk.Run(t) }
type pair struct{}
func newPair(t *testing.T) *pair { return nil }
func (p *pair) begin() { realzk.StartEnsemble(nil, 3) }
`)
	write(t, filepath.Join(dir, "nested", "go.mod"), "module nested\n")
	write(t, filepath.Join(dir, "nested", "c_test.go"), "package p\nthis is not Go\n")
	found, err := survey(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range found {
		got = append(got, fmt.Sprint(x.name, x.needs))
	}
	slices.Sort(got)
	want := []string{"TestBoth[curator server]", "TestDirect[server]", "TestLocalName[server]", "TestRenamedImport[server]", "TestThroughHelper[server]", "TestThroughMethod[server]", "TestThroughVariable[server]"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each test that the columns of the servers have is in one of them, and what needs another
// client is beside others.
func TestColumns(t *testing.T) {
	for _, tt := range []struct {
		needs []string
		want  []int // the columns, of those that run tests in manager
	}{
		{[]string{server}, []int{1}},
		{[]string{"curator", server}, []int{4}},
		{[]string{"curator", "kazoo"}, []int{4}},
	} {
		var got []int
		for i, c := range servers {
			if slices.Contains(c.dirs, "manager") && c.wants(test{needs: tt.needs}) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: columns %v, want %v", tt.needs, got, tt.want)
		}
	}
}

func TestResults(t *testing.T) {
	const (
		pass = `{"Action":"pass","Test":"TestA/part"}
{"Action":"pass","Test":"TestA"}
{"Action":"pass"}`
		fail = `{"Action":"fail","Test":"TestB/part"}
{"Action":"fail","Test":"TestB"}
{"Action":"fail","Test":"TestC"}
{"Action":"fail"}`
		skip = `{"Action":"skip","Test":"TestD"}
FAIL: not JSON
{"Action":"pass"}`
	)
	for _, tt := range []struct {
		name, out string
		exit      int
		ok        bool
		cell      string
	}{
		{"all pass", pass, 0, true, "1 passed"},
		{"some fail", pass + "\n" + fail, 1, true, "1 passed; **failed: TestB/part, TestC**"},
		{"one did not run", skip, 0, true, "0 passed; not run: TestD"},
		{"it does not compile", "FAIL", 2, false, "0 passed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r results
			ok, err := r.read(exec.Command("sh", "-c", fmt.Sprintf("printf '%%s\\n' '%s'; exit %d", tt.out, tt.exit)), io.Discard)
			if err != nil || ok != tt.ok {
				t.Errorf("ok is %v, error %v; want %v", ok, err, tt.ok)
			}
			cell, err := r.cell()
			if cell != tt.cell || errors.Is(err, errFailed) != strings.Contains(tt.cell, "failed") {
				t.Errorf("the cell is %q with error %v, want %q", cell, err, tt.cell)
			}
		})
	}
}

func TestWithRow(t *testing.T) {
	const text = "a\n<!-- matrix: servers -->\n| s | x |\n|---|---|\n| 3.8 | old |\n<!-- end -->\nb\n<!-- matrix: clients -->\n| c |\n|---|\n<!-- end -->\n"
	for _, tt := range []struct {
		name, table string
		cells       []string
		want        string
	}{
		{"replaced", "servers", []string{"3.8", "new"}, strings.Replace(text, "old", "new", 1)},
		{"added", "servers", []string{"3.9", "new"}, strings.Replace(text, "| old |\n", "| old |\n| 3.9 | new |\n", 1)},
		{"in the other table", "clients", []string{"k"}, strings.Replace(text, "|---|\n<!--", "|---|\n| k |\n<!--", 1)},
		{"no such table", "none", []string{"k"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withRow(text, tt.table, tt.cells)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, error %v; want %q", got, err, tt.want)
			}
		})
	}
}

// The document has a place for each row.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		cells := append([]string{r.name}, make([]string, len(r.columns))...)
		changed, err := withRow(string(text), r.table, cells)
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		_, table, _ := strings.Cut(changed, "<!-- matrix: "+r.table)
		head, _, _ := strings.Cut(table, "|---")
		if n := strings.Count(head, "|"); n != len(cells)+1 {
			t.Errorf("%s: the head of table %q has %d separators, and the row %d", r.name, r.table, n, len(cells)+1)
		}
	}
}
