// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// needs are the functions by which a test gets a real server or another client's program.
var needs = map[string]string{
	"realzk.Require":        server,
	"realzk.Run":            server,
	"realzk.RunEnsemble":    server,
	"realzk.Shared":         server,
	"realzk.Start":          server,
	"realzk.StartEnsemble":  server,
	"recipetest.Everywhere": server,
	"recipetest.OnReal":     server,
	"otherclients.Curator":  "curator",
	"otherclients.Kazoo":    "kazoo",
}

// server is what a test needs that runs on a real ZooKeeper.
const server = "server"

// A test is a test function, and what it needs.
type test struct {
	pkg   string // relative to the module, such as "./manager"
	name  string
	needs []string
}

// survey finds the tests below the directories that need a real server or another client.
//
// It reads the source and does not run it: a test is found if it reaches one of the functions
// in needs by names, through functions, methods and variables of its package's tests. Names
// count without their types and scopes, so some tests are found that need nothing. They do
// no harm. None is missed but by a call through another package.
func survey(dirs ...string) ([]test, error) {
	var found []test
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil || !entry.IsDir():
				return err
			case entry.Name() == "testdata":
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
			tests, err := surveyPackage(name)
			found = append(found, tests...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

var testName = regexp.MustCompile(`^Test([^a-z]|$)`)

func surveyPackage(dir string) ([]test, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	uses := make(map[string][]string) // from what is declared to the names in it
	var names []string
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			for name, body := range declared(decl) {
				uses[name] = append(uses[name], namesIn(file, body)...)
				if _, isFunc := decl.(*ast.FuncDecl); isFunc && testName.MatchString(name) {
					names = append(names, name)
				}
			}
		}
	}
	var found []test
	for _, name := range names {
		if n := reached(uses, name); n != nil {
			found = append(found, test{"./" + filepath.ToSlash(dir), name, n})
		}
	}
	return found, nil
}

// declared returns what a declaration names, and the code behind each name.
func declared(decl ast.Decl) map[string]ast.Node {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := decl.Name.Name
		if decl.Recv != nil {
			name = "." + name
		}
		if decl.Body != nil {
			return map[string]ast.Node{name: decl.Body}
		}
	case *ast.GenDecl:
		names := make(map[string]ast.Node)
		for _, spec := range decl.Specs {
			if v, isVar := spec.(*ast.ValueSpec); isVar {
				for _, name := range v.Names {
					names[name.Name] = v
				}
			}
		}
		return names
	}
	return nil
}

// namesIn returns the names that code uses: those of other packages with the package's last
// element before them.
func namesIn(file *ast.File, code ast.Node) (names []string) {
	var inspect func(n ast.Node) bool
	inspect = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, isIdent := n.X.(*ast.Ident); isIdent {
				if pkg := imported(file, x.Name); pkg != "" {
					names = append(names, pkg+"."+n.Sel.Name)
					return false
				}
			}
			names = append(names, "."+n.Sel.Name)
			ast.Inspect(n.X, inspect)
			return false
		case *ast.Ident:
			names = append(names, n.Name)
		}
		return true
	}
	ast.Inspect(code, inspect)
	return names
}

// imported returns the last element of the path of the package that a file calls name, or "".
func imported(file *ast.File, name string) string {
	for _, spec := range file.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		last := path.Base(importPath)
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && last == name {
			return last
		}
	}
	return ""
}

// reached returns what the code behind a name needs, sorted, or nil.
func reached(uses map[string][]string, name string) (kinds []string) {
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, next := range uses[queue[0]] {
			if kind := needs[next]; kind != "" && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			if !seen[next] && uses[next] != nil {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}
