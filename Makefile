# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
ONLY   ?=
DATA   ?=
TESTS  ?= not slow and not thorough
# The tests start many processes, which would all compile the package's bytecode again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo paper test test-slow test-versions check kernels lint format types bench docs site dist clean help
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

demo: $(VENV)/.installed ## set up, then show what ontarget does
	@$(BIN)/ontarget demo

paper: $(VENV)/.installed-dev ## reproduce the paper into out/paper: tables, figures and a page
	@$(BIN)/ontarget paper -o out/paper

test: kernels ## set up, then run the fast tests
	$(BIN)/pytest -q -n $(JOBS) -m "$(TESTS)" --durations=15

test-slow: $(VENV)/.installed-slow ## run the slow tests too
	$(BIN)/pytest -q -n $(JOBS)

test-versions: $(VENV)/.installed-dev ## run the fast tests with the oldest and newest dependencies, on every Python here
	$(BIN)/pip install -q uv
	PATH="$(CURDIR)/$(BIN):$$PATH" JOBS=$(JOBS) TESTS="$(TESTS)" .ci/versions

check: $(VENV)/.installed-dev ## lint, format, types, tests: what CI runs
	$(MAKE) -j 2 --output-sync=target lint types kernels
	$(MAKE) test TESTS="not slow"

kernels: $(VENV)/.installed-dev  # before the tests, whose processes would all compile the same code
	@$(BIN)/ontarget warm

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev ## run the benchmarks in bench/ and write docs/speed.md; ONLY="monitor forest" runs some, DATA=FOLDER adds real episodes
	PYTHONPATH=bench $(BIN)/python -m yardstick.speed $(ONLY) $(if $(DATA),--data $(DATA))

docs: $(VENV)/.installed-dev ## write the list of what is promised, and the outputs that the pages show
	$(BIN)/python docs/write_surface.py --update
	$(BIN)/python docs/run_pages.py --update

site: $(VENV)/.installed-docs ## build the documentation site into out/site; a broken link is an error
	$(BIN)/python docs/site/build.py

dist: ## build wheel and sdist into dist/, install each into an empty environment and try it
	PYTHON=$(PYTHON) .ci/dist

clean: ## remove the environment and every cache
	rm -rf $(VENV) .versions .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than pyproject.toml once its extras are installed, so a second call sets nothing up.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ontarget needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[docs]'
	@touch $@

$(VENV)/.installed-slow: $(VENV)/.installed-dev
	$(BIN)/pip install -q -e '.[dev,slow]'
	@touch $@
