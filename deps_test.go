// SPDX-License-Identifier: Apache-2.0

package holdfast_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// This file holds the import graph as a statement of policy. It is easier to
// argue about a line here than about an import found in a review, so a change
// of the graph begins here.
//
//	a: b c    package a may import b and c, besides the standard library
//	a/...     stands for a and every package below it
//	NAME = …  a list to be used by name
//
// Names are relative to this module, unless they contain a dot. A package
// without a line is a mistake, so that a new one is thought about.
//
// The files are read, not compiled: those for other operating systems and
// under other build tags count too.
const policy = `
	# Small and pure: what a reader has to trust first.
	state:                    go.uber.org/atomic
	futures:                  go.uber.org/atomic
	internal/jute:

	# All of ZooKeeper goes through zkio. Who imports go-zookeeper beside it
	# has a connection without a fence, a lease and a metric.
	zkio:                     futures internal/jute github.com/go-zookeeper/zk golang.org/x/sync/... go.uber.org/atomic
	zkio/zktest:              internal/jute
	manager:                  state futures zkio golang.org/x/sync/... go.uber.org/atomic

	# Programs use what users can use. The embedded server is theirs and the
	# tests' only: nothing that a service links may contain it.
	PUBLIC =                  state futures zkio zkio/zktest manager golang.org/x/sync/... go.uber.org/atomic
	stress/...:               PUBLIC github.com/HdrHistogram/hdrhistogram-go
	cmd/...:                  PUBLIC
	bench:                    PUBLIC bench/internal/start bench/internal/work internal/realzk internal/jute github.com/go-zookeeper/zk
	bench/internal/start:     internal/realzk
	bench/internal/work:      golang.org/x/sync/...

	# Real servers, for tests and for what measures.
	internal/realzk:
	internal/realzk/zkserver: internal/realzk

	# The embedded server as a command.
	internal/zkembedded:      zkio/zktest

	# The simulation. What is woven into the packages under test is in no file.
	internal/sim:
	internal/sim/weave:
	internal/sim/yield:

	# What the tests notice: breaks copies of the code and runs them.
	internal/mutants:

	# The exported API as text.
	internal/apitext:

	# What runs the model checker.
	state/model:

	# The root is documentation and these tests.
	.:
`

// testPolicy says what a package's tests may import besides that.
const testPolicy = `
	state:                    go.uber.org/goleak pgregory.net/rapid
	futures:                  go.uber.org/goleak pgregory.net/rapid
	internal/jute:            go.uber.org/goleak pgregory.net/rapid

	SERVERS =                 zkio/zktest internal/realzk
	zkio:                     SERVERS go.uber.org/goleak pgregory.net/rapid
	# Its one peer in tests is the client that it has to please.
	zkio/zktest:              internal/realzk github.com/go-zookeeper/zk go.uber.org/goleak pgregory.net/rapid
	manager:                  SERVERS internal/jute go.uber.org/goleak pgregory.net/rapid

	stress/...:               SERVERS go.uber.org/goleak
	cmd/...:                  SERVERS go.uber.org/goleak
	bench:                    SERVERS bench/internal/work go.uber.org/goleak
	bench/internal/start:     internal/realzk go.uber.org/goleak
	bench/internal/work:      go.uber.org/goleak

	internal/realzk:          go.uber.org/goleak
	internal/realzk/zkserver: go.uber.org/goleak
	internal/zkembedded:      internal/jute
	internal/apitext:         go.uber.org/goleak
	internal/sim:             state manager zkio/zktest internal/sim/yield go.uber.org/goleak
	internal/sim/weave:
	state/model:              go.uber.org/goleak
	internal/mutants:         go.uber.org/goleak
	.:
`

const (
	modulePath = "github.com/holdfast-go/holdfast"
	// standard marks the standard library's packages in what importsOf returns.
	standard = "std:"
)

func TestImportPolicy(t *testing.T) {
	for _, fault := range checkImports(t, policy, testPolicy, os.DirFS(".")) {
		t.Error(fault)
	}
}

