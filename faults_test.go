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
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The catalogue of faults says which tests show what; this test holds the two to
// each other.
func TestFaultsAreShown(t *testing.T) {
	for _, fault := range checkFaults(t, os.DirFS("."), findings, faults) {
		t.Error(fault)
	}
}

const (
	catalogue = "docs/faults.md"

	// How many findings and faults there are. A new one is put at the end.
	findings = 8
	faults   = 88
)

var (
	// A row of the catalogue: number, what happens, what comes of it, tests.
	faultRow = regexp.MustCompile(`^\| ([KF]\d+) \| (.+) \| (.+) \| (.+) \|$`)
	// The start of any row with a number in it.
	looksLikeFaultRow = regexp.MustCompile(`^\|\W*[KF]\d`)
	faultTest         = regexp.MustCompile(`^TestF(\d+)`)
	wellNamed         = regexp.MustCompile(`^TestF\d{3}_[A-Z]\w*$`)
	inBackticks       = regexp.MustCompile("`(Test\\w+)`")
	noTest            = regexp.MustCompile(`^no test: because \w+ \w+`)
)

// checkFaults returns what is wrong with the catalogue: a number that is missing,
// or there twice, or out of order; a test that it names and that is not there; a
// row without a test of its own that does not say why; and a test with a number
// in its name that its row does not have.
func checkFaults(t *testing.T, module fs.FS, findings, most int) (faults []string) {
	t.Helper()
	complain := func(format string, args ...any) {
		faults = append(faults, catalogue+": "+fmt.Sprintf(format, args...))
	}
	text, err := fs.ReadFile(module, catalogue)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range findings {
		want = append(want, fmt.Sprintf("K%d", i+1))
	}
	for i := range most {
		want = append(want, fmt.Sprintf("F%d", i+1))
	}
	tests := topLevelTests(t, module)
	named := map[string]string{} // by test: the row that names it as its own
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		row := faultRow.FindStringSubmatch(line)
		if row == nil {
			if looksLikeFaultRow.MatchString(line) {
				complain("a row without four full columns: %s", line)
			}
			continue
		}
		number, cell := row[1], row[4]
		switch i := slices.Index(want, number); {
		case i < 0:
			complain("%s is there twice, or out of order, or unknown", number)
		default:
			for _, skipped := range want[:i] {
				complain("%s is missing, or out of order", skipped)
			}
			want = want[i+1:]
		}
		own := 0
		all := inBackticks.FindAllStringSubmatch(cell, -1)
		for _, m := range all {
			name := m[1]
			if !tests[name] {
				complain("%s names %s, and there is no such test at the top of a file", number, name)
			}
			if strings.HasPrefix(name, prefixOf(number)) {
				own++
				named[name] = number
			}
		}
		why := noTest.MatchString(cell)
		switch {
		case why && len(all) > 0:
			complain("%s says that it has no test, and names one", number)
		case !why && number[0] == 'F' && own == 0:
			complain("%s has no test called %s…, and does not say `no test: because …`", number, prefixOf(number))
		case !why && len(all) == 0:
			complain("%s has no test, and does not say `no test: because …`", number)
		}
	}
	for _, number := range want {
		complain("%s is missing", number)
	}
	for name := range tests {
		m := faultTest.FindStringSubmatch(name)
		switch {
		case m == nil:
		case !wellNamed.MatchString(name):
			complain("%s is to be called TestF and three digits, an underscore, and a name", name)
		case named[name] == "":
			complain("the row of F%s does not name %s", strings.TrimLeft(m[1], "0"), name)
		}
	}
	slices.Sort(faults)
	return faults
}

// prefixOf returns how the tests of a row begin.
func prefixOf(number string) string { return fmt.Sprintf("TestF%03s_", number[1:]) }

