// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Tests must not sleep, except in a synctest bubble, and must not skip in silence.
// forbidigo, which objects to time.Sleep elsewhere, cannot see bubbles.
func TestTestsNeitherSleepNorSkip(t *testing.T) { run(t, checkTests) }

func checkTests(tr tree) (faults faults) {
	for _, f := range tr.files {
		if !f.isTest() {
			continue
		}
		imports := func(path string) bool {
			return slices.ContainsFunc(f.syntax.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"`+path+`"` })
		}
		inBubbles := imports("testing/synctest")
		inProperties := imports("pgregory.net/rapid") // where Skip refuses an input
		short := map[*ast.CallExpr]bool{}             // calls in the body of `if testing.Short()`
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			branch, ok := n.(*ast.IfStmt)
			if ok && slices.ContainsFunc(calls(branch.Cond), func(c call) bool { return c.name == "testing.Short" }) {
				for _, c := range calls(branch.Body) {
					short[c.expr] = true
				}
			}
			return true
		})
		for _, c := range calls(f.syntax) {
			receiver, method, _ := strings.Cut(c.name, ".")
			isTB := slices.Contains([]string{"t", "b", "f", "tb"}, receiver)
			switch at := tr.positions.Position(c.expr.Pos()); {
			case c.name == "time.Sleep" && !inBubbles:
				faults.add("%s: time.Sleep outside a synctest bubble: wait for the event itself", at)
			case isTB && strings.HasPrefix(method, "Skip") && !inProperties && !short[c.expr]:
				faults.add("%s: %s, which goes unnoticed: use realzk.NotRun", at, c.name)
			}
		}
	}
	return faults
}

// A call is of the form x.F(…).
type call struct {
	name string // "x.F"
	expr *ast.CallExpr
}

// calls returns the calls in n.
func calls(n ast.Node) (found []call) {
	ast.Inspect(n, func(n ast.Node) bool {
		if expr, ok := n.(*ast.CallExpr); ok {
			if f, ok := expr.Fun.(*ast.SelectorExpr); ok {
				if x, ok := f.X.(*ast.Ident); ok {
					found = append(found, call{x.Name + "." + f.Sel.Name, expr})
				}
			}
		}
		return true
	})
	return found
}

func TestTestsNeitherSleepNorSkipCatches(t *testing.T) {
	for _, tt := range []struct{ imports, body, fault string }{
		{`import "time"`, `<-time.After(0)`, ""},
		{`import "time"`, `time.Sleep(1)`, "time.Sleep outside"},
		{`import ("time"; "testing/synctest")`, `synctest.Test(t, func(*testing.T) { time.Sleep(1) })`, ""},
		{``, `if !root() { t.Skipf("not root") }`, "t.Skipf, which goes unnoticed"},
		{``, `if testing.Short() { t.Skip("long") }`, ""},
		{``, `if slow() && testing.Short() { t.Skip("long") }`, ""},
		{``, `if testing.Short() { n = 1 }; t.SkipNow()`, "t.SkipNow"},
		{`import "pgregory.net/rapid"`, `rapid.Check(t, func(t *rapid.T) { t.Skip() })`, ""},
		{``, `r.Skip(4)`, ""},
	} {
		t.Run(tt.imports+tt.body, func(t *testing.T) {
			expect(t, checkTests, map[string]string{"a/b_test.go": "package p\n" + tt.imports + "\nfunc TestX(t *testing.T) {" + tt.body + "}\n"}, tt.fault)
		})
	}
}

// No decision about a lock may depend on the wall clock, which administrators and
// NTP set. A time from time.Now carries a monotonic reading as well, which is what
// comparing and subtracting times, timers, deadlines and contexts use. So zkio and
// manager must not read the wall clock nor strip the monotonic reading.
func TestF046_NothingDecidesByTheWallClock(t *testing.T) { run(t, checkClocks) }

// wallClock lists the functions that may use the wall clock, to tell users since
// when a contender has waited.
var wallClock = []string{
	"manager/identity.go dated", "manager/contender.go String", "manager/contender.go describe",
	"manager/peers.go sayingOf", "manager/ahead.go contender", "manager/revoked.go revokedByCurator",
}

// readsWallClock has the functions and methods of package time that read the wall
// clock or return a time without a monotonic reading.
var readsWallClock = strings.Fields(`UTC Local In AddDate Unix UnixMilli UnixMicro UnixNano Date Clock Year YearDay
	Month Day Weekday ISOWeek Hour Minute Second Nanosecond Zone ZoneBounds IsDST Equal
	Format AppendFormat Parse ParseInLocation MarshalText MarshalJSON MarshalBinary`)

func checkClocks(tr tree) (faults faults) {
	for _, f := range tr.files {
		if f.pkg() != "zkio" && f.pkg() != "manager" || f.isTest() {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && slices.Contains(wallClock, f.name+" "+fn.Name.Name) {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				expr, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := expr.Fun.(*ast.SelectorExpr); ok {
					// Durations, unlike times, may be rounded.
					rounds := (sel.Sel.Name == "Round" || sel.Sel.Name == "Truncate") &&
						slices.ContainsFunc(calls(sel.X), func(c call) bool { return c.name == "time.Now" })
					if rounds || slices.Contains(readsWallClock, sel.Sel.Name) {
						faults.add("%s: %s uses the wall clock", tr.positions.Position(sel.Sel.Pos()), sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
	return faults
}

func TestWallClockCatches(t *testing.T) {
	for _, tt := range []struct{ file, body, fault string }{
		{"zkio/x.go", `if time.Since(start) > limit || time.Now().After(end) { return }`, ""},
		{"zkio/x.go", `conn.SetDeadline(time.Now().Add(limit))`, ""},
		{"manager/x.go", `d := time.Since(start).Round(ms)`, ""},
		{"zkio/x.go", `return time.Now().UnixNano() > end`, "UnixNano uses"},
		{"manager/x.go", `end := time.Now().Round(0).Add(limit)`, "Round uses"},
		{"manager/x.go", `end := time.Now().Add(limit).Truncate(ms)`, "Truncate uses"},
		{"manager/x.go", `end := time.UnixMilli(ms)`, "UnixMilli uses"},
		{"manager/x.go", `return now.Equal(end)`, "Equal uses"},
		{"manager/x_test.go", `return time.Now().Unix()`, ""},
		{"zkio/zktest/x.go", `return time.Now().UnixMilli()`, ""},
	} {
		t.Run(tt.file+tt.body, func(t *testing.T) {
			text := "package p\nimport \"time\"\n\nfunc f(start, now, end time.Time, limit, ms time.Duration) { " + tt.body + " }\n"
			expect(t, checkClocks, map[string]string{tt.file: text}, tt.fault)
		})
	}
}
