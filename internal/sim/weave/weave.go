// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// atomics are the names of the methods before which others can come in between:
// those of atomic values, and ours that are one atomic operation each.
var atomics = map[string]bool{
	"Load": true, "Store": true, "Swap": true, "CompareAndSwap": true, "Or": true, "Add": true, "Inc": true,
	"Apply": true, "Set": true, "Settle": true, "Settled": true, "Poll": true,
	"Raise": true, "Take": true,
}

// stalling are the functions in which a goroutine can also be held up for long:
// those that run on goroutines of their own, and hold no mutex.
var stalling = map[string]bool{
	"roundIO.step": true, "roundIO.fetch": true, "roundIO.createNode": true, "roundIO.enterBeside": true, "roundIO.wait": true,
	"roundIO.watchAhead": true, "roundIO.grant": true, "roundIO.keep": true, "roundIO.release": true, "roundIO.cancel": true,
	"roundIO.requeue": true, "runner.run": true,
	"withdrawal.steps": true, "leaseTracker.watch": true,
}

const (
	reached   = "//holdfast:reached "
	reachedIf = "//holdfast:reached-if "
)

// weave returns the source of a file with its points, in the same lines, and the
// names of the branches that are marked in it.
func weave(file string, src []byte) (text string, branches []string, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	var inserts []insert
	at := func(pos token.Pos, s string, drop int) {
		inserts = append(inserts, insert{fset.Position(pos).Offset, s, drop})
	}

	for _, group := range f.Comments {
		for _, c := range group.List {
			var call, name string
			if rest, ok := strings.CutPrefix(c.Text, reached); ok {
				name = strings.TrimSpace(rest)
				call = fmt.Sprintf("holdfastyield.Reached(%q)", name)
			} else if rest, ok := strings.CutPrefix(c.Text, reachedIf); ok {
				cond, n, ok := strings.Cut(rest, ": ")
				if !ok {
					return "", nil, fmt.Errorf("%s: want %sCONDITION: NAME", fset.Position(c.Pos()), reachedIf)
				}
				name = strings.TrimSpace(n)
				call = fmt.Sprintf("if %s { holdfastyield.Reached(%q) }", cond, name)
			} else if strings.HasPrefix(c.Text, "//holdfast:") {
				return "", nil, fmt.Errorf("%s: unknown mark %s", fset.Position(c.Pos()), c.Text)
			} else {
				continue
			}
			branches = append(branches, name)
			at(c.Pos(), call, len(c.Text))
		}
	}

	call := "" // before the atomic operations of the function that is looked at
	ast.Inspect(f, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			call = "holdfastyield.Point(); "
			if stalling[funcName(n)] {
				call = "holdfastyield.Stall(); "
			}
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			if isAtomic(s) {
				at(s.Pos(), call, 0)
			}
		}
		return true
	})
	if len(inserts) == 0 {
		return string(src), nil, nil
	}
	at(f.Name.End(), `; import holdfastyield "github.com/holdfast-go/holdfast/internal/sim/yield"`, 0)

	slices.SortStableFunc(inserts, func(a, b insert) int { return a.offset - b.offset })
	var b strings.Builder
	done := 0
	for _, i := range inserts {
		b.Write(src[done:i.offset])
		b.WriteString(i.text)
		done = i.offset + i.drop
	}
	b.Write(src[done:])
	return b.String(), branches, nil
}

// funcName returns a function's name, after its receiver's type and a dot.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// insert is a text that is put in at an offset, in the place of some bytes.
type insert struct {
	offset int
	text   string
	drop   int
}

// isAtomic reports whether a statement begins with an atomic operation: whether
// one of its expressions is one, the statements inside it aside.
func isAtomic(s ast.Stmt) bool {
	if _, labeled := s.(*ast.LabeledStmt); labeled {
		return false // its own statement is not in a list; a goto may lead here
	}
	found := false
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.FuncLit, *ast.CaseClause, *ast.CommClause:
			return false // has a list of its own
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && atomics[sel.Sel.Name] {
				found = true
			}
		}
		return !found
	})
	return found
}
