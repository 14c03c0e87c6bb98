// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits on language: comments name the actor, and the README is short.
func TestWords(t *testing.T) {
	for _, fault := range checkWords(os.DirFS(root), 20, 9000) {
		t.Error(fault)
	}
}

var vague = regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|whom)\b`)

// checkWords checks the number of lines of code with vague words, outside tests but
// including nested modules, and the length of the README in characters.
func checkWords(files fs.FS, lines, characters int) (faults faults) {
	var found []string
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && hidden(name):
			return fs.SkipDir
		case path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(files, name)
		for line := range bytes.Lines(text) {
			if vague.Match(line) {
				found = append(found, name+": "+string(bytes.TrimSpace(line)))
			}
		}
		return err
	})
	if err != nil {
		faults.add("%v", err)
	}
	if len(found) > lines {
		faults.add("%d lines of code speak of nobody, somebody, whoever or whom; at most %d may. Name the actor:\n%s", len(found), lines, strings.Join(found, "\n"))
	}
	readme, err := fs.ReadFile(files, "README.md")
	if err != nil {
		faults.add("%v", err)
	}
	if n := utf8.RuneCount(readme); n > characters {
		faults.add("README.md has %d characters; at most %d are allowed. Move details to docs", n, characters)
	}
	return faults
}

func TestWordsCatches(t *testing.T) {
	for _, tt := range []struct{ readme, code, fault string }{
		{"été", "// Somebody. Somebody.\n// somebodyElse, anybody", ""},
		{"étés", "", "README.md has 4 characters"},
		{"été", "// Somebody.\n// To whom?", "2 lines of code speak of"},
	} {
		files := map[string]string{"README.md": tt.readme, "bench/plot/go.mod": "module plot", "bench/plot/a.go": tt.code, "a_test.go": "// whoever\n// nobody"}
		found := strings.Join(checkWords(memory(files), 1, 3), "\n")
		if tt.fault == "" && found != "" || !strings.Contains(found, tt.fault) {
			t.Errorf("%q: faults %q, want %q", tt, found, tt.fault)
		}
	}
}
