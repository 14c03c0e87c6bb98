// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A room is a package that is looked into.
type room struct {
	*packages.Package
	name  string // its directory, as in sizes
	calls calls
}

// load type-checks packages of the module in dir, for the same operating system wherever it runs. It
// returns the packages with at least so many lines of code, by name.
func load(dir string, patterns []string, s sizes, least int) (rooms []*room, err error) {
	env := append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil {
		env = append(env, "GOWORK=off") // one in a directory above joins other modules
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.LoadSyntax | packages.NeedModule,
		Dir:  dir,
		Env:  env,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load the packages in %s: %w", dir, err)
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("type-check the packages in %s: %w", dir, err)
	}
	for _, p := range pkgs {
		if name := path.Clean("." + strings.TrimPrefix(p.PkgPath, p.Module.Path)); s[name].code >= least {
			rooms = append(rooms, &room{p, name, callsOf(p)})
		}
	}
	slices.SortFunc(rooms, func(a, b *room) int { return cmp.Compare(a.name, b.name) })
	return rooms, nil
}

// file returns the name of the file at pos.
func (r *room) file(pos token.Pos) string { return filepath.Base(r.Fset.Position(pos).Filename) }

// printTypes prints the types with the most methods, with the number of files that these
// are in, and the types with the most fields.
func (r *room) printTypes(t table, top int) {
	type tally struct {
		name  string
		n     int
		files map[string]bool
	}
	most := func(all []tally) []tally {
		slices.SortFunc(all, func(a, b tally) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
		return all[:min(top, len(all))]
	}
	var methods, fields []tally
	scope := r.Types.Scope()
	for _, name := range scope.Names() {
		object, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		named := object.Type().(*types.Named)
		files := map[string]bool{}
		for m := range named.Methods() {
			files[r.file(m.Pos())] = true
		}
		methods = append(methods, tally{name, named.NumMethods(), files})
		if s, ok := named.Underlying().(*types.Struct); ok {
			fields = append(fields, tally{name, s.NumFields(), nil})
		}
	}
	for _, m := range most(methods) {
		t.add(r.name, "methods of "+m.name, m.n)
		t.add(r.name, "files with methods of "+m.name, len(m.files))
	}
	for _, f := range most(fields) {
		t.add(r.name, "fields of "+f.name, f.n)
	}
}
