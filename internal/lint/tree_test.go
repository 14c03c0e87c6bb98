// SPDX-License-Identifier: Apache-2.0

package lint

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

const (
	root       = "../.."
	modulePath = "github.com/holdfast-go/holdfast"
)

// A tree is the files of a module.
type tree struct {
	fs.FS
	positions *token.FileSet
	files     []goFile // including those for other operating systems and build tags
}

// A goFile is a parsed Go file.
type goFile struct {
	name   string // path in the tree
	syntax *ast.File
}

func (f goFile) pkg() string  { return path.Dir(f.name) }
func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// programs are modules of their own because of what they require. Otherwise they are as the
// packages of the library, and the same rules hold for them.
var programs = []string{"cmd/holdfast", "stress"}

// load parses a tree. Other nested modules, hidden directories and test data are not
// part of it.
func load(t *testing.T, files fs.FS) tree {
	t.Helper()
	tr := tree{FS: files, positions: token.NewFileSet()}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if _, err := fs.Stat(files, path.Join(name, "go.mod")); name != "." && err == nil && !slices.Contains(programs, name) || d.Name() == "testdata" || hidden(name) {
				return fs.SkipDir
			}
		case path.Ext(name) == ".go":
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			syntax, err := parser.ParseFile(tr.positions, name, text, parser.SkipObjectResolution)
			tr.files = append(tr.files, goFile{name, syntax})
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func hidden(name string) bool {
	base := path.Base(name)
	return name != "." && (base[0] == '.' || base[0] == '_')
}

// A check returns what is wrong with a tree.
type check func(tree) faults

type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// run runs a check on this module.
func run(t *testing.T, c check) {
	t.Helper()
	for _, fault := range c(load(t, os.DirFS(root))) {
		t.Error(fault)
	}
}

// expect runs a check on a tree of the given files. Some fault must contain want,
// or, if that is empty, there must be none.
func expect(t *testing.T, c check, files map[string]string, want string) {
	t.Helper()
	found := c(load(t, memory(files)))
	if want == "" && len(found) > 0 || !strings.Contains(strings.Join(found, "\n"), want) {
		t.Errorf("faults %q, want %q", found, want)
	}
}

// memory returns a file system with the given files.
func memory(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}