// checkImports returns what in the module's files is against the policies.
func checkImports(t *testing.T, policy, testPolicy string, module fs.FS) (faults []string) {
	t.Helper()
	allowed, allowedInTests := parsePolicy(t, policy), parsePolicy(t, testPolicy)
	noted := map[string]bool{} // packages whose missing line was reported
	for _, name := range goFiles(t, module) {
		pkg := path.Dir(name)
		rules, ok := allowed.of(pkg)
		if !ok {
			if !noted[pkg] {
				noted[pkg] = true
				faults = append(faults, fmt.Sprintf("package %s has no line in the import policy (deps_test.go): decide what it may import, and add one", pkg))
			}
			continue
		}
		inTest := strings.HasSuffix(name, "_test.go")
		if inTest {
			more, ok := allowedInTests.of(pkg)
			if !ok {
				faults = append(faults, fmt.Sprintf("%s: package %s has no line in the import policy of tests (deps_test.go)", name, pkg))
				continue
			}
			rules = append(slices.Clone(rules), more...)
			rules = append(rules, pkg) // by its external tests
		}
		for _, imported := range importsOf(t, module, name) {
			switch {
			case imported == "C":
				faults = append(faults, fmt.Sprintf("%s uses cgo: everything here has to build with CGO_ENABLED=0", name))
			case strings.HasPrefix(imported, standard), slices.ContainsFunc(rules, func(rule string) bool { return matches(rule, imported) }):
			case inTest:
				faults = append(faults, fmt.Sprintf("%s: tests of %s may not import %s", name, pkg, imported))
			default:
				faults = append(faults, fmt.Sprintf("%s: package %s may not import %s", name, pkg, imported))
			}
		}
	}
	return faults
}

// rules: for a package or a pattern, the patterns of what it may import.
type rules map[string][]string

// of returns the rules for pkg: those of its own line, else those of the
// longest pattern that matches it.
func (r rules) of(pkg string) ([]string, bool) {
	if own, ok := r[pkg]; ok {
		return own, true
	}
	best, found := "", false
	for pattern := range r {
		if matches(pattern, pkg) && len(pattern) > len(best) {
			best, found = pattern, true
		}
	}
	return r[best], found
}

// parsePolicy reads a policy in the form that is described there.
func parsePolicy(t *testing.T, text string) rules {
	t.Helper()
	r, lists := rules{}, map[string][]string{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		left, right, isRule := strings.Cut(line, ":")
		into := map[string][]string(r)
		if !isRule {
			var isList bool
			if left, right, isList = strings.Cut(line, "="); !isList {
				t.Fatalf("import policy: %q is neither a rule nor a list", line)
			}
			into = lists
		}
		left = strings.TrimSpace(left)
		if _, twice := into[left]; twice {
			t.Fatalf("import policy: two lines for %s", left)
		}
		items := []string{}
		for _, word := range strings.Fields(right) {
			if list, ok := lists[word]; ok {
				items = append(items, list...)
			} else if word == strings.ToUpper(word) {
				t.Fatalf("import policy: the list %s is used before it is made", word)
			} else {
				items = append(items, word)
			}
		}
		into[left] = items
	}
	return r
}

// matches reports whether name is pattern, or below it if it ends in "/...".
func matches(pattern, name string) bool {
	if top, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == top || strings.HasPrefix(name, top+"/")
	}
	return name == pattern
}