// topLevelTests returns the names of the functions that `go test -run` finds.
func topLevelTests(t *testing.T, module fs.FS) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, name := range goFiles(t, module) {
		if !strings.HasSuffix(path.Base(name), "_test.go") {
			continue
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && len(f.Type.Params.List) == 1 {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}

// Each row is a catalogue of one finding and two faults that is wrong in one
// thing, or just is not.
func TestFaultsAreShownCatches(t *testing.T) {
	const (
		k1 = "| K1 | seen | built | `TestOther` |\n"
		f1 = "| F1 | happens | is seen | `TestF001_One` |\n"
		f2 = "| F2 | happens | is seen | `TestF002_Two`, `TestF002_More` |\n"
	)
	for _, tt := range []struct{ what, text, fault string }{
		{"all there", "# Title\n\n| | what | then | tests |\n|---|---|---|---|\n" + k1 + "\n## More\n" + f1 + f2, ""},
		{"a finding is missing", f1 + f2, "K1 is missing"},
		{"a fault is missing", k1 + f2 + "TestF001_One\n", "F1 is missing"},
		{"the last is missing", k1 + f1, "F2 is missing"},
		{"one is there twice", k1 + f1 + f1 + f2, "F1 is there twice"},
		{"one is unknown", k1 + f1 + f2 + "| F3 | happens | is seen | `TestOther` |\n", "F3 is there twice, or out of order, or unknown"},
		{"a column is missing", k1 + f1 + f2 + "| F3 | happens | `TestOther` |\n", "without four full columns"},
		{"the tests are missing", k1 + f1 + f2 + "| F3 | happens | is seen | |\n", "without four full columns"},
		{"a test that is gone", k1 + f1 + strings.Replace(f2, "`TestF002_Two`", "`TestF002_Two`, `TestGone`", 1), "names TestGone"},
		{"a method is no test", k1 + f1 + strings.Replace(f2, "`TestF002_Two`", "`TestF002_Two`, `TestMethod`", 1), "names TestMethod"},
		{"a subtest is none", k1 + f1 + strings.Replace(f2, "`TestF002_Two`", "`TestF002_Two`, `TestSub`", 1), "names TestSub"},
		{"a test that nobody names", k1 + f1 + strings.Replace(f2, ", `TestF002_More`", "", 1), "the row of F2 does not name TestF002_More"},
		{"named by another row", strings.Replace(k1, "`TestOther`", "`TestF002_More`", 1) + f1 + strings.Replace(f2, ", `TestF002_More`", "", 1), "the row of F2 does not name TestF002_More"},
		{"no reason", k1 + strings.Replace(f1, "`TestF001_One`", "none", 1) + f2, "F1 has no test called TestF001_"},
		{"another's test", k1 + strings.Replace(f1, "`TestF001_One`", "`TestOther`", 1) + f2, "F1 has no test called TestF001_"},
		{"a reason that is none", k1 + strings.Replace(f1, "`TestF001_One`", "no test: because", 1) + f2, "F1 has no test called TestF001_"},
		{"a reason and a test", k1 + strings.Replace(f1, "`TestF001_One`", "no test: because nobody can see `TestF001_One`", 1) + f2, "F1 says that it has no test"},
		{"a finding without a test", strings.Replace(k1, "`TestOther`", "none", 1) + f1 + f2, "K1 has no test"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			module := fstest.MapFS{
				catalogue: {Data: []byte(tt.text)},
				"p/p_test.go": {Data: []byte(`package p

func TestOther(t *testing.T) { t.Run("TestSub", func(t *testing.T) {}) }
func TestF001_One(t *testing.T) {}
func (x) TestMethod(t *testing.T) {}
`)},
				"q/q_test.go": {Data: []byte("package q\n\nfunc TestF002_Two(t *testing.T) {}\nfunc TestF002_More(t *testing.T) {}\n")},
			}
			found := checkFaults(t, module, 1, 2)
			// What the wrong one breaks besides is of no interest here.
			if i := slices.IndexFunc(found, func(f string) bool { return tt.fault != "" && strings.Contains(f, tt.fault) }); i >= 0 {
				found = found[i : i+1]
			}
			expectFault(t, found, tt.fault)
		})
	}
	t.Run("a reason", func(t *testing.T) {
		module := fstest.MapFS{
			catalogue:     {Data: []byte("| F1 | happens | is seen | no test: because nobody can see it |\n")},
			"p/p_test.go": {Data: []byte("package p\n\nfunc TestOne(t *testing.T) {}\n")},
		}
		expectFault(t, checkFaults(t, module, 0, 1), "")
		module["p/p_test.go"].Data = []byte("package p\n\nfunc TestF01_One(t *testing.T) {}\n")
		expectFault(t, checkFaults(t, module, 0, 1), "TestF01_One is to be called TestF and three digits")
	})
}
