// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// policy is the import graph. A change of the graph begins here.
//
//	a: b c | d    package a may import b and c, and its tests d as well
//	a/...         a and every package below it
//	NAME = …      a list
//
// The names of this module's packages are relative to it. Every package needs a
// line. The standard library is always allowed.
const policy = `
	TESTS   = go.uber.org/goleak pgregory.net/rapid internal/racing
	SERVERS = TESTS zkio/zktest internal/realzk internal/otherclients
	RECIPE  = futures zkio manager recipes/internal/access recipes/internal/bell recipes/internal/look recipes/internal/own internal/ctxerr internal/oneline
	PUBLIC  = state futures zkio zkio/zktest sentinel manager golang.org/x/sync/... go.uber.org/atomic

	# Small and pure: what a reader has to trust first.
	state:                    go.uber.org/atomic | TESTS
	futures:                  internal/ctxerr internal/oneline go.uber.org/atomic | TESTS
	internal/ctxerr:          | TESTS
	internal/oneline:         | TESTS
	internal/jute:            | TESTS
	internal/queue:           | TESTS
	internal/queueio:         internal/queue zkio | TESTS

	# Only zkio imports go-zookeeper: any other connection would lack a fence, a
	# lease and metrics. The embedded server is for programs and tests; a service
	# must not link it.
	zkio:                     futures internal/ctxerr internal/oneline internal/jute github.com/go-zookeeper/zk golang.org/x/sync/... golang.org/x/sys/... go.uber.org/atomic | SERVERS
	zkio/zktest:              internal/jute | TESTS internal/realzk github.com/go-zookeeper/zk
	sentinel:                 zkio internal/oneline internal/takeover golang.org/x/sys/... | TESTS zkio/zktest manager
	internal/takeover:        zkio | TESTS zkio/zktest
	manager:                  state futures zkio sentinel manager/internal/errand internal/queue internal/queueio internal/ctxerr internal/oneline internal/takeover golang.org/x/sync/... go.uber.org/atomic | SERVERS internal/check internal/jute
	manager/inspect:          zkio manager manager/internal/errand internal/queue internal/queueio internal/ctxerr internal/takeover | SERVERS
	manager/internal/errand:  zkio | TESTS

	# The metrics that manager/prom and manager/otel, which are modules of their own, export.
	manager/internal/vitals:  state manager | TESTS

	# Recipes stand on what any program can use, and on what they share.
	recipes/internal:
	recipes/internal/access:     zkio manager | TESTS recipes/internal/recipetest
	recipes/internal/bell:       zkio | TESTS
	recipes/internal/look:       zkio manager recipes/internal/access recipes/internal/bell internal/ctxerr | TESTS zkio/zktest recipes/internal/recipetest
	recipes/internal/own:        zkio manager | SERVERS recipes/internal/recipetest
	recipes/internal/recipetest: manager zkio/zktest internal/realzk internal/racing | TESTS zkio/zktest manager recipes/barrier recipes/election recipes/members recipes/shards
	recipes/election:            RECIPE | SERVERS sentinel recipes/internal/recipetest
	recipes/members:             RECIPE | SERVERS recipes/internal/recipetest
	recipes/shards:              RECIPE recipes/members | SERVERS recipes/internal/recipetest
	recipes/semaphore:           RECIPE | SERVERS recipes/internal/recipetest
	recipes/queue:               RECIPE | SERVERS recipes/internal/recipetest
	recipes/barrier:             RECIPE | SERVERS recipes/internal/recipetest
	recipes/cron:                RECIPE | SERVERS recipes/internal/recipetest internal/realzk/child

	# Programs use what users can use.
	internal/figures:         | TESTS
	stress:                   sentinel stress/internal/parent stress/internal/worker | SERVERS manager zkio stress/internal/... internal/racing internal/realzk/...
	stress/internal/parent:   manager zkio stress/internal/... internal/daemon internal/figures internal/flock internal/realzk/... | SERVERS
	stress/internal/worker:   PUBLIC recipes/... stress/internal/contender stress/internal/history stress/internal/journal stress/internal/pause stress/internal/plan stress/internal/referee stress/internal/register stress/internal/residue stress/internal/watchdog stress/internal/wire | TESTS
	stress/internal/residue:  | TESTS
	stress/contenders/run:
	stress/internal/contender: manager internal/daemon internal/foreign | TESTS
	stress/others:            stress/internal/contender stress/internal/history stress/internal/summary stress/internal/verdict internal/figures | TESTS stress/internal/wire
	stress/internal/watchdog: stress/internal/pause | TESTS
	stress/internal/chronicle: stress/internal/cluster stress/internal/history stress/internal/journal stress/internal/judge stress/internal/pause stress/internal/report stress/internal/summary stress/internal/verdict stress/internal/wire internal/figures internal/flock | TESTS stress/internal/options internal/racing
	stress/internal/cluster:  zkio zkio/zktest stress/internal/contender stress/internal/options stress/internal/pause stress/internal/wire internal/daemon internal/realzk internal/takeover | SERVERS
	stress/internal/journal:  manager stress/internal/history stress/internal/pause stress/internal/referee stress/internal/wire | TESTS
	stress/internal/options:  manager stress/internal/contender stress/internal/history stress/internal/nemesis stress/internal/wire | TESTS
	stress/internal/pause:
	stress/internal/plan:     stress/internal/wire | TESTS
	stress/internal/progress: stress/internal/wire | TESTS
	stress/internal/register: stress/internal/history stress/internal/journal stress/internal/wire | TESTS
	stress/internal/summary:  stress/internal/cluster stress/internal/verdict stress/internal/referee stress/internal/wire internal/figures | TESTS
	stress/internal/wire:     stress/internal/referee internal/figures github.com/HdrHistogram/hdrhistogram-go | TESTS
	stress/internal/nemesis:  stress/internal/history stress/internal/pause internal/queue internal/queueio internal/realzk internal/realzk/child sentinel zkio | SERVERS manager
	stress/internal/referee:  internal/flock stress/internal/history manager | TESTS
	stress/internal/history:  golang.org/x/sys/... | TESTS
	stress/internal/judge:    internal/figures stress/internal/checks stress/internal/history stress/internal/scene stress/internal/verdict | TESTS github.com/anishathalye/porcupine
	stress/internal/checks:   internal/figures stress/internal/history stress/internal/scene stress/internal/verdict github.com/anishathalye/porcupine | TESTS
	stress/internal/scene:    stress/internal/history stress/internal/verdict | TESTS
	stress/internal/verdict:  internal/figures stress/internal/history github.com/HdrHistogram/hdrhistogram-go | TESTS
	stress/internal/report:   internal/figures stress/internal/history stress/internal/verdict | TESTS
	bench:                    PUBLIC recipes/queue internal/figures bench/internal/chart bench/internal/delay bench/internal/zkconn bench/internal/start bench/internal/work internal/realzk internal/jute github.com/go-zookeeper/zk | SERVERS
	cmd/holdfast:             PUBLIC recipes/cron recipes/election recipes/queue manager/inspect internal/doctor internal/figures internal/takeover github.com/alecthomas/kong github.com/gdamore/tcell/... github.com/rivo/uniseg github.com/robfig/cron/v3 golang.org/x/sys/... golang.org/x/term | SERVERS recipes/... internal/realzk/child internal/jute
	bench/internal/chart:
	bench/internal/delay:     golang.org/x/sys/... | TESTS
	bench/internal/zkconn:      bench/internal/work github.com/go-zookeeper/zk | TESTS
	bench/internal/start:     internal/daemon internal/foreign internal/realzk/... | TESTS
	bench/internal/work:      golang.org/x/sync/... | TESTS

	# Examples use what users can use, without other libraries.
	examples/actors:          manager examples/internal/demo | SERVERS examples/internal/exampletest
	examples/cache:           manager examples/internal/demo | TESTS examples/internal/exampletest
	examples/cron:            manager examples/internal/demo | TESTS examples/internal/exampletest
	examples/internal/demo:   zkio/zktest | TESTS
	examples/internal/exampletest:

	# The adapters are modules of their own. They share losses, and their example programs demo.
	adapters/internal/losses: manager
	adapters/internal/adaptertest: adapters/internal/losses manager zkio/zktest
	adapters/internal/demo:   manager zkio/zktest

	# Tools and tests of this repository.
	internal/daemon:          internal/foreign internal/realzk/child internal/realzk/port internal/realzk/scratch | TESTS internal/realzk
	internal/realzk:          internal/realzk/child internal/realzk/port internal/realzk/scratch | TESTS
	internal/realzk/port:     | TESTS
	internal/realzk/child:    | TESTS
	internal/realzk/scratch:  internal/flock | TESTS
	internal/flock:
	internal/foreign:         | TESTS
	internal/otherclients:    internal/foreign internal/realzk | TESTS
	internal/doctor:          internal/figures internal/queue zkio | SERVERS
	internal/realzk/zkserver: internal/realzk | TESTS
	internal/check:           | TESTS
	internal/sim:             | TESTS state manager zkio/zktest internal/check internal/sim/yield
	internal/sim/weave:
	internal/sim/yield:
	internal/matrix:          internal/foreign | TESTS
	internal/mutants:         internal/figures | TESTS
	internal/apitext:         | TESTS
	internal/documents:       | SERVERS manager internal/realzk/child
	internal/racing:
	internal/lint:
	state/model:              | TESTS
	state/model/internal/checker:      | TESTS
	state/model/protocols:    state/model/internal/checker | TESTS
	.:
`

