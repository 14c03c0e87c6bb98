// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Documents lead readers through the code by names, so names in `code` and links
// must have something to lead to.
func TestDocuments(t *testing.T) { run(t, checkDocuments) }

var (
	program    = regexp.MustCompile("(?s)```.*?```")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	goFilePath = regexp.MustCompile(`^(\.?[\w-]+/)+[\w-]+\.go$`)
	goFileName = regexp.MustCompile(`^[\w-]+\.go$`)
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	qualified  = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)+$`) // pkg.Name, Type.method, pkg.Type.Method
)

// documents calls fn for each document of the tree.
func documents(tr tree, fn func(name, text string)) error {
	return fs.WalkDir(tr, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() != ".github" && (hidden(name) || d.Name() == "testdata"):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tr, name)
		fn(name, string(text))
		return err
	})
}

func checkDocuments(tr tree) (faults faults) {
	names := declared(tr)
	missing := func(name string) bool {
		_, err := fs.Stat(tr, name)
		return err != nil
	}
	err := documents(tr, func(name, text string) {
		text = program.ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target != "" && !strings.Contains(target, "://") && missing(path.Join(path.Dir(name), target)) {
				faults.add("%s links to %s, which does not exist", name, target)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			code, _, _ := strings.Cut(m[1], "(")
			first, _, _ := strings.Cut(code, ".")
			switch {
			case goFileName.MatchString(code):
			case goFilePath.MatchString(code) && missing(code), testName.MatchString(code) && !names[code],
				// A dotted name that begins with a package or type of ours.
				qualified.MatchString(code) && names[first] && !names[code]:
				faults.add("%s names %s, which does not exist", name, code)
			}
		}
	})
	if err != nil {
		faults.add("%v", err)
	}
	return faults
}

// declared returns the names that documents may use: "TestX", "pkg", "Type",
// "pkg.Name", "Type.method", "Type.field", "pkg.Type.method" and so on. Of test
// files only tests count.
func declared(tr tree) map[string]bool {
	names := map[string]bool{}
	for _, f := range tr.files {
		pkg := f.syntax.Name.Name
		add := func(parts ...string) {
			if !f.isTest() {
				names[strings.Join(parts, ".")] = true
			}
		}
		addMember := func(typ, member string) {
			add(typ, member)
			add(pkg, typ, member)
		}
		add(pkg)
		for _, decl := range f.syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil {
					addMember(receiver(decl), decl.Name.Name)
					continue
				}
				add(pkg, decl.Name.Name)
				if testName.MatchString(decl.Name.Name) {
					names[decl.Name.Name] = true
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
						for _, field := range members(spec.Type) {
							for _, ident := range field.Names {
								addMember(spec.Name.Name, ident.Name)
							}
						}
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of a method's receiver type.
func receiver(f *ast.FuncDecl) (name string) {
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && name == "" {
			name = ident.Name
		}
		return name == ""
	})
	return name
}

// members returns the fields of a struct or the methods of an interface.
func members(expr ast.Expr) []*ast.Field {
	switch e := expr.(type) {
	case *ast.StructType:
		return e.Fields.List
	case *ast.InterfaceType:
		return e.Methods.List
	}
	return nil
}

func TestDocumentsCatches(t *testing.T) {
	for _, tt := range []struct{ text, fault string }{
		{"`Session.Prove`, `zkio.Session.Prove`, `Session.Prove(path)`", ""},
		{"`Session.Sync`", "names Session.Sync"},
		{"`Mutex.Sync`", ""},        // not a type of ours
		{"`lock.Acquire(ctx)`", ""}, // a test's type
		{"`Session.epoch`", ""},
		{"`Task.Stop`", "names Task.Stop"},
		{"`zkio.Limit`", ""},
		{"`zkio.Most`", "names zkio.Most"},
		{"`time.Sleep`", ""},
		{"`session.go`, `zkio/session.go`", ""},
		{"`zkio/gone.go`", "names zkio/gone.go"},
		{"`TestProve`", ""},
		{"`TestGone`", "names TestGone"},
		{"[it](zkio/session.go) [there](https://example.org/x) [here](#top)", ""},
		{"[it](docs/none.md#part)", "links to docs/none.md"},
		{"```go\nzkio.Most()\n```", ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			expect(t, checkDocuments, map[string]string{
				"zkio/session.go": `package zkio

type Session[T any] struct{ epoch int }

func (s *Session[T]) Prove(path string) error { return nil }

type Task interface{ Run() }

const Limit = 1
`,
				"zkio/session_test.go": "package zkio\n\ntype lock struct{}\n\nfunc TestProve() {}\n",
				"README.md":            tt.text,
			}, tt.fault)
		})
	}
}
