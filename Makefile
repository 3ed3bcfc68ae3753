# Tools come from .venv (made by `./install.sh --test`), else from PATH.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/)
PYTEST := $(BIN)python -m pytest
# Two workers more than CPUs, since tests wait for about half of their time; a file's tests stay together, since they may
# share a fixture that is dear to make. tests/conftest.py says which files come first.
PARALLEL ?= -n $(shell expr $$(nproc) + 2) --dist loadfile --no-loadscope-reorder
# What one process has compiled the others need not: workers, and kboot some hundred times.
unexport PYTHONDONTWRITEBYTECODE

# An environment of its own, in which every dependency of kboot is as old as pyproject.toml allows. Test tools are new.
LOWEST := .venv-lowest
LOWEST_PIP := uv pip install --quiet --python $(LOWEST)/bin/python

.PHONY: help check check-lowest lint format types layers compiled tests test slow bench demo

help:  ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

check: lint layers  ## Everything CI checks
	@$(MAKE) --no-print-directory -j 2 types compiled
	@$(MAKE) --no-print-directory tests

check-lowest:  ## Test what uses dependencies with the oldest that are allowed (needs uv)
	rm -rf $(LOWEST)
	uv venv --quiet --python "$$($(BIN)python -c 'import sys; print(sys.executable)')" $(LOWEST)
	$(LOWEST_PIP) --resolution lowest-direct --editable '.[s3]'
	uv pip freeze --quiet --python $(LOWEST)/bin/python --exclude-editable >$(LOWEST)/lowest.txt
	$(LOWEST_PIP) --constraint $(LOWEST)/lowest.txt --editable '.[dev]'
	$(LOWEST)/bin/python -m pytest -q $(PARALLEL) -m "not slow and not systemd" \
		tests/apply tests/cli tests/host tests/profile tests/sources tests/test_daemon.py

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

# pytest writes down what it made of the files, so that not every worker does it. What does not compile the tests tell.
compiled:
	@$(PYTEST) --collect-only -q >/dev/null 2>&1 || true

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