func TestImports(t *testing.T) { run(t, checkImports) }

func checkImports(tr tree) (faults faults) {
	rules := parsePolicy(policy)
	for _, f := range tr.files {
		rule, ok := rules.of(f.pkg())
		if !ok {
			faults.add("package %s has no line in internal/lint/imports_test.go: add one that says what it may import", f.pkg())
			continue
		}
		allowed := rule.code
		if f.isTest() {
			allowed = slices.Concat(rule.code, rule.tests, []string{f.pkg()})
		}
		for _, spec := range f.syntax.Imports {
			name, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
			if first, _, _ := strings.Cut(name, "/"); name != "C" && !strings.Contains(first, ".") {
				continue // the standard library
			}
			if name += "/"; strings.HasPrefix(name, modulePath+"/") {
				name = strings.TrimPrefix(name, modulePath+"/")
			}
			name = strings.TrimSuffix(name, "/")
			switch {
			case name == "C":
				faults.add("%s uses cgo: everything must build with CGO_ENABLED=0", f.name)
			case !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, name) }):
				faults.add("%s may not import %s: see the policy in internal/lint/imports_test.go", f.name, name)
			}
		}
	}
	return faults
}

// An importRule lists what a package and its tests may import.
type importRule struct{ code, tests []string }

// An importPolicy has a rule for each package or pattern.
type importPolicy map[string]importRule

