# Every target with its help line; `make help` prints them.
SHELL := /bin/bash
.DEFAULT_GOAL := build
TOOL := go tool -modfile=tools/go.mod
# The packages of bench/ that are ours; ./caddy would have all of Caddy compiled.
BENCHED := . ./backend ./relay ./reverseproxy
export GOFLAGS := -buildvcs=false
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.PHONY: build
build: ## build bin/fairlead (the default)
	@mkdir -p bin
	go build -ldflags "-X github.com/fairlead-platform/fairlead/internal/cli.version=$(VERSION)" -o bin/fairlead ./cmd/fairlead

.PHONY: demo
demo: build ## build, start everything, deploy, send requests through a new revision, say what happened, and stay open
	@scripts/demo.sh

.PHONY: test
test: ## install what the tests need beyond Go, then run every test, all but most crash points with the race detector
	@scripts/deps.sh test
	go test -race -timeout 15m $$(go list ./... | grep -v /crashpoints$$)
	go test -race -timeout 15m ./internal/control/crashpoints -pairs=none -run '^TestA|/^(deploy|delete)$$'
	go test -timeout 15m ./internal/control/crashpoints

.PHONY: lint
lint: ## gofumpt, go vet, staticcheck (bench too), buf lint, buf breaking
	@bad=$$($(TOOL) gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$' | grep -v connect/)); \
	  if [ -n "$$bad" ]; then echo "not gofumpt'ed (run: make format):"; echo "$$bad"; exit 1; fi
	go vet ./...
	$(TOOL) staticcheck ./...
	cd bench && go vet $(BENCHED) && go tool -modfile=../tools/go.mod staticcheck $(BENCHED)
	$(TOOL) buf lint
	$(TOOL) buf breaking --against api/image.binpb

.PHONY: format
format: ## rewrite Go files as gofumpt does
	$(TOOL) gofumpt -w $$(git ls-files '*.go' | grep -v '\.pb\.go$$' | grep -v connect/)

.PHONY: generate
generate: ## generate code from api/*.proto and the command-line reference
	$(TOOL) buf generate
	go run ./cmd/fairlead reference > docs/reference/cli.md

.PHONY: api-accept
api-accept: ## make today's contracts the base of the breaking-change check
	$(TOOL) buf build -o api/image.binpb

.PHONY: bench
bench: ## compare with peers and print ratios (not part of CI; see bench/RESULTS.md)
	@scripts/deps.sh bench
	cd bench && go run . $(BENCH)

.PHONY: soak
soak: ## deploy 1,000 and 100 times under load with everything killed in rotation (SOAK=1000x200ms,100x3s); a short form runs in make test
	go test ./e2e -count=1 -run 'TestDeploysInARow' -soak=$${SOAK:-1000x200ms,100x3s} -timeout 3h -v

.PHONY: crashpoints
crashpoints: ## try all pairs of faults at the controller's calls, one shard of 40 (SHARD=0/40 to 39/40); singles and a sample run in make test
	FAIRLEAD_SHARD=$${SHARD:-0/40} go test ./internal/control/crashpoints -count=1 -run Crashpoints -pairs=all -timeout 30m

.PHONY: mutants
mutants: ## take each rule of deployments out of the code in turn, and see that its test fails (RULE=words tries some)
	go run ./scripts/mutants -only "$(RULE)"

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each (default 20s)
	@scripts/fuzz.sh $${FUZZTIME:-20s}

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

.PHONY: help
help: ## print this help
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
