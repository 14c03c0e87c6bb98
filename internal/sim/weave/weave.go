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

// The lists below name methods and functions of the woven packages. A name that
// none of them has stops the weaver: a list that no longer fits the code would
// quietly take points away. See weaver.unknown.
var (
	// atomics are the methods before whose calls other goroutines can come in:
	// those of atomic values, and the project's that are one atomic operation each.
	atomics = []string{
		"Load", "Store", "Swap", "CompareAndSwap", "Or", "And", "Add",
		"Apply", "LeaveOthers", "Set", "Settle", "Settled", "Poll", "Raise", "Take", "InForce",
	}

	// stalling are the functions in which a goroutine can also be held up for
	// long, at the same points: functions that run on goroutines of their own and
	// hold no mutex.
	stalling = []string{
		"roundIO.Step", "roundIO.fetch", "queuer.createNode", "paired.enterBeside", "waiter.wait", "waiter.watchAhead",
		"roundIO.grant", "roundIO.keep", "roundIO.release", "roundIO.cancel", "queuer.leaveQueue", "Runner.Run",
		"roundIO.left", "round.finish", "round.askIn", "round.admitNext", "incumbent.openGate", "withdrawal.steps", "Client.watch",
		"group.Step", "group.wait", "group.enter", "place.giveWay",
	}

	// lagging are the functions before which a goroutine can fall behind all
	// others. The dispatcher calls watches.tell: a worker may act on a reply
	// before a watch event that came in ahead of it has been told.
	lagging = []string{"watches.tell"}
)

const (
	reached   = "//holdfast:reached "
	reachedIf = "//holdfast:reached-if "
)

// A weaver weaves files, and remembers what it has found in them.
type weaver struct {
	branches []string        // the names in the marks
	found    map[string]bool // the listed names that are in the files
}

func newWeaver() *weaver { return &weaver{found: make(map[string]bool)} }

// unknown returns an error if a list names what is in none of the files.
func (w *weaver) unknown() error {
	var missing []string
	for _, list := range []struct {
		name  string
		names []string
	}{{"atomics", atomics}, {"stalling", stalling}, {"lagging", lagging}} {
		for _, name := range list.names {
			if !w.found[name] {
				missing = append(missing, fmt.Sprintf("%s (in %s)", name, list.name))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the woven packages have no %s: change the lists in internal/sim/weave/weave.go after the code",
		strings.Join(missing, ", "))
}

// weave returns the source of a file with its points. Each line stays where it is.
func (w *weaver) weave(file string, src []byte) (text string, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
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
					return "", fmt.Errorf("%s: want %sCONDITION: NAME", fset.Position(c.Pos()), reachedIf)
				}
				name = strings.TrimSpace(n)
				call = fmt.Sprintf("if %s { holdfastyield.Reached(%q) }", cond, name)
			} else if strings.HasPrefix(c.Text, "//holdfast:") {
				return "", fmt.Errorf("%s: unknown mark %s", fset.Position(c.Pos()), c.Text)
			} else {
				continue
			}
			w.branches = append(w.branches, name)
			at(c.Pos(), call, len(c.Text))
		}
	}

	call := "" // stands before the atomic operations of the present function
	ast.Inspect(f, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			call = "holdfastyield.Point(); "
			switch name := funcName(n); {
			case slices.Contains(stalling, name):
				w.found[name] = true
				call = "holdfastyield.Stall(); "
			case slices.Contains(lagging, name):
				w.found[name] = true
				at(n.Body.Lbrace+1, " holdfastyield.Lag(); ", 0)
			}
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			if name := atomicCall(s); name != "" {
				w.found[name] = true
				at(s.Pos(), call, 0)
			}
		}
		return true
	})
	if len(inserts) == 0 {
		return string(src), nil
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
	return b.String(), nil
}

// funcName returns a function's name, or a method's as Type.name.
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

// An insert is text that replaces some bytes at an offset, or none.
type insert struct {
	offset int
	text   string
	drop   int
}

// atomicCall returns the name of an atomic method that a statement calls; "" if it
// calls none. The statements inside it do not count.
func atomicCall(s ast.Stmt) (name string) {
	if _, labeled := s.(*ast.LabeledStmt); labeled {
		return "" // its own statement is in no list; a goto may lead here
	}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.FuncLit, *ast.CaseClause, *ast.CommClause:
			return false // has a list of its own
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(atomics, sel.Sel.Name) {
				name = sel.Sel.Name
			}
		}
		return name == ""
	})
	return name
}
