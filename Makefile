# SPDX-License-Identifier: Apache-2.0
#
# `make` lists the targets, which need only Go unless stated otherwise. Set variables on
# the command line: make test PKG=./zkio RACE=1

# All packages. The command and the stress harness are modules of their own, so that users of
# the library need not know what they are made of; go.work joins them.
ALL     := ./... ./cmd/holdfast/... ./stress/...

# Of these, the packages that start no goroutine that shares anything, or only such as the tests of
# the other packages start, too: those of ./stress run the whole harness, and those of a real server
# start it with internal/realzk. The race detector would find little more in them, and takes up to ten
# times as long: make test RACE=1 tests them without it.
PARTS   := ./bench/internal/... ./internal/apitext ./internal/check ./internal/ctxerr ./internal/daemon \
	./internal/doctor ./internal/documents ./internal/figures ./internal/foreign ./internal/jute ./internal/lint \
	./internal/matrix ./internal/mutants ./internal/oneline ./internal/otherclients ./internal/queue \
	./internal/realzk/... ./internal/sim/weave ./state/model/... ./stress/contenders/... \
	./stress/internal/... ./stress/others

# Packages, tests and benchmarks (a regular expression), and how often to run them.
PKG     ?= $(ALL)
TESTS   ?= .
COUNT   ?= 1
# RACE=1 enables the race detector, which needs a C compiler.
RACE    ?=
# Time limit for each package's tests.
TIMEOUT ?= 10m
# How long the demo, the stress harness, and each fuzz target run.
DURATION ?= 15s
TIME     ?= 30s
# The port that `make zktest` and `make zookeeper` serve on; 0 picks a free one.
PORT    ?= 0
# With DEPS=0, `make test` and `make verify` install nothing.
DEPS    ?= 1

export ALL PARTS PKG TESTS COUNT RACE TIMEOUT DEPS

# In CI make lint vets the packages. go test would do it once more for each way to build them.
VET := $(if $(filter true,$(CI)),-vet=off)

# By default the race detector lets each process sleep for a second at its end.
export GORACE ?= atexit_sleep_ms=0

# The linter is pinned, so that new checks come with a commit.
GOLANGCI_LINT_VERSION := 2.15.0

GOLANGCI_LINT := bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Targets that run concurrently would disturb measurements and time out.
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: PKG=$(PKG) TESTS=$(TESTS) COUNT=$(COUNT) RACE=$(RACE) TIMEOUT=$(TIMEOUT) DURATION=$(DURATION) TIME=$(TIME) DEPS=$(DEPS)"

## Run it

.PHONY: demo
demo: bin/stress ## watch 3 processes × 16 goroutines contend for 4 locks on the embedded server
	bin/stress -duration $(DURATION) -processes 3 -goroutines 16 -locks 4

# What the demo does by default is too short for all kinds of faults.
.PHONY: stress
stress: bin/stress ## processes contend on a real ensemble of three, through faults of every kind; 2 minutes, or DURATION=10m; report in bin/stress-report
	bin/stress -ensemble 3 -nemesis all -processes 4 -goroutines 16 -locks 8 -duration $(or $(filter-out 15s,$(DURATION)),2m) -report bin/stress-report

# A run that was void shows nothing, for example because the machine was too busy: once
# more then.
STRESS_CI := bin/stress -ensemble 3 -nemesis kill-worker,pause-worker,restart-server,cut-connection,delete-holder,foreign-contenders -processes 3 -goroutines 16 -locks 4 -duration 25s -report bin/stress-report
.PHONY: stress-ci
stress-ci: bin/stress ## the same with some of the faults, in half a minute
	@$(STRESS_CI) || { status=$$?; test $$status -eq 3 && $(STRESS_CI); }

.PHONY: others
others: ## the locks of other libraries under the same faults, 10 minutes each; writes docs/others.md; FRESH=1 repeats those that were run
	$(if $(FRESH),rm -rf stress/others/results bin/others)
	go run ./stress/others -duration $(or $(filter-out 15s,$(DURATION)),10m) -at-a-time 3 -out docs/others.md

