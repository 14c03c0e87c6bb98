// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/typeutil"
)

// calls are those of functions of a package to functions of the same package. A function
// literal is a part of the function in which it stands. A call of a function value or of
// an interface's method leads nowhere: there the reader is to rely on what is said about
// the value or the interface. If it led to all that it might call, most walks would lead
// through most of the package, and tell nothing.
type calls struct {
	callers []*types.Func // in the order of the text, by file
	callees map[*types.Func][]*types.Func
}

func callsOf(p *packages.Package) calls {
	c := calls{callees: map[*types.Func][]*types.Func{}}
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			caller := p.TypesInfo.Defs[f.Name].(*types.Func)
			c.callers = append(c.callers, caller)
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if callee := typeutil.StaticCallee(p.TypesInfo, call); callee != nil && callee.Pkg() == p.Types {
						c.callees[caller] = append(c.callees[caller], callee)
					}
				}
				return true
			})
		}
	}
	return c
}

// walk returns the functions that a reader meets who begins at one, follows each call
// before reading on, and reads no function twice.
func (c calls) walk(from *types.Func) (met []*types.Func) {
	seen := map[*types.Func]bool{}
	var read func(*types.Func)
	read = func(f *types.Func) {
		if seen[f] {
			return
		}
		seen[f] = true
		met = append(met, f)
		for _, callee := range c.callees[f] {
			read(callee)
		}
	}
	read(from)
	return met
}

// called returns a function's name as a document would write it: F, or T.m.
func called(f *types.Func) string {
	return strings.NewReplacer(f.Pkg().Path()+".", "", "(", "", ")", "", "*", "").Replace(f.FullName())
}

// printWalk prints of a walk how many functions it has, in how many files, and how often
// it comes back to a file that it had left.
func (r *room) printWalk(t table, met []*types.Func) {
	files := map[string]bool{}
	moves, here := 0, ""
	for _, f := range met {
		if file := r.file(f.Pos()); file != here {
			moves++
			here = file
			files[file] = true
		}
	}
	from := called(met[0])
	t.add(r.name, "functions on the walk from "+from, len(met))
	t.add(r.name, "files on the walk from "+from, len(files))
	t.add(r.name, "returns on the walk from "+from, moves-len(files))
}

// printWalks prints the longest walk, the longest from a function that is not on that one,
// and so on.
func (r *room) printWalks(t table, top int) {
	var walks [][]*types.Func
	for _, f := range r.calls.callers {
		walks = append(walks, r.calls.walk(f))
	}
	slices.SortStableFunc(walks, func(a, b []*types.Func) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(called(a[0]), called(b[0])))
	})
	seen := map[*types.Func]bool{}
	for _, met := range walks {
		if top > 0 && !seen[met[0]] {
			top--
			r.printWalk(t, met)
			for _, f := range met {
				seen[f] = true
			}
		}
	}
}

// printWalkFrom prints the walk from a function with a name such as manager.Lock.Acquire, if
// the package has it.
func (r *room) printWalkFrom(t table, name string) (found bool) {
	for _, f := range r.calls.callers {
		if r.name+"."+called(f) == name {
			r.printWalk(t, r.calls.walk(f))
			return true
		}
	}
	return false
}