// goFiles returns the .go files of the module, in order. Modules below it,
// hidden directories and test data are not part of it.
func goFiles(t *testing.T, module fs.FS) (files []string) {
	t.Helper()
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." {
			_, err := fs.Stat(module, path.Join(name, "go.mod"))
			base := d.Name()
			if err == nil || base == "testdata" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
		}
		if !d.IsDir() && path.Ext(name) == ".go" {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// importsOf returns what a file imports: "std:x" for the standard library's x,
// the relative name of a package of this module, or a full path.
func importsOf(t *testing.T, module fs.FS, name string) (imports []string) {
	t.Helper()
	text, err := fs.ReadFile(module, name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		first, _, _ := strings.Cut(imported, "/")
		switch {
		case imported == modulePath:
			imported = "."
		case strings.HasPrefix(imported, modulePath+"/"):
			imported = strings.TrimPrefix(imported, modulePath+"/")
		case imported != "C" && !strings.Contains(first, "."):
			imported = standard + imported
		}
		imports = append(imports, imported)
	}
	return imports
}

// The check is worth as much as what it catches. Each row is a module that
// breaks one rule, or just does not.
func TestImportPolicyCatches(t *testing.T) {
	const zk = "github.com/go-zookeeper/zk"
	in := func(pkg string) string { return modulePath + "/" + pkg }
	tests := []struct {
		file, imported string
		fault          string // a part of it; "" if the import is allowed
	}{
		{"state/word.go", "strings", ""},
		{"state/word.go", "go.uber.org/atomic", ""},
		{"state/word.go", in("futures"), "state may not import futures"},
		{"state/word.go", "golang.org/x/sync/errgroup", "state may not import golang.org/x/sync/errgroup"},
		{"state/word_test.go", "pgregory.net/rapid", ""},
		{"state/word.go", "pgregory.net/rapid", "state may not import pgregory.net/rapid"},
		{"state/word_test.go", in("internal/realzk"), "tests of state may not import internal/realzk"},
		{"state/word_test.go", in("state"), ""}, // package state_test
		{"futures/future.go", in("state"), "futures may not import state"},
		{"internal/jute/jute.go", "go.uber.org/atomic", "internal/jute may not import"},
		{"zkio/wire.go", in("internal/jute"), ""},
		{"zkio/session.go", zk, ""},
		{"zkio/session.go", "golang.org/x/sync/semaphore", ""},
		{"zkio/session.go", in("manager"), "zkio may not import manager"},
		{"zkio/session.go", in("zkio/zktest"), "zkio may not import zkio/zktest"},
		{"zkio/session_test.go", in("zkio/zktest"), ""},
		{"zkio/session_windows.go", in("state"), "zkio may not import state"},
		{"zkio/zktest/server.go", in("zkio"), "zkio/zktest may not import zkio"},
		{"zkio/zktest/server.go", zk, "zkio/zktest may not import " + zk},
		{"zkio/zktest/server_test.go", zk, ""},
		{"manager/manager.go", in("zkio"), ""},
		{"manager/manager.go", zk, "manager may not import " + zk},
		{"manager/manager_test.go", zk, "tests of manager may not import " + zk},
		{"manager/manager.go", in("zkio/zktest"), "manager may not import zkio/zktest"},
		{"manager/example_test.go", in("zkio/zktest"), ""},
		{"manager/manager.go", in("internal/jute"), "manager may not import internal/jute"},
		{"manager/manager.go", "github.com/stretchr/testify/assert", "manager may not import github.com/stretchr/testify/assert"},
		{"manager/manager.go", "C", "uses cgo"},
		{"stress/main.go", in("zkio/zktest"), ""},
		{"stress/referee/referee.go", in("manager"), ""},
		{"stress/latency.go", "github.com/HdrHistogram/hdrhistogram-go", ""},
		{"manager/stats.go", "github.com/HdrHistogram/hdrhistogram-go", "manager may not import"},
		{"stress/main.go", in("internal/realzk"), "stress may not import internal/realzk"},
		{"stress/main_test.go", in("internal/realzk"), ""},
		{"stress/main.go", zk, "stress may not import " + zk},
		{"cmd/holdfast/main.go", zk, "cmd/holdfast may not import " + zk},
		{"bench/main.go", zk, ""},
		{"bench/main.go", in("internal/realzk"), ""},
		{"internal/realzk/server.go", in("zkio"), "internal/realzk may not import zkio"},
		{"doc.go", in("manager"), "package . may not import manager"},
		{"surprise/new.go", "strings", "package surprise has no line"},
		{"bench/peers/main.go", "github.com/etcd-io/etcd", ""},  // a module of its own
		{"state/testdata/x.go", in("manager"), ""},              // not compiled
		{".hidden/x.go", in("manager"), ""},                     // likewise
		{"stressful/main.go", in("manager"), "no line"},         // "stress/..." is not a prefix of letters
		{"manager/manager.go", modulePath + "x/y", "may not"},   // nor is the module's path
		{"manager/manager.go", "golang.org/x/syncx", "may not"}, // nor a dependency's
	}
	for _, tt := range tests {
		t.Run(tt.file+"/"+tt.imported, func(t *testing.T) {
			module := fstest.MapFS{
				tt.file:              {Data: []byte("package p\n\nimport _ " + strconv.Quote(tt.imported) + "\n")},
				"bench/peers/go.mod": {Data: []byte("module peers\n")},
			}
			expectFault(t, checkImports(t, policy, testPolicy, module), tt.fault)
		})
	}
}

func expectFault(t *testing.T, faults []string, want string) {
	t.Helper()
	if want == "" && len(faults) > 0 {
		t.Errorf("faults %q, want none", faults)
	}
	if want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)) {
		t.Errorf("faults %q, want one that says %q", faults, want)
	}
}
