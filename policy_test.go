// SPDX-License-Identifier: Apache-2.0

package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
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
	"golang.org/x/sys",           // the clock that goes on while the machine is suspended
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

// Nothing that decides about a lock may follow the wall clock, which people and
// NTP set as they like. A time.Time from time.Now has a reading of the monotonic
// clock as well, and what compares and subtracts two of them, and timers,
// deadlines and contexts, go by that. So it is enough that nobody asks for the
// wall clock's reading, or drops the other one.
func TestF046_NothingDecidesByTheWallClock(t *testing.T) {
	for _, fault := range checkClocks(t, os.DirFS(".")) {
		t.Error(fault)
	}
}

// The functions that may, and what for.
var wallClock = map[string]string{
	"manager/manager.go nodeData": "tells people since when a contender is there",
	"manager/contender.go String": "shows them",
}

// checkClocks returns where the code of zkio and manager has to do with the wall
// clock.
func checkClocks(t *testing.T, module fs.FS) (faults []string) {
	t.Helper()
	// What makes a time.Time without a monotonic reading, or shows the other one.
	forbidden := []string{
		"UTC", "Local", "In", "AddDate", "Unix", "UnixMilli", "UnixMicro", "UnixNano", "Date", "Clock", "Year", "YearDay",
		"Month", "Day", "Weekday", "ISOWeek", "Hour", "Minute", "Second", "Nanosecond", "Zone", "ZoneBounds", "IsDST", "Equal",
		"Format", "AppendFormat", "Parse", "ParseInLocation", "MarshalText", "MarshalJSON", "MarshalBinary",
	}
	for _, name := range goFiles(t, module) {
		if dir := path.Dir(name); dir != "zkio" && dir != "manager" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		files, file := parsed(t, module, name)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && wallClock[name+" "+f.Name.Name] != "" {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				f, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				// A duration can be rounded, too, which is harmless.
				ofNow := (f.Sel.Name == "Round" || f.Sel.Name == "Truncate") && slices.Contains(names(callsIn(f.X)), "time.Now")
				if ofNow || slices.Contains(forbidden, f.Sel.Name) {
					faults = append(faults, fmt.Sprintf("%s: %s has to do with the wall clock, by which nothing may be decided", files.Position(f.Sel.Pos()), f.Sel.Name))
				}
				return true
			})
		}
	}
	return faults
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
		files, file := parsed(t, module, name)
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

// parsed returns a Go file's syntax, and what knows its positions.
func parsed(t *testing.T, module fs.FS, name string) (*token.FileSet, *ast.File) {
	t.Helper()
	text, err := fs.ReadFile(module, name)
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return files, file
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

	clocks := []struct{ name, file, body, fault string }{
		{"a comparison", "zkio/x.go", `if time.Since(start) > limit || time.Now().After(end) { return }`, ""},
		{"a deadline", "zkio/x.go", `conn.SetDeadline(time.Now().Add(limit))`, ""},
		{"a duration, rounded", "manager/x.go", `d := time.Since(start).Round(ms)`, ""},
		{"a reading of the wall clock", "zkio/x.go", `return time.Now().UnixNano() > end`, "UnixNano has"},
		{"a time without the other reading", "manager/x.go", `end := time.Now().Round(0).Add(limit)`, "Round has"},
		{"truncated", "manager/x.go", `end := time.Now().Add(limit).Truncate(ms)`, "Truncate has"},
		{"a time from elsewhere", "manager/x.go", `end := time.UnixMilli(ms)`, "UnixMilli has"},
		{"in a comparison for equality", "manager/x.go", `return now.Equal(end)`, "Equal has"},
		{"in a test", "manager/x_test.go", `return time.Now().Unix()`, ""},
		{"in the embedded server", "zkio/zktest/x.go", `return time.Now().UnixMilli()`, ""},
	}
	for _, tt := range clocks {
		t.Run("clocks/"+tt.name, func(t *testing.T) {
			text := "package p\nimport \"time\"\n\nfunc f(start, now, end time.Time, limit, ms time.Duration) { " + tt.body + " }\n"
			expectFault(t, checkClocks(t, fstest.MapFS{tt.file: {Data: []byte(text)}}), tt.fault)
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
