// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const catalogue = "docs/faults.md"

// unused are the numbers below the highest that no fault has, as ranges: edit it if you take one
// of them, or leave some out.
var unused = [][2]int{
	{139, 199}, {204, 209}, {229, 229}, {239, 239}, {281, 282}, {287, 288},
}

// A number below the highest has a row, unless it is listed as unused.
func TestFaultNumbers(t *testing.T) { run(t, checkFaultNumbers) }

func checkFaultNumbers(tr tree) (faults faults) {
	text, err := fs.ReadFile(tr, catalogue)
	if err != nil {
		faults.add("%v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if row := faultRow.FindStringSubmatch(strings.TrimSpace(line)); row != nil {
			seen[row[1]+row[2]] = true
		}
	}
	for _, kind := range []string{"F", "K"} {
		left := len(seen)
		for name := range seen {
			if !strings.HasPrefix(name, kind) {
				left--
			}
		}
		for n := 1; left > 0; n++ {
			name := kind + strconv.Itoa(n)
			listed := kind == "F" && slices.ContainsFunc(unused, func(r [2]int) bool { return r[0] <= n && n <= r[1] })
			switch {
			case seen[name] && listed:
				faults.add("%s has a row and is listed as unused", name)
			case !seen[name] && !listed:
				faults.add("%s is missing, and not listed as unused", name)
			}
			if seen[name] {
				left--
			}
		}
	}
	return faults
}

// The catalogue of faults and the tests must agree: no two findings or faults have the
// same number; a row, which stands beside those of its kind, names tests that exist, one
// of them with the fault's number in its name, or says why there is none; and a test with
// a number in its name is named by that row.
func TestFaults(t *testing.T) { run(t, checkFaults) }

var (
	faultRow     = regexp.MustCompile(`^\| ([KF])(\d+) \| .+ \| .+ \| (.+) \|$`) // number, event, effect, tests
	likeFaultRow = regexp.MustCompile(`^\|\W*[KF]\d`)
	faultTest    = regexp.MustCompile(`^TestF(\d+)`)
	wellNamed    = regexp.MustCompile(`^TestF\d{3}_[A-Z]\w*$`)
	quotedTest   = regexp.MustCompile("`(Test\\w+)`")
	noTest       = regexp.MustCompile(`^no test: because \w+ \w+`)
)

func checkFaults(tr tree) (faults faults) {
	tests := topLevelTests(tr)
	named := map[string]bool{} // tests named by the row of their number
	text, err := fs.ReadFile(tr, catalogue)
	if err != nil {
		faults.add("%v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		row := faultRow.FindStringSubmatch(line)
		if row == nil {
			if likeFaultRow.MatchString(line) {
				faults.add("a row without four full columns: %s", line)
			}
			continue
		}
		number, _ := strconv.Atoi(row[2])
		name := row[1] + row[2]
		if seen[name] {
			faults.add("%s has two rows", name)
		}
		seen[name] = true
		prefix, own := fmt.Sprintf("TestF%03d_", number), row[1] == "K"
		cited := quotedTest.FindAllStringSubmatch(row[3], -1)
		for _, m := range cited {
			if !tests[m[1]] {
				faults.add("%s names %s, which is not a test at the top of a file", name, m[1])
			}
			if row[1] == "F" && strings.HasPrefix(m[1], prefix) {
				own, named[m[1]] = true, true
			}
		}
		switch why := noTest.MatchString(row[3]); {
		case why && len(cited) > 0:
			faults.add("%s says that it has no test, and names one", name)
		case !why && (!own || len(cited) == 0):
			faults.add("%s names no test %s…, and does not say `no test: because …`", name, prefix)
		}
	}
	for name := range tests {
		switch m := faultTest.FindStringSubmatch(name); {
		case m == nil:
		case !wellNamed.MatchString(name):
			faults.add("%s must be called TestF, three digits, an underscore, and a name", name)
		case !named[name]:
			faults.add("the row of F%s does not name %s", strings.TrimLeft(m[1], "0"), name)
		}
	}
	return faults
}

// topLevelTests returns the names of the functions that go test runs.
func topLevelTests(tr tree) map[string]bool {
	tests := map[string]bool{}
	for _, f := range tr.files {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil && len(fn.Type.Params.List) == 1 {
				tests[fn.Name.Name] = strings.HasPrefix(fn.Name.Name, "Test")
			}
		}
	}
	return tests
}

