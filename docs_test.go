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
	"strings"
	"testing"
	"testing/fstest"
)

// The documents lead a reader through the code by names. This test holds them
// to it: what they name in `code` has to be there, and where they link to, too.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	for _, fault := range checkDocuments(t, os.DirFS(".")) {
		t.Error(fault)
	}
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	quoted = regexp.MustCompile("`([^`\n]+)`")
	// a file, a test, or a name with something in front: pkg.Name, Type.method,
	// pkg.Type.Method.
	goFile    = regexp.MustCompile(`^(\.?[\w-]+/)*[\w-]+\.go$`)
	testName  = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	qualified = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)+$`)
)

func checkDocuments(t *testing.T, module fs.FS) (faults []string) {
	t.Helper()
	names := declared(t, module)
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && d.Name() != ".github" && (d.Name()[0] == '.' || d.Name() == "testdata"):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := fs.Stat(module, path.Join(path.Dir(name), target)); err != nil {
				faults = append(faults, fmt.Sprintf("%s links to %s, which is not there", name, target))
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(prose, -1) {
			code, _, _ := strings.Cut(m[1], "(")
			switch {
			case goFile.MatchString(code) && strings.Contains(code, "/"):
				if _, err := fs.Stat(module, code); err != nil {
					faults = append(faults, fmt.Sprintf("%s names the file %s, which is not there", name, code))
				}
			case testName.MatchString(code) && !names[code]:
				faults = append(faults, fmt.Sprintf("%s names %s, and there is no such test", name, code))
			case qualified.MatchString(code) && !goFile.MatchString(code) && names.lacks(code):
				faults = append(faults, fmt.Sprintf("%s names %s, which the code does not have", name, code))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// nameSet has the names of the module's tests, its packages and types, and what
// they have: "TestX", "pkg", "Type", "pkg.Name", "Type.method", "Type.field",
// "pkg.Type.method", ….
type nameSet map[string]bool

// lacks reports whether a dotted name is about this module and wrong: its first
// part is a package or a type of ours, and the whole is nothing.
func (n nameSet) lacks(dotted string) bool {
	first, _, _ := strings.Cut(dotted, ".")
	return n[first] && !n[dotted]
}

func declared(t *testing.T, module fs.FS) nameSet {
	t.Helper()
	names := nameSet{}
	files := token.NewFileSet()
	for _, name := range goFiles(t, module) {
		text, err := fs.ReadFile(module, name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		inTest, pkg := strings.HasSuffix(name, "_test.go"), file.Name.Name
		add := func(parts ...string) {
			if !inTest { // a test's helpers are no names to lead a reader by
				names[strings.Join(parts, ".")] = true
			}
		}
		add(pkg)
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					add(pkg, decl.Name.Name)
					names[decl.Name.Name] = names[decl.Name.Name] || testName.MatchString(decl.Name.Name)
				} else if receiver := receiverOf(decl); receiver != "" {
					add(receiver, decl.Name.Name)
					add(pkg, receiver, decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, ident := range spec.Names {
							add(pkg, ident.Name)
						}
					case *ast.TypeSpec:
						add(spec.Name.Name)
						add(pkg, spec.Name.Name)
						for _, member := range membersOf(spec.Type) {
							add(spec.Name.Name, member)
							add(pkg, spec.Name.Name, member)
						}
					}
				}
			}
		}
	}
	return names
}

func receiverOf(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// membersOf returns the fields of a struct and the methods of an interface.
func membersOf(expr ast.Expr) (members []string) {
	var list *ast.FieldList
	switch e := expr.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, ident := range field.Names {
			members = append(members, ident.Name)
		}
	}
	return members
}

// Each row is a document that is wrong in one thing, or just is not.
func TestDocumentsCatches(t *testing.T) {
	const code = `package zkio

type Session struct{ epoch int }

func (s *Session) Prove(path string) error { return nil }

type Task interface{ Run() }

const Limit = 1
`
	const tests = `package zkio

type lock struct{}

func TestProve() {}
`
	rows := []struct{ name, text, fault string }{
		{"a method", "`Session.Prove`, `zkio.Session.Prove`, `Session.Prove(path)`", ""},
		{"a method that is gone", "`Session.Sync`", "names Session.Sync"},
		{"a method of a type that is not ours", "`Mutex.Sync`", ""},
		{"a method of a test's type", "`lock.Acquire(ctx)`", ""},
		{"a field", "`Session.epoch`", ""},
		{"an interface's method that is gone", "`Task.Stop`", "names Task.Stop"},
		{"a package's name", "`zkio.Limit`", ""},
		{"a package's name that is gone", "`zkio.Most`", "names zkio.Most"},
		{"the standard library", "`time.Sleep`", ""},
		{"a file", "`zkio/session.go`", ""},
		{"a file that is gone", "`zkio/gone.go`", "names the file zkio/gone.go"},
		{"a test", "`TestProve`", ""},
		{"a test that is gone", "`TestGone`", "no such test"},
		{"a link", "[it](zkio/session.go) [there](https://example.org/x) [here](#top)", ""},
		{"a link that is broken", "[it](docs/none.md#part)", "links to docs/none.md"},
		{"a program", "```go\nzkio.Most()\n```", ""},
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			module := fstest.MapFS{
				"zkio/session.go":      {Data: []byte(code)},
				"zkio/session_test.go": {Data: []byte(tests)},
				"README.md":            {Data: []byte(tt.text)},
			}
			expectFault(t, checkDocuments(t, module), tt.fault)
		})
	}
}
