# Runs and tests Actlog on a machine with git, make, gcc and Go. If Postgres is missing, root on
# Debian gets it with apt.

GO        ?= go
TOOL      := $(GO) tool -modfile=tools/go.mod
WITHPG    := $(GO) run ./internal/testkit/pgtest/withpg --
export CGO_ENABLED ?= 1

.DEFAULT_GOAL := help
.PHONY: help run test check fuzz attack clients python page deploy chaos ha bench lint generate grammars cross verify nightly build postgres clean

help: ## Print the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build postgres ## Build and serve, and show a run that survives its worker; stop it with Ctrl-C.
	./bin/actlog demo

# The packages with the longest tests begin first, so that no processor waits for them at the end.
export LONGEST := ./internal/record/store ./internal/door/api

test: postgres ## Run the tests, on a private Postgres. RACE=1: each once, with the race detector where there are goroutines.
	$(WITHPG) $(if $(RACE),tools/race,$(GO) test $(or $(PACKAGES),$(LONGEST) ./...))

check: ## Vet the code, and run the tests that need neither Postgres nor long: for the edit loop.
	$(GO) vet ./...
	tools/race -pure

# Go sometimes reports the end of a time as a failure, so a failed target runs once more. A real
# failure fails again, because its input is in testdata by then. A number of inputs has no such end.
# By default, Go spends up to a minute on minimizing each input that reaches new code.
fuzz: ## Run each fuzz target for FUZZTIME (default 10s; 2000x for 2,000 inputs).
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z]*' $$dir/*_test.go | cut -c6-); do \
			echo "$$dir $$target"; \
			fuzz="$(GO) test -run ^$$ -fuzz ^$$target\$$ -fuzztime $(or $(FUZZTIME),10s) -fuzzminimizetime 100x $$dir"; \
			$$fuzz || { echo "$$target: once more"; $$fuzz; }; \
		done; \
	done

attack: postgres ## Attack a whole server, its agents and its commands; ATTACK=-short is quick, ATTACK="-run S1 -rounds 200" selects.
	$(WITHPG) $(GO) test -tags attack -count=1 -timeout 60m ./internal/testkit/attack $(ATTACK)

clients: postgres ## Run real OpenTelemetry clients and MCP servers against ours; TODAY=1 takes the newest versions of what otlp.md names.
	@tools/debian "command -v npm" "nodejs npm" "python3 -c 'import ensurepip, venv'" "python3 python3-venv"
	$(GO) test -tags clients -count=1 -v -timeout 30m ./clients $(if $(TODAY),-run TestWhatThePageSays -today)
	$(GO) test -tags clients -count=1 -v -run 'TestServer(sFromNPM|InPython)' ./agent/mcp
	$(GO) test -tags clients -count=1 -v -short -run 'TestQuality$$' ./agent/tool/search

python: postgres ## Run the tests that need Python.
	@tools/debian "python3 -c 'import ensurepip, venv'" "python3 python3-venv"
	command -v python3
	$(WITHPG) $(GO) test -count=1 -run '^Test(ThePythonOfTheDocs|BugFixedByATask|RefactoringByAgents|ExampleAgents)$$' ./internal/door/api ./agent ./cmd/actlog

page: postgres ## Use the pages in a real browser.
	@tools/debian "command -v chromium || command -v google-chrome" chromium "command -v npm" "nodejs npm"
	$(WITHPG) $(GO) test -tags page -count=1 -run InBrowser ./internal/door/web

deploy: ## Check the files in deploy: containers, manifests of Kubernetes, units of systemd.
	@tools/debian "python3 -c 'import ensurepip, venv'" "python3 python3-venv" "command -v systemd-analyze" systemd
	$(GO) test -count=1 -run '^Test(Compose|Kubernetes|Units)' ./cmd/actlog
	$(GO) test -tags clients -count=1 -run '^TestKubernetesManifests$$' ./clients

chaos: build postgres ## Inject faults under load and compare with a ledger; CHAOS=flags.
	$(GO) build -o bin/chaos ./cmd/chaos
	./bin/chaos -actlog ./bin/actlog $(CHAOS)

# Postgres with automatic failover, and PgBouncer, come from Debian's packages, which need root.
ha: build postgres ## Replace servers, poolers and the primary of a pair of Postgres under load, and compare with a ledger; HA=flags.
	@tools/debian "command -v pg_autoctl" "postgresql-15-auto-failover pg-auto-failover-cli" "command -v pgbouncer || test -x /usr/sbin/pgbouncer" pgbouncer
	$(WITHPG) $(GO) test -tags ha -count=1 -run 'Test(PgBouncer|RollingUpgrade)' ./internal/record/store ./cmd/actlog
	$(GO) build -o bin/chaos ./cmd/chaos
	./bin/chaos -actlog ./bin/actlog -scenario failover $(HA)

bench: build postgres ## Run the benchmarks; SCALE=0.01 is quick, BENCH=write,tree selects, BENCHFLAGS=flags.
	$(GO) build -o bin/bench ./cmd/bench
	./bin/bench -actlog ./bin/actlog -scale $(or $(SCALE),1) $(if $(BENCH),-bench $(BENCH)) $(BENCHFLAGS)

nightly: ## All of .ci/run, and what takes longer. It updates .ci/nightly.
	.ci/run nightly

build: ## Build bin/actlog.
	$(GO) build -o bin/actlog ./cmd/actlog

lint: ## Check the code with golangci-lint.
	$(TOOL) golangci-lint run ./...

generate: postgres ## Generate package db from queries, and the pages from their templates.
	rm -f db/*.sql.go
	$(GO) run ./internal/testkit/pgtest/withpg -migrate -- sh -ec \
		'export SQLC_DATABASE_URL="$$TEST_DATABASE_URL" CGO_ENABLED=0; $(TOOL) sqlc generate; $(TOOL) sqlc vet'
	CGO_ENABLED=0 $(TOOL) templ generate -path internal/door/web -log-level warn
	CGO_ENABLED=0 $(TOOL) esbuild internal/door/web/asset/src/page.ts internal/door/web/asset/src/page.css --bundle --minify --target=es2022 --format=esm --log-level=warning --outdir=internal/door/web/asset

grammars: ## Fetch the parsers of the toolset code from npm again, and check that they are the same.
	@tools/debian "command -v npm" "nodejs npm"
	$(GO) generate ./agent/tool/code/internal/treesitter
	git diff --exit-code -- agent/tool/code/internal/treesitter/wasm

cross: ## Build the program, and what programs import, for Linux, macOS and Windows.
	for system in linux darwin windows; do CGO_ENABLED=0 GOOS=$$system $(GO) build ./cmd/actlog ./recorder/... ./agent/... || exit; done

verify: lint generate cross ## Lint, build for each system, and check that generated code is up to date.
	$(GO) mod tidy -diff
	git diff --exit-code -- db internal/door/web

# A private Postgres needs server binaries. If there are none, users other than root get
# instructions from the program itself.
POSTGRES_DIRS := /usr/lib/postgresql/*/bin /usr/local/pgsql/bin /home/linuxbrew/.linuxbrew/opt/postgresql@*/bin
postgres:
	@tools/debian 'for initdb in "$$(command -v initdb)" $(addsuffix /initdb,$(POSTGRES_DIRS)); do [ -x "$$initdb" ] && exit; done; exit 1' postgresql

clean: ## Remove everything that was built. The record in .actlog stays.
	rm -rf bin clients/*/.venv clients/*/node_modules cmd/bench/peers/*/.venv cmd/bench/peers/*/node_modules
