// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// The model names the Go functions that its parts stand for. If one of them is renamed
// or removed, the model needs another look.
func TestModelNamesWhatIsThere(t *testing.T) {
	text, err := models.ReadFile("rounds.pml")
	if err != nil {
		t.Fatal(err)
	}
	named, faults := checkNames(t, string(text), os.DirFS("../.."))
	for _, fault := range faults {
		t.Error(fault)
	}
	// The essential parts.
	for _, must := range []string{
		"manager/round.go: round.arrive", "manager/share.go: share.leave", "manager/share.go: share.endBy", "manager/round.go: round.finish",
		"manager/internal/errand/runner.go: Runner.Wake", "manager/internal/errand/runner.go: Runner.Run", "manager/roundio.go: roundIO.Step", "manager/roundio.go: roundIO.fetch",
		"manager/roundio.go: roundIO.grant", "manager/handover.go: roundIO.release", "manager/tenure.go: incumbent.lookBehind",
	} {
		if !named[must] {
			t.Errorf("rounds.pml does not model %s", must)
		}
	}
}

// A reference is a file, a colon, and names with commas between them.
var reference = regexp.MustCompile(`((?:[a-z]+/)+[a-z_]+\.go): ([A-Za-z]\w*(?:\.\w+)?(?:, [A-Za-z]\w*(?:\.\w+)?)*)`)

// checkNames returns the references in a model's text, as "dir/file.go: name", and
// those to names that do not exist.
func checkNames(t *testing.T, text string, module fs.FS) (named map[string]bool, faults []string) {
	t.Helper()
	named = map[string]bool{}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		source, err := fs.ReadFile(module, m[1])
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", m[0], err))
			continue
		}
		declared := declarations(t, m[1], source)
		for name := range strings.SplitSeq(m[2], ", ") {
			named[m[1]+": "+name] = true
			if !declared[name] {
				faults = append(faults, fmt.Sprintf("%s declares no %s", m[1], name))
			}
		}
	}
	return named, faults
}

// declarations returns what a Go file declares: "name" and "Type.method".
func declarations(t *testing.T, name string, source []byte) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				name = typeName(decl.Recv.List[0].Type) + "." + name
			}
			declared[name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					declared[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, ident := range spec.Names {
						declared[ident.Name] = true
					}
				}
			}
		}
	}
	return declared
}

func typeName(expr ast.Expr) string {
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if ident, ok := expr.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

func TestModelNamesCatches(t *testing.T) {
	module := fstest.MapFS{"manager/trip.go": {Data: []byte("package manager\n\ntype trip struct{}\n\nfunc (t *trip) wake() {}\n\nconst idle = 1\n")}}
	tests := []struct{ text, fault string }{
		{"/* Go: manager/trip.go: trip.wake, idle */", ""},
		{"/* Go: manager/trip.go: trip.step */", "manager/trip.go declares no trip.step"},
		{"/* Go: manager/trip.go: trip.wake, trip.step */", "manager/trip.go declares no trip.step"},
		{"/* Go: manager/trip.go: wake */", "manager/trip.go declares no wake"},
		{"/* Go: manager/gone.go: trip.wake */", "file does not exist"},
	}
	for _, tt := range tests {
		_, faults := checkNames(t, tt.text, module)
		if tt.fault == "" && len(faults) > 0 || tt.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], tt.fault)) {
			t.Errorf("%s: faults %q, want %q", tt.text, faults, tt.fault)
		}
	}
}
