# What a person and the build server run. Every target sets up what it needs; once that is done it takes a moment.
#   make test ARGS="-m 'not spark' -x"        make bench ARGS="--help"

.DEFAULT_GOAL := help
.PHONY: help setup check test bench demo ui quality

PYTHON := .venv/bin/python
ARGS ?=
# Dozens of processes are started, and none of them should compile our modules again.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install Python packages, Java and Delta's jars, where they are missing
	@scripts/setup.sh

check: setup ## style, types, and who may import whom
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -q tests/test_imports.py tests/test_repository.py

test: setup ## all tests, and the examples in docstrings; they need a browser, which is installed if there is none
	@scripts/setup.sh browser
	$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

demo: setup ## everything in small: streams, replays, backfills, checks, reports
	.venv/bin/reprise demo $(ARGS)

ui: setup ## Dagster on localhost:3000, with what the demo made
	scripts/ui.sh $(ARGS)

quality: setup ## every check on what is published; fails if a critical one does
	.venv/bin/reprise quality $(ARGS)

bench: setup ## measure speed, side by side with other systems on the same cores
	.venv/bin/reprise bench $(ARGS)
