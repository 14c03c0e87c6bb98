// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Doctor names for each release the issues whose row in docs/compatibility.md has that release,
// and no others.
func TestDocumentedBugs(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../docs/compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (ZOOKEEPER-.+?) \| (.+?) \|`).FindAllStringSubmatch(string(text), -1)
	number := regexp.MustCompile(`ZOOKEEPER-(\d+)`)
	rowOf := map[string]string{} // an issue's releases
	for _, row := range rows {
		for _, issue := range number.FindAllStringSubmatch(row[1], -1) {
			rowOf[issue[1]] = row[2]
		}
	}
	if got := len(slices.Concat(bugs, unmended)); got != len(rowOf) || got == 0 {
		t.Errorf("doctor knows %d issues, and the document has %d", got, len(rowOf))
	}
	for minor, last := range map[int]int{5: 10, 6: 4, 7: 2, 8: 6, 9: 5} {
		for patch := range last + 1 {
			r := release{3, minor, patch}
			f := judgeVersion(r.String())
			for issue, row := range rowOf {
				if named := strings.Contains(f.Found+f.Why, issue); named != concerns(t, row, r) {
					t.Errorf("%s: ZOOKEEPER-%s concerns %s; doctor names it: %t", r, issue, row, named)
				}
			}
		}
	}
}

// concerns reports whether a release is among those that a row names, such as "3.5.0 to 3.8.4,
// 3.9.0, 3.9.1". "All of 3.8" only explains that its last release is older than it seems.
func concerns(t *testing.T, row string, r release) bool {
	row = strings.Replace(row, "all up to", "3.5.0 to", 1)
	row = strings.Replace(row, "before", "3.5.0 to before", 1)
	for part := range strings.SplitSeq(row, ", ") {
		if part == "all" {
			return true
		}
		if part == "all of 3.8" {
			continue
		}
		from, to, isSpan := strings.Cut(part, " to ")
		if !isSpan {
			to = from
		}
		to, before := strings.CutPrefix(to, "before ")
		first, ok := releaseOf(from)
		last, ok2 := releaseOf(to)
		if !ok || !ok2 {
			t.Fatalf("what releases are %q?", part)
		}
		if !r.before(first) && (r.before(last) || r == last && !before) {
			return true
		}
	}
	return false
}