func TestFaultNumbersCatches(t *testing.T) {
	row := func(names ...string) (text string) {
		for _, name := range names {
			text += "| " + name + " | happens | is seen | `TestOther` |\n"
		}
		return text
	}
	upTo := func(n int) (names []string) {
		for i := 1; i <= n; i++ {
			names = append(names, "F"+strconv.Itoa(i))
		}
		return names
	}
	for _, tt := range []struct{ what, text, fault string }{
		{"all there", row("K2", "K1", "F2", "F1"), ""},
		{"a fault is missing", row("F1", "F3"), "F2 is missing"},
		{"a finding is missing", row("K2"), "K1 is missing"},
		{"unused ones are left out", row(append(upTo(unused[0][0]-1), "F"+strconv.Itoa(unused[0][1]+1))...), ""},
		{"an unused one has a row", row(upTo(unused[0][0])...), "is listed as unused"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			expect(t, checkFaultNumbers, map[string]string{catalogue: tt.text}, tt.fault)
		})
	}
}

func TestFaultsCatches(t *testing.T) {
	const (
		k1 = "| K1 | seen | built | `TestOther` |\n"
		f1 = "| F1 | happens | is seen | `TestF001_One` |\n"
		f2 = "| F2 | happens | is seen | `TestF002_Two`, `TestF002_More` |\n"
		f3 = "| F3 | happens | is seen | no test: because it cannot happen |\n"
	)
	for _, tt := range []struct{ what, text, old, new, fault string }{
		{what: "all there", text: k1 + "\n## More\n" + f1 + f2 + f3},
		{what: "a fault is missing", text: k1 + f2, fault: "the row of F1 does not name TestF001_"},
		{what: "in another order", text: k1 + f2 + f3 + f1},
		{what: "the last is missing", text: k1 + f1, fault: "the row of F2 does not name TestF002_"},
		{what: "twice the same", text: k1 + f1 + f1 + f2, fault: "F1 has two rows"},
		{what: "a column is missing", text: k1 + f1 + f2 + "| F3 | happens | `TestOther` |\n", fault: "without four full columns"},
		{what: "the tests are missing", text: k1 + f1 + f2 + "| F3 | happens | is seen | |\n", fault: "without four full columns"},
		{what: "no such test", old: "`TestF002_Two`", new: "`TestF002_Two`, `TestGone`", fault: "names TestGone"},
		{what: "a method", old: "`TestF002_Two`", new: "`TestF002_Two`, `TestMethod`", fault: "names TestMethod"},
		{what: "a subtest", old: "`TestF002_Two`", new: "`TestF002_Two`, `TestSub`", fault: "names TestSub"},
		{what: "not named", old: ", `TestF002_More`", fault: "the row of F2 does not name TestF002_More"},
		{what: "named by another row", old: "`TestF001_One`", new: "`TestF001_One`, `TestF002_Two`", text: k1 + f1 + "| F2 | a | b | `TestF002_More` |\n", fault: "the row of F2 does not name TestF002_Two"},
		{what: "no reason", old: "`TestF001_One`", new: "none", fault: "F1 names no test TestF001_"},
		{what: "another fault's test", old: "`TestF001_One`", new: "`TestOther`", fault: "F1 names no test TestF001_"},
		{what: "an empty reason", old: "`TestF001_One`", new: "no test: because", fault: "F1 names no test TestF001_"},
		{what: "a reason and a test", old: "`TestF001_One`", new: "no test: because it cannot be seen `TestF001_One`", fault: "F1 says that it has no test"},
		{what: "a finding without a test", old: "`TestOther`", new: "none", fault: "K1 names no test"},
		{what: "a malformed name", text: k1 + f1 + f2, old: "TestF001_One", new: "TestF01_One", fault: "TestF01_One must be called"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if tt.text == "" {
				tt.text = k1 + f1 + f2
			}
			test := "TestF001_One"
			if tt.old == test {
				test = tt.new
			}
			expect(t, checkFaults, map[string]string{
				catalogue: strings.Replace(tt.text, tt.old, tt.new, 1),
				"p/p_test.go": `package p

func TestOther(t *testing.T) { t.Run("TestSub", func(t *testing.T) {}) }
func ` + test + `(t *testing.T) {}
func (x) TestMethod(t *testing.T) {}
`,
				"q/q_test.go": "package q\n\nfunc TestF002_Two(t *testing.T) {}\nfunc TestF002_More(t *testing.T) {}\n",
			}, tt.fault)
		})
	}
}
