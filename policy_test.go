// SPDX-License-Identifier: Apache-2.0

package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// This file holds what else is true of every file of the module: the licence,
// the modules it may require, and what its tests may not do.

const spdx = "// SPDX-License-Identifier: Apache-2.0"

// Of the modules that go.mod may require, each is there for what it is for.
var modules = []string{
	"github.com/go-zookeeper/zk", // ZooKeeper's client
	"golang.org/x/sync",          // who owns a goroutine; bounds
	"go.uber.org/atomic",         // the word
	"go.uber.org/goleak",         // tests
	"pgregory.net/rapid",         // tests

	"github.com/HdrHistogram/hdrhistogram-go", // latencies, in what measures
}

func TestEveryGoFileNamesTheLicence(t *testing.T) {
	for _, fault := range checkLicence(t, os.DirFS(".")) {
		t.Error(fault)
	}
}

func TestGoMod(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkGoMod(string(text)) {
		t.Error(fault)
	}
}

func TestTestsDoNotSkipOrSleep(t *testing.T) {
	for _, fault := range checkTests(t, os.DirFS(".")) {
		t.Error(fault)
	}
}

// checkLicence returns the .go files that do not begin with the licence's line.
func checkLicence(t *testing.T, module fs.FS) (faults []string) {
	t.Helper()
	for _, name := range goFiles(t, module) {
		text, err := fs.ReadFile(module, name)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(string(text), "\n"); first != spdx {
			faults = append(faults, fmt.Sprintf("%s begins with %q, not with %q", name, first, spdx))
		}
	}
	return faults
}

// checkGoMod returns what is wrong with the root go.mod: a replace, with which
// `go install …@version` refuses to work, and modules that nobody agreed to.
func checkGoMod(text string) (faults []string) {
	block := ""
	for line := range strings.Lines(text) {
		line, comment, _ := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case block != "":
			words = slices.Insert(words, 0, block)
		case words[len(words)-1] == "(":
			block = words[0]
			continue
		}
		indirect := strings.TrimSpace(comment) == "indirect"
		switch {
		case words[0] == "replace":
			faults = append(faults, fmt.Sprintf("go.mod replaces %s: then `go install %s/…@version` refuses to work", words[1], modulePath))
		case words[0] == "require" && !indirect && !slices.Contains(modules, words[1]):
			faults = append(faults, fmt.Sprintf("go.mod requires %s, which is not among the agreed modules (deps_test.go)", words[1]))
		}
	}
	return faults
}

// checkTests returns where tests skip in silence, and where they wait for time
// to pass instead of for what they wait for.
func checkTests(t *testing.T, module fs.FS) (faults []string) {
	t.Helper()
	for _, name := range goFiles(t, module) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		imports := importsOf(t, module, name)
		inBubbles := slices.Contains(imports, standard+"testing/synctest")
		// Skip is how a property of package rapid refuses an input.
		inProperties := slices.Contains(imports, "pgregory.net/rapid")
		forShort := map[*ast.CallExpr]bool{} // calls below an `if testing.Short()`
		ast.Inspect(file, func(n ast.Node) bool {
			if branch, ok := n.(*ast.IfStmt); ok && slices.Contains(names(callsIn(branch.Cond)), "testing.Short") {
				for _, c := range callsIn(branch.Body) {
					forShort[c.call] = true
				}
			}
			return true
		})
		for _, c := range callsIn(file) {
			at := files.Position(c.call.Pos())
			receiver, method, _ := strings.Cut(c.name, ".")
			isTB := slices.Contains([]string{"t", "b", "f", "tb"}, receiver)
			switch {
			case c.name == "time.Sleep" && !inBubbles:
				faults = append(faults, fmt.Sprintf("%s: time.Sleep outside of a synctest bubble: wait for what you wait for", at))
			case isTB && strings.HasPrefix(method, "Skip") && !inProperties && !forShort[c.call]:
				faults = append(faults, fmt.Sprintf("%s: %s, of which nobody hears: use realzk.NotRun", at, c.name))
			}
		}
	}
	return faults
}

// A named call is one of the form x.F(…).
type namedCall struct {
	name string // "x.F"
	call *ast.CallExpr
}

func callsIn(n ast.Node) (calls []namedCall) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := f.X.(*ast.Ident); ok {
					calls = append(calls, namedCall{x.Name + "." + f.Sel.Name, call})
				}
			}
		}
		return true
	})
	return calls
}

func names(calls []namedCall) (names []string) {
	for _, c := range calls {
		names = append(names, c.name)
	}
	return names
}

// Each row is a file that breaks one rule, or just does not.
func TestPoliciesCatch(t *testing.T) {
	licence := []struct{ name, text, fault string }{
		{"there", spdx + "\n\npackage p\n", ""},
		{"missing", "package p\n", "begins with \"package p\""},
		{"another", "// SPDX-License-Identifier: MIT\n\npackage p\n", "MIT"},
		{"late", "\n" + spdx + "\npackage p\n", "begins with \"\""},
	}
	for _, tt := range licence {
		t.Run("licence/"+tt.name, func(t *testing.T) {
			expectFault(t, checkLicence(t, fstest.MapFS{"a/b.go": {Data: []byte(tt.text)}}), tt.fault)
		})
	}

	gomod := []struct{ name, text, fault string }{
		{"fine", "module m\n\nrequire (\n\tgo.uber.org/atomic v1.12.0\n\tx.org/y v1.0.0 // indirect\n)\n", ""},
		{"a replace", "module m\nreplace go.uber.org/atomic => ../atomic\n", "replaces go.uber.org/atomic"},
		{"a replace in a block", "module m\nreplace (\n\ta.org/b => ../b // for now\n)\n", "replaces a.org/b"},
		{"a replace in a comment", "module m\n// replace a => b\n", ""},
		{"a stranger", "module m\nrequire x.org/y v1.0.0\n", "requires x.org/y"},
		{"a stranger in a block", "module m\nrequire (\n\tx.org/y v1.0.0\n)\n", "requires x.org/y"},
	}
	for _, tt := range gomod {
		t.Run("go.mod/"+tt.name, func(t *testing.T) {
			expectFault(t, checkGoMod(tt.text), tt.fault)
		})
	}

	tests := []struct{ name, imports, body, fault string }{
		{"waits", `import "time"`, `<-time.After(0)`, ""},
		{"sleeps", `import "time"`, `time.Sleep(1)`, "time.Sleep outside"},
		{"sleeps in virtual time", `import ("time"; "testing/synctest")`, `synctest.Test(t, func(*testing.T) { time.Sleep(1) })`, ""},
		{"skips", ``, `if !root() { t.Skipf("not root") }`, "t.Skipf, of which nobody hears"},
		{"skips when short", ``, `if testing.Short() { t.Skip("long") }`, ""},
		{"skips when short, in a longer condition", ``, `if slow() && testing.Short() { t.Skip("long") }`, ""},
		{"skips in another branch", ``, `if testing.Short() { n = 1 }; t.SkipNow()`, "t.SkipNow"},
		{"refuses an input", `import "pgregory.net/rapid"`, `rapid.Check(t, func(t *rapid.T) { t.Skip() })`, ""},
		{"skips a field", ``, `r.Skip(4)`, ""},
	}
	for _, tt := range tests {
		t.Run("tests/"+tt.name, func(t *testing.T) {
			text := "package p\n" + tt.imports + "\nfunc TestX(t *testing.T) {" + tt.body + "}\n"
			expectFault(t, checkTests(t, fstest.MapFS{"a/b_test.go": {Data: []byte(text)}}), tt.fault)
		})
	}
}
