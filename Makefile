# SPDX-License-Identifier: Apache-2.0
#
# `make` lists what can be made. Everything needs Go only, except where it says
# otherwise. Variables are given on the command line: make test PKG=./zkio RACE=1

# Which packages, which tests and benchmarks (a regular expression), how often.
PKG     ?= ./...
TESTS   ?= .
COUNT   ?= 1
# RACE=1 turns the race detector on, which needs a C compiler. COVER=1 counts
# the statements that are run.
RACE    ?=
COVER   ?=
# go test kills a package's tests after this long.
TIMEOUT ?= 10m
# How long the demo and the stress harness run, and each fuzz target.
DURATION ?= 15s
TIME     ?= 30s
# Where `make zktest` listens; 0 is a free port.
PORT    ?= 0
# DEPS=0 forbids `make test` and `make verify` to install anything.
DEPS    ?= 1

export PKG TESTS COUNT RACE COVER TIMEOUT DEPS

# The linters are pinned: a new version's new opinions come with a commit.
STATICCHECK_VERSION   := 0.8.2
GOLANGCI_LINT_VERSION := 2.15.0

STATICCHECK   := bin/staticcheck-$(STATICCHECK_VERSION)
GOLANGCI_LINT := bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two of these at a time would measure, and time out, each other.
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: PKG=$(PKG) TESTS=$(TESTS) COUNT=$(COUNT) RACE=$(RACE) COVER=$(COVER) TIMEOUT=$(TIMEOUT) DURATION=$(DURATION) TIME=$(TIME) DEPS=$(DEPS)"

## Run it

.PHONY: demo
demo: bin/stress ## see it work: 3 processes × 16 goroutines contend for 4 locks on the embedded server
	bin/stress -duration $(DURATION) -processes 3 -goroutines 16 -locks 4

.PHONY: stress
stress: bin/stress bin/zkserver ## the same on a real ZooKeeper; take DURATION=60s or more
	bin/zkserver bin/stress -servers {} -duration $(DURATION) -processes 3 -goroutines 16 -locks 4

.PHONY: zookeeper
zookeeper: bin/zkserver ## run a real ZooKeeper on a free port of 127.0.0.1 until Ctrl-C
	bin/zkserver

.PHONY: zktest
zktest: bin/zkembedded ## serve the embedded ZooKeeper, for development, on 127.0.0.1 until Ctrl-C: PORT=2181, or a free one
	@bin/zkembedded -port $(PORT)

## Test it

.PHONY: test
test: bin/zkserver ## all tests; as root on Debian or Ubuntu, installs ZooKeeper if it is missing (DEPS=0: does not)
	@.ci/test

.PHONY: test-short
test-short: ## the tests that need no real ZooKeeper; says how many it left out
	@left=$$(mktemp) && trap 'rm -f "$$left"' EXIT && \
	HOLDFAST_NOT_RUN=$$left go test -short -count=$(COUNT) -timeout $(TIMEOUT) -run '$(TESTS)' $(if $(RACE),-race) $(PKG); status=$$?; \
	echo "left out: $$(grep -c . "$$left") tests that need a real ZooKeeper (make test runs them)"; exit $$status

.PHONY: race
race: ## all tests under the race detector; needs a C compiler
	@$(MAKE) --no-print-directory test RACE=1

.PHONY: 386
386: ## what a 32-bit platform does to alignment and int
	GOARCH=386 CGO_ENABLED=0 go vet $(PKG)
	GOARCH=386 CGO_ENABLED=0 go test -count=$(COUNT) -timeout $(TIMEOUT) ./state ./futures

.PHONY: cross
cross: ## does it compile for macOS and Windows, tests included?
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet $(PKG)
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go vet $(PKG)

# SEEDS from FIRST on, or the one SEED with all that happens in it. A woven
# program is one whose schedule the seed decides: see internal/sim/weave.
SEEDS ?= 1000
SIM_GO := go1.26.8
FIRST ?= 1
SEED  ?=

.PHONY: sim
sim: bin/sim.test ## SEEDS seeded simulations of processes, faults and schedules; SEED=17 repeats one
	cd internal/sim && ../../bin/sim.test -test.timeout=1h $(if $(SEED),-test.v -test.run='^TestShow$$' -show-seed=$(SEED),-test.run='^(TestSeeds|TestReplay)$$' -seeds=$(SEEDS) -first=$(FIRST))