.PHONY: self-test
self-test: bin/stress ## run the stress harness against locks that are broken on purpose: it must catch each
	@bin/stress -self-test

.PHONY: zookeeper
zookeeper: bin/zkserver ## run a real ZooKeeper, as installed, on 127.0.0.1 until Ctrl-C: PORT=2181, or a free one
	@bin/zkserver -port $(PORT)

.PHONY: zktest
zktest: bin/holdfast ## serve the embedded ZooKeeper, for development, on 127.0.0.1 until Ctrl-C: PORT=2181, or a free one
	@bin/holdfast server --port $(PORT)

## Test it

.PHONY: test
test: bin/zkserver ## all tests; as root on Debian or Ubuntu, installs ZooKeeper if missing (not with DEPS=0)
	@.ci/test

.PHONY: test-short
test-short: ## the tests that need no real ZooKeeper, of the long ones samples; prints how many it skipped
	@left=$$(mktemp) && trap 'rm -f "$$left"' EXIT && \
	HOLDFAST_NOT_RUN=$$left go test -short -p 4 -count=$(COUNT) -timeout $(TIMEOUT) -run '$(TESTS)' $(if $(RACE),-race) $(if $(filter ./...,$(PKG)),./manager) $(PKG); status=$$?; \
	echo "skipped: $$(grep -c . "$$left") tests that need a real ZooKeeper (make test runs them)"; exit $$status

.PHONY: test-parts
test-parts: ## the tests of which the race detector sees enough elsewhere
	@$(MAKE) --no-print-directory test PKG='$(PARTS)'

.PHONY: race
race: ## all tests, under the race detector where goroutines meet; needs a C compiler
	@$(MAKE) --no-print-directory test RACE=1

.PHONY: 386
386: ## test for 32 bits what depends on alignment and the size of int
	GOARCH=386 CGO_ENABLED=0 go test $(VET) -exec "$(CURDIR)/.ci/exec386" -count=$(COUNT) -timeout $(TIMEOUT) ./state ./futures

.PHONY: cross
cross: ## type-check for macOS, Windows and 32 bits, including tests
	cd internal/house && go run ./elsewhere -dir ../.. -packages '$(ALL)' darwin/arm64 windows/amd64 linux/386

# SEEDS from FIRST on, or the one SEED with all that happens in it. A woven
# program is one whose schedule the seed decides: see internal/sim/weave.
SEEDS ?= 1000
SIM_GO := go1.26.8
# The thousand from 501 on reach every branch that handles a fault; from 1 on they miss one.
FIRST ?= 501
SEED  ?=

RECIPE_SIMS := barrier cron election members queue semaphore shards

.PHONY: sim-recipes
sim-recipes: ## seeded simulations of the recipes; SEEDS=5000 for more than a few
	go test $(VET) -count=1 -timeout 1h -run '^TestSim$$' $(addprefix ./recipes/,$(RECIPE_SIMS)) $(if $(filter-out file,$(origin SEEDS)),-args -seeds $(SEEDS))

# The server is the embedded one, so -short, and HOLDFAST_WHOLE for all cases nonetheless.
.PHONY: faults-recipes
faults-recipes: ## the recipes' other tests on the embedded server, with a fault at each of their requests
	HOLDFAST_WHOLE=1 go test $(VET) -short -count=1 -timeout $(TIMEOUT) -skip '^TestSim$$' $(addprefix ./recipes/,$(RECIPE_SIMS) internal/recipetest)

.PHONY: sim
sim: bin/sim.test ## SEEDS seeded simulations of processes, faults and schedules; SEED=17 repeats one
	cd internal/sim && ../../bin/sim.test -test.timeout=1h $(if $(SEED),-test.v -test.run='^TestShow$$' -show-seed=$(SEED),-test.run='^(TestSeeds|TestReplay)$$' -seeds=$(SEEDS) -first=$(FIRST))

# FAULT=F12 takes only those of one row of docs/faults.md, F12,F13 those of two;
# ONLY=F012-refused-credentials-untold takes one by its name, ONLY='F012-*' several.
FAULT ?=
ONLY  ?=

