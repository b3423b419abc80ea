SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
# Hundreds of short processes are started; none shall compile what another has compiled.
unexport PYTHONDONTWRITEBYTECODE

##@ The two commands

.PHONY: up
up: setup ## Set up, run the demo to its verdict and keep serving (BLOCKS=2 for a quick look, VERDRAFT_PORT=… for another port)
	@$(BIN)/verdraft up $(if $(BLOCKS),--blocks $(BLOCKS))

.PHONY: test
test: setup chromium ## Set up and run the tests (ARGS='-m "not browser"' and the like go to pytest)
	@$(BIN)/pytest --numprocesses 2 --dist loadgroup $(ARGS)

##@ Service

.PHONY: setup
setup: ## Make .venv and the CPU engine runtime; quick when they are there
	@scripts/setup.sh

.PHONY: serve
serve: setup ## Start everything without the demo
	@$(BIN)/verdraft up --no-demo

.PHONY: down
down: ## Stop everything; nothing is lost, `make up` resumes
	@if [ -x $(BIN)/verdraft ]; then $(BIN)/verdraft down; fi

.PHONY: status
status: ## Show what runs
	@$(BIN)/verdraft status

.PHONY: migrate
migrate: ## Bring the database that VERDRAFT_DATABASE_URL names up to date
	@$(BIN)/alembic upgrade head

##@ Measure ourselves

.PHONY: bench-replay
bench-replay: setup ## The replay engine beside the field's load generators, one referee (ARGS='--rate 200 --repeats 1' and the like)
	@scripts/rivals.sh
	@$(BIN)/python -m benchmarks.replay $(ARGS)

.PHONY: bench-conductor
bench-conductor: setup ## What conducting costs beside measuring, and eight workers on one host (17 minutes)
	@$(BIN)/python -m benchmarks.conductor $(ARGS)

.PHONY: bench-evidence
bench-evidence: setup ## The store with ten million observations: ingest, disk, pages, growth (ARGS='--observations 100000' for a look)
	@scripts/pandas.sh
	@$(BIN)/python -m benchmarks.evidence $(ARGS)

.PHONY: bench-pages
bench-pages: setup chromium ## Every page beside a million observations in a real browser (ARGS='--observations 20000 --report-minutes 0' for a look)
	@$(BIN)/python -m benchmarks.pages $(ARGS)

.PHONY: bench-live
bench-live: setup ## What a second of live values costs the measured host (seconds)
	@$(BIN)/python -m benchmarks.live $(ARGS)

.PHONY: calibrate-statistics
calibrate-statistics: setup ## Every interval and word of a report in worlds of known truth (ARGS='--quick' for a look)
	@$(BIN)/python -m benchmarks.statistics $(ARGS)

.PHONY: bench-verification
bench-verification: setup ## Seeded defects before real servers, clean comparisons, and what the phase costs (ARGS='--fake' for a look)
	@$(BIN)/python -m benchmarks.verification $(ARGS)

.PHONY: chaos
chaos: setup ## Kill, stop, flush and fill everything while it measures; the fake engine, then real vLLM (ARGS='-m "not real_engine"')
	@$(BIN)/python -m benchmarks.chaos $(ARGS)

##@ Development

.PHONY: lint
lint: ## ruff, format, pyright, import contracts; front-end types where there is node
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@if command -v npm >/dev/null; then cd frontend && npm ci --silent --no-audit --no-fund && npx --no-install tsc --project .; \
	else echo "no npm here: the front end's types were not checked"; fi

.PHONY: format
format: ## Format the code
	@$(BIN)/ruff check --fix-only --quiet . || true
	@$(BIN)/ruff format .

.PHONY: screenshots
screenshots: setup chromium ## Pictures of every page for docs/pages.md, from made-up experiments (ARGS='--only running,compare')
	@$(BIN)/python -m scripts.screenshots $(ARGS)

.PHONY: schemas
schemas: ## Write the JSON Schemas of the formats anew
	@$(BIN)/python -m app.schemas

.PHONY: lock
lock: ## Lock the requirements anew, keeping what still fits
	@scripts/lock.sh

.PHONY: chromium
chromium:
	@scripts/chromium.sh

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile
