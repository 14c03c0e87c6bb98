// SPDX-License-Identifier: Apache-2.0

// Package apitext describes the exported API of Go packages as text, so that changes
// show in reviews: a line for each declaration, field and method, sorted, without
// comments and bodies.
//
// docs/api.txt is the API of this module. This package's test compares it with the
// code and shows the difference; `make api` updates it.
package apitext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Public returns the import paths of the packages matched by patterns that other
// modules can import: neither commands nor internal packages. Patterns are those of
// the go command, which runs in dir.
func Public(dir string, patterns ...string) ([]string, error) {
	out, err := goCommand(dir, append([]string{"list", "-f", "{{.Name}} {{.ImportPath}}"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var public []string
	for line := range strings.Lines(out) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "main" && !slices.Contains(strings.Split(path, "/"), "internal") {
			public = append(public, path)
		}
	}
	slices.Sort(public)
	return public, nil
}

// Of returns the API of the packages with the given import paths, in that order,
// except packages without an API. It reads their source and has the go command, which
// runs in dir, compile what they import, for this machine's platform.
func Of(dir string, packages ...string) (string, error) {
	out, err := goCommand(dir, append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export"}, packages...)...)
	if err != nil {
		return "", err
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	all := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", fmt.Errorf("apitext: parsing the output of go list: %w", err)
		}
		all[p.ImportPath] = p
	}

	files := token.NewFileSet()
	// Bodies do not matter, nor does what they use.
	config := types.Config{IgnoreFuncBodies: true, Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(all[path].Export)
	})}
	var b strings.Builder
	for _, path := range packages {
		p := all[path]
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return "", fmt.Errorf("apitext: %s: %w", path, err)
			}
			parsed = append(parsed, file)
		}
		pkg, err := config.Check(path, files, parsed, nil)
		if err != nil {
			return "", fmt.Errorf("apitext: %s: %w", path, err)
		}
		lines := describe(pkg)
		if len(lines) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "package %s // import %q\n\n", pkg.Name(), path)
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
	}
	return b.String(), nil
}

func goCommand(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("apitext: go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// describe returns the lines for pkg: constants, variables, functions, and types with
// their members, each group sorted by name.
func describe(pkg *types.Package) (lines []string) {
	d := describer{pkg}
	var consts, vars, funcs, named []string
	for _, name := range pkg.Scope().Names() { // sorted
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			typ := " " + d.typ(o.Type())
			if strings.HasPrefix(typ, " untyped ") {
				typ = ""
			}
			consts = append(consts, fmt.Sprintf("const %s%s = %s", name, typ, o.Val().ExactString()))
		case *types.Var:
			vars = append(vars, fmt.Sprintf("var %s %s", name, d.typ(o.Type())))
		case *types.Func:
			funcs = append(funcs, "func "+name+d.signature(o.Signature()))
		case *types.TypeName:
			named = append(named, d.typeName(o)...)
		}
	}
	return slices.Concat(consts, vars, funcs, named)
}

// A describer formats types as the code of its package does: only names of other
// packages are qualified.
type describer struct{ pkg *types.Package }

func (d describer) qualify(other *types.Package) string {
	if other == d.pkg {
		return ""
	}
	return other.Name()
}

func (d describer) typ(t types.Type) string { return types.TypeString(t, d.qualify) }

// signature returns parameters and results, as they follow a function's name.
func (d describer) signature(s *types.Signature) string {
	var b bytes.Buffer
	types.WriteSignature(&b, s, d.qualify)
	return b.String()
}

func (d describer) typeParams(list *types.TypeParamList) string {
	params := make([]string, list.Len())
	for i := range params {
		p := list.At(i)
		params[i] = p.Obj().Name() + " " + d.typ(p.Constraint())
	}
	return "[" + strings.Join(params, ", ") + "]"
}

// typeName returns the line of a type, followed by those of its fields and methods,
// indented.
func (d describer) typeName(name *types.TypeName) (lines []string) {
	head := "type " + name.Name()
	if name.IsAlias() {
		return []string{head + " = " + d.typ(types.Unalias(name.Type()))}
	}
	named, ok := name.Type().(*types.Named)
	if !ok { // unreachable: only aliases are not Named
		panic(fmt.Sprintf("apitext: %s is a %T", name, name.Type()))
	}
	if params := named.TypeParams(); params.Len() > 0 {
		head += d.typeParams(params)
	}
	switch t := named.Underlying().(type) {
	case *types.Struct:
		head += " struct"
		// That values are comparable is a promise that fields do not show. For
		// types used by pointer it does not matter.
		if types.Comparable(named) && !hasPointerMethods(named) {
			head += " // comparable"
		}
		lines = d.fields(t)
	case *types.Interface:
		head += " interface"
		lines = d.interfaceMethods(t)
	default:
		head += " " + d.typ(t)
	}
	for method := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		f, ok := method.Obj().(*types.Func)
		if !ok || !f.Exported() || types.IsInterface(named) {
			continue
		}
		receiver := name.Name()
		if isPointer(f.Signature().Recv().Type()) {
			receiver = "*" + receiver
		}
		lines = append(lines, fmt.Sprintf("func (%s) %s%s", receiver, f.Name(), d.signature(f.Signature())))
	}
	for i := range lines {
		lines[i] = "    " + lines[i]
	}
	return append([]string{head}, lines...)
}