.PHONY: mutants
mutants: ## break the code in one place after the other, and see the tests notice; FAULT=F12 those of one fault, ONLY=NAME one
	@go build -o bin/mutants ./internal/mutants
	@ulimit -v 6000000 2>/dev/null; bin/mutants $(if $(FAULT),-fault '$(FAULT)') $(if $(ONLY),-only '$(ONLY)')

.PHONY: detection
detection: ## how long some mutants and broken locks stay unnoticed by the stress harness and the simulation; writes docs/testing.md; 2 hours; ONLY=NAME one
	go run ./internal/mutants -detect $(if $(ONLY),-only '$(ONLY)')

.PHONY: bench-smoke
bench-smoke: ## run every Go benchmark once, to see that it works
	@go test $(VET) -run '^$$' -bench . -benchtime 1x -timeout $(TIMEOUT) $$(go list -f '{{.ImportPath}}|{{.Dir}}' $(PKG) | \
		while IFS='|' read -r package dir; do if grep -qs '^func Benchmark' "$$dir"/*_test.go; then echo "$$package"; fi; done)

.PHONY: bench
bench: ## measure Holdfast, its limits and other locks on real servers, for bench/RESULTS.md; some 10 minutes
	go run ./bench

# The release that most should run, which CI tests beside Debian's.
NEWEST := 3.9.5

.PHONY: test-newest
test-newest: ## the tests of sessions and locks that need a real ZooKeeper, and the stress harness, on the newest release; needs Maven
	@go build -o bin/matrix-run ./internal/matrix && bin/matrix-run -only 'ZooKeeper $(NEWEST)' -check 2
	@env "$$(bin/matrix-run -fetch 'ZooKeeper $(NEWEST)')" $(MAKE) --no-print-directory stress-ci

# ONLY=3.9.5 takes the rows whose names have this.
.PHONY: matrix
matrix: ## the tests that need a real ZooKeeper, on each release of it and beside those of other clients; writes docs/compatibility.md; 45 minutes
	@go build -o bin/matrix-run ./internal/matrix && bin/matrix-run -only '$(ONLY)'

.PHONY: test-kazoo
test-kazoo: bin/holdfast bin/zkserver ## the tests of kazoo, on the embedded server and a real one: do they differ? 2 minutes
	@.ci/test-kazoo

# For a module of its own. go vet takes the packages as the tests are built, because it has all
# dependencies compiled. Then go test need not vet again.
vet-and-test = $(if $(RACE),export CGO_ENABLED=1 &&) go vet $(if $(RACE),-race) ./... && go mod tidy -diff && \
	go test -vet=off -count=$(COUNT) -timeout $(TIMEOUT) $(if $(RACE),-race) ./...

.PHONY: test-peers
test-peers: ## test the locks that Holdfast is compared with, a separate module
	cd bench/peers && $(vet-and-test)

.PHONY: test-plot
test-plot: ## test the drawing of figures, a separate module
	cd bench/plot && $(vet-and-test)

# They depend on Holdfast, and Holdfast not on them: each is a separate module.
EXPORTERS := manager/prom manager/otel manager/debug bench/exporters
.PHONY: test-exporters
test-exporters: ## test the exporters of metrics, spans and the page, separate modules; RACE=1
	@set -e; for module in $(EXPORTERS); do echo "$$module:"; (cd $$module && $(vet-and-test)); done

# Each depends on the library that it is for.
ADAPTERS := $(patsubst %/go.mod,%,$(wildcard adapters/*/go.mod))
.PHONY: test-adapters
test-adapters: ## test the adapters for other libraries, separate modules; RACE=1
	@set -e; for module in $(ADAPTERS); do echo "$$module:"; (cd $$module && $(vet-and-test)); done

.PHONY: bench-exporters
bench-exporters: ## measure what the exporters cost an uncontended Lock and Unlock, on a real ZooKeeper
	cd bench/exporters && go test -run '^$$' -bench . -benchtime 50x

.PHONY: test-fencing
test-fencing: ## test the resources of docs/fencing.md, a separate module
	cd examples/fencing && $(vet-and-test)

