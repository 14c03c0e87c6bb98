// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

const root = "../.."

// executed are the documents whose blocks all run.
var executed = []string{
	"docs/operating.md", "docs/testing.md", "docs/fencing.md", "docs/recipes.md",
	"docs/migrating.md", "docs/migrating-curator.md", "docs/migrating-zookeeper.md", "docs/migrating-redis.md",
	"docs/migrating-postgres.md", "docs/migrating-services.md",
}

// A block is a part of a document between two fences.
type block struct {
	file string // the document's path in the repository
	line int    // of the first line behind the fence
	lang string // what the fence says
	from string // the file that the text stands in, if a comment says so
	not  string // why it is not run, if a comment says so
	text string
}

// blocks returns the blocks of all documents.
func blocks(t *testing.T) (all []block) {
	t.Helper()
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base[0] == '.' && base != ".github" || base == "testdata"):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(files, name)
		all = append(all, parse(name, string(text))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parse returns the blocks of a document. A block in a list is indented.
func parse(file, text string) (all []block) {
	var b *block // the one that has begun
	var indent, comment string
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		fence, isFence := strings.CutPrefix(trimmed, "```")
		switch {
		case b != nil && isFence:
			all = append(all, *b)
			b = nil
		case b != nil:
			b.text += strings.TrimPrefix(line, indent) + "\n"
		case isFence:
			b = &block{file: file, line: i + 2, lang: fence}
			indent, _, _ = strings.Cut(line, "`")
			b.from, _ = strings.CutPrefix(comment, "from ")
			if b.from == comment {
				b.from = ""
			}
			if not, ok := strings.CutPrefix(comment, "not run: "); ok {
				b.not = not
			}
			comment = ""
		case trimmed != "":
			comment = ""
			if c, ok := strings.CutPrefix(trimmed, "<!-- "); ok {
				comment = strings.TrimSuffix(c, " -->")
			}
		}
	}
	return all
}

func TestParse(t *testing.T) {
	const text = "a\n\n<!-- from b/c.go -->\n\n```go\nx\n\n\ty\n```\n<!-- not run: no db -->\n```sh\nls\n```\n" +
		"1. i\n\n   ```console\n   $ a\n    b\n   ```\n<!-- else -->\ntext\n```\nfigure\n```\n"
	want := []block{
		{"d.md", 6, "go", "b/c.go", "", "x\n\n\ty\n"},
		{"d.md", 12, "sh", "", "no db", "ls\n"},
		{"d.md", 17, "console", "", "", "$ a\n b\n"},
		{"d.md", 23, "", "", "", "figure\n"},
	}
	got := parse("d.md", text)
	if len(got) != len(want) {
		t.Fatalf("%d blocks, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("block %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}