# FAULT=F12 takes only those of one row of docs/faults.md; F12,F13 of two.
FAULT ?=

.PHONY: mutants
mutants: ## break the code in one place after the other, and see the tests notice; FAULT=F12 those of one fault
	@go build -o bin/mutants ./internal/mutants
	@ulimit -v 6000000 2>/dev/null; bin/mutants $(if $(FAULT),-only $(FAULT))

.PHONY: bench-smoke
bench-smoke: ## every Go benchmark once, so that none rots; measures nothing
	go test -run '^$$' -bench . -benchtime 1x -timeout $(TIMEOUT) $(PKG)

.PHONY: bench
bench: ## Holdfast beside the limits and other locks, on real servers: bench/RESULTS.md; some minutes
	go run ./bench

.PHONY: test-kazoo
test-kazoo: bin/zkembedded bin/zkserver ## the tests of kazoo, on the embedded server and a real one: do they differ? 2 minutes
	@.ci/test-kazoo

.PHONY: test-peers
test-peers: ## the locks that Holdfast is measured against, a module of its own
	cd bench/peers && go vet ./... && go mod tidy -diff && go test -count=$(COUNT) -timeout $(TIMEOUT) ./...

.PHONY: test-plot
test-plot: ## what draws the figures of the benchmarks, a module of its own
	cd bench/plot && go vet ./... && go mod tidy -diff && go test -count=$(COUNT) -timeout $(TIMEOUT) ./...

.PHONY: fuzz
fuzz: ## every fuzz target for TIME each
	@go test -run '^$$' -list '^Fuzz' $(PKG) | \
	awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' | \
	while read -r pkg name; do \
		echo "$$pkg $$name:"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(TIME) "$$pkg" </dev/null || exit 1; \
	done

.PHONY: cover
cover: ## all tests, and how many statements they run, against the goals; writes bin/cover.html
	@$(MAKE) --no-print-directory test COVER=1 PKG=./... TESTS=.

## Prove it

# Installs spin and a C compiler where .ci/deps can, like `make test` its part.
.PHONY: verify
verify: ## model-check the state machine, and that every wrong variant of it is found out; minutes
	@.ci/verify full

.PHONY: verify-quick
verify-quick: ## the same for one process beside a plain contender
	@.ci/verify quick

.PHONY: verify-long
verify-long: ## the same for 2 × 2 goroutines with all troubles at once, as far as memory reaches
	@.ci/verify long

## Keep it clean

.PHONY: fmt
fmt: ## format the Go files
	gofmt -l -w .

.PHONY: api
api: ## write docs/api.txt anew, after a change of the exported API
	go test -count=1 ./internal/apitext -run '^TestAPIFile$$' -update

.PHONY: lint
lint: $(STATICCHECK) $(GOLANGCI_LINT) ## gofmt, go vet, go mod tidy, staticcheck and golangci-lint; find fault, change nothing
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "make fmt would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	go mod tidy -diff
	$(STATICCHECK) ./...
	$(GOLANGCI_LINT) run ./...

.PHONY: deps
deps: bin/zkserver ## install what the full tests need (Debian, Ubuntu); elsewhere say what that is
	@.ci/deps

.PHONY: ci
ci: ## all that has to pass before a change is taken, as the build servers run it
	.ci/run

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin

# The commands are built anew each time; Go knows what is up to date.
.PHONY: bin/stress bin/zkserver bin/zkembedded bin/sim.test
bin/stress:
	@go build -o $@ ./stress
bin/zkserver:
	@go build -o $@ ./internal/realzk/zkserver
bin/zkembedded:
	@go build -o $@ ./internal/zkembedded
# The weaver changes files of the runtime, so it has to know Go's version; where
# another is installed, Go fetches this one.
bin/sim.test:
	@case "$$(go env GOVERSION)" in go1.26*) ;; *) export GOTOOLCHAIN=$(SIM_GO) ;; esac; \
	go run ./internal/sim/weave bin/woven && \
	go test -c -tags woven -overlay bin/woven/overlay.json -o $@ ./internal/sim

# A linter of the right version in the PATH is taken; building one takes minutes.
$(STATICCHECK):
	@.ci/tool $@ staticcheck -version $(STATICCHECK_VERSION) honnef.co/go/tools/cmd/staticcheck
$(GOLANGCI_LINT):
	@.ci/tool $@ golangci-lint --version $(GOLANGCI_LINT_VERSION) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