.PHONY: test-house
test-house: ## test the programs of make house and make cross, a separate module
	cd internal/house && $(vet-and-test)

.PHONY: fuzz
fuzz: ## run every fuzz target for TIME
	@go test -run '^$$' -list '^Fuzz' $(PKG) | \
	awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' | \
	while read -r pkg name; do \
		echo "$$pkg $$name:"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(TIME) "$$pkg" </dev/null || exit 1; \
	done

.PHONY: cover
cover: ## measure coverage by the tests that need no real server, and compare it with the goals; writes bin/cover.html
	@.ci/cover

## Prove it

# Installs spin and a C compiler where .ci/deps can.
.PHONY: verify
verify: ## model-check the state machine and protocols to come, and that wrong variants fail; minutes
	@.ci/verify full

.PHONY: verify-quick
verify-quick: ## the same for one process beside a plain contender, and for few clients
	@.ci/verify quick

.PHONY: verify-long
verify-long: ## the same for 2 × 2 goroutines with all troubles at once, as far as memory allows
	@.ci/verify long

## Keep it clean

.PHONY: fmt
fmt: ## format the Go files
	gofmt -l -w .

.PHONY: api
api: ## update docs/api.txt after a change of the exported API
	go test -count=1 ./internal/apitext -run '^TestAPIFile$$' -update

# Which tree to measure, from which functions to walk, and whether to list the references
# that run back; see CONTRIBUTING.md.
TREE ?= .
WALK ?= manager.Lock.Acquire
BACK ?=

.PHONY: house
house: ## print figures of how the code is laid out, for diff; TREE=../before those of another tree
	@cd internal/house && go run . -dir '$(abspath $(TREE))' -packages '$(ALL)' $(if $(BACK),-back) $(WALK)

.PHONY: lint
lint: $(GOLANGCI_LINT) ## check with gofmt, go mod tidy and golangci-lint, which has go vet and staticcheck in it; changes nothing
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "make fmt would change:"; echo "$$unformatted"; exit 1; }
	@set -e; for module in . cmd/holdfast stress; do (cd $$module && go mod tidy -diff); done
	$(GOLANGCI_LINT) run $(ALL)

.PHONY: deps
deps: bin/zkserver ## install what the full tests need (Debian, Ubuntu); elsewhere print what that is
	@.ci/deps

# A release has a commit of its own: .ci/release says what is on it.
VERSION ?=
DRY ?=
GORELEASER_VERSION := 2.15.1
CYCLONEDX_VERSION  := 1.10.0

.PHONY: release
release: ## prepare a release of all modules: VERSION=v0.9.0, with DRY=1 on trial; builds what the command's users download into bin/VERSION
	@.ci/tool bin/goreleaser goreleaser --version $(GORELEASER_VERSION) github.com/goreleaser/goreleaser/v2
	@.ci/tool bin/cyclonedx-gomod cyclonedx-gomod version $(CYCLONEDX_VERSION) github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@DRY=$(DRY) .ci/release '$(VERSION)'

.PHONY: ci
ci: ## everything that must pass before a change is accepted, as CI runs it
	.ci/run

.PHONY: clean
clean: ## remove everything built here
	rm -rf bin

# Always run go build, which knows what is up to date.
.PHONY: bin/stress bin/zkserver bin/holdfast bin/sim.test
bin/stress:
	@go build -o $@ ./stress
bin/zkserver:
	@go build -o $@ ./internal/realzk/zkserver
bin/holdfast:
	@go build -o $@ ./cmd/holdfast
# The weaver changes files of the runtime of one Go version. If another is installed,
# Go downloads that one.
bin/sim.test:
	@case "$$(go env GOVERSION)" in go1.26*) ;; *) export GOTOOLCHAIN=$(SIM_GO) ;; esac; \
	go run ./internal/sim/weave bin/woven && \
	go test -c -tags woven -overlay bin/woven/overlay.json -o $@ ./internal/sim

# If PATH has a linter of the right version, use it: building one takes minutes.
$(GOLANGCI_LINT):
	@.ci/tool $@ golangci-lint --version $(GOLANGCI_LINT_VERSION) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