func hasPointerMethods(named *types.Named) bool {
	for m := range named.Methods() {
		if isPointer(m.Signature().Recv().Type()) {
			return true
		}
	}
	return false
}

func isPointer(t types.Type) bool {
	_, ok := t.(*types.Pointer)
	return ok
}

// fields returns the exported fields, sorted, including those of embedded unexported
// structs, which users see as fields of the outer struct.
func (d describer) fields(s *types.Struct) (lines []string) {
	for f := range s.Fields() {
		switch inner, isStruct := deref(f.Type()).Underlying().(*types.Struct); {
		case f.Exported() && f.Embedded():
			lines = append(lines, d.typ(f.Type())+" // embedded")
		case f.Exported():
			lines = append(lines, f.Name()+" "+d.typ(f.Type()))
		case f.Embedded() && isStruct:
			lines = append(lines, d.fields(inner)...)
		}
	}
	slices.Sort(lines)
	return lines
}

func deref(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// interfaceMethods returns the methods of an interface, sorted, including those of
// embedded interfaces.
func (d describer) interfaceMethods(i *types.Interface) (lines []string) {
	closed := false
	for m := range i.Methods() {
		if m.Exported() {
			lines = append(lines, m.Name()+d.signature(m.Signature()))
		} else {
			closed = true
		}
	}
	slices.Sort(lines)
	if closed {
		lines = append(lines, "// and methods that only its own package can implement")
	}
	return lines
}

// Diff returns the lines that differ, with "-" before those only in old and "+" before
// those only in new, below the unindented lines to which they belong. It returns "" if
// the texts are equal.
func Diff(old, new string) string {
	a, b := lines(old), lines(new)
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}

	var out strings.Builder
	var pkg, head string // headings of the next line, until written
	write := func(mark, line string) {
		isMember := strings.HasPrefix(line, " ")
		if pkg != "" && !strings.HasPrefix(line, "package ") {
			fmt.Fprintf(&out, "  %s\n", pkg)
		}
		if head != "" && isMember {
			fmt.Fprintf(&out, "  %s\n", head)
		}
		fmt.Fprintf(&out, "%s %s\n", mark, line)
		pkg, head = "", "" // written
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			switch {
			case strings.HasPrefix(a[i], "package "):
				pkg, head = a[i], ""
			case !strings.HasPrefix(a[i], " "):
				head = a[i]
			}
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			write("-", a[i])
			i++
		default:
			write("+", b[j])
			j++
		}
	}
	return out.String()
}

// lines returns the lines of text that are not empty.
func lines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