// of returns the rule for pkg.
func (p importPolicy) of(pkg string) (importRule, bool) {
	for pattern, rule := range p {
		if matches(pattern, pkg) {
			return rule, true
		}
	}
	return importRule{}, false
}

func parsePolicy(text string) importPolicy {
	p, lists := importPolicy{}, map[string][]string{}
	expand := func(text string) (names []string) {
		for _, word := range strings.Fields(text) {
			if list, ok := lists[word]; ok {
				names = append(names, list...)
			} else {
				names = append(names, word)
			}
		}
		return names
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if name, names, ok := strings.Cut(line, " = "); ok {
			lists[strings.TrimSpace(name)] = expand(names)
		} else if pattern, names, ok := strings.Cut(line, ":"); ok {
			code, tests, _ := strings.Cut(names, "|")
			p[strings.TrimSpace(pattern)] = importRule{expand(code), expand(tests)}
		}
	}
	return p
}

// matches reports whether name is pattern, or below it if it ends in "/...".
func matches(pattern, name string) bool {
	if top, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == top || strings.HasPrefix(name, top+"/")
	}
	return name == pattern
}

func TestImportsCatches(t *testing.T) {
	const zk = "github.com/go-zookeeper/zk"
	in := func(pkg string) string { return modulePath + "/" + pkg }
	for _, tt := range []struct{ file, imported, fault string }{
		{"state/word.go", "strings", ""},
		{"state/word.go", "go.uber.org/atomic", ""},
		{"state/word.go", in("futures"), "state/word.go may not import futures"},
		{"state/word.go", "golang.org/x/sync/errgroup", "may not import golang.org/x/sync/errgroup"},
		{"state/word.go", "pgregory.net/rapid", "may not import pgregory.net/rapid"},
		{"state/word_test.go", "pgregory.net/rapid", ""},
		{"state/word_test.go", in("state"), ""}, // package state_test
		{"state/word_test.go", in("internal/realzk"), "state/word_test.go may not import internal/realzk"},
		{"zkio/session.go", zk, ""},
		{"zkio/session.go", "golang.org/x/sync/semaphore", ""},
		{"zkio/session.go", in("zkio/zktest"), "may not import zkio/zktest"},
		{"zkio/session_test.go", in("zkio/zktest"), ""},
		{"zkio/session_windows.go", in("state"), "may not import state"},
		{"zkio/zktest/server.go", zk, "may not import " + zk},
		{"manager/manager.go", zk, "may not import " + zk},
		{"manager/manager_test.go", zk, "may not import " + zk},
		{"manager/manager.go", "C", "uses cgo"},
		{"manager/manager.go", modulePath + "x/y", "may not import"},
		{"manager/manager.go", "golang.org/x/syncx", "may not import"},
		{"stress/internal/worker/worker.go", in("zkio/zktest"), ""},
		{"stress/internal/worker/worker.go", in("internal/jute"), "may not import internal/jute"},
		{"doc.go", in("manager"), "may not import manager"},
		{"doc.go", modulePath, "may not import"},
		{"surprise/new.go", "strings", "package surprise has no line"},
		{"bench/peers/main.go", "github.com/etcd-io/etcd", ""}, // a module of its own
		{"state/testdata/x.go", in("manager"), ""},
		{".hidden/x.go", in("manager"), ""},
	} {
		t.Run(tt.file+" "+tt.imported, func(t *testing.T) {
			expect(t, checkImports, map[string]string{
				tt.file:              "package p\n\nimport _ " + strconv.Quote(tt.imported) + "\n",
				"bench/peers/go.mod": "module peers\n",
			}, tt.fault)
		})
	}
}
