# Tools come from .venv (made by `./install.sh --test`), else from PATH.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/)
PYTEST := $(BIN)python -m pytest
# One worker per CPU; a file's tests stay together, since they may share a fixture that is dear to make.
PARALLEL ?= -n auto --dist loadfile

.PHONY: help check lint format types layers tests test slow bench demo

help:  ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

check: lint types layers tests  ## Everything CI checks

lint:  ## Lint Python and shell, and check the format
	$(BIN)ruff check
	$(BIN)ruff format --check
	$(if $(shell command -v shellcheck),shellcheck install.sh .ci/run,@echo "shellcheck is not here: skipped")

format:  ## Format the Python code
	$(BIN)ruff check --fix
	$(BIN)ruff format

types:  ## Check the types, strictly
	$(BIN)mypy

layers:  ## Check that no layer imports a higher one
	$(BIN)lint-imports

tests:  ## Run all tests
	$(PYTEST) -q $(PARALLEL)

test:  ## Run the tests that take moments
	$(PYTEST) -q $(PARALLEL) -m "not slow and not systemd"

slow:  ## Run the other tests
	$(PYTEST) -q -m "slow or systemd"

bench:  ## Run the benchmarks
	for name in fetch verify startup pin cache doctor fleet bake; do ./benchmarks/run "$$name" --json || exit 1; done

demo:  ## Boot a small model end to end in a private folder
	./install.sh --demo
