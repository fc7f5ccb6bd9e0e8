# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test lint format wheel clean

setup: $(STAMP)

# Everything is pinned in constraints.txt; torch is installed by pip from there, first, so that nothing pulls another one.
$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(shell find native -type f 2>/dev/null)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test,dev,datasets,plot]"
	touch $@

demo: setup
	$(BIN)/python examples/demo.py

test: setup lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One wheel for any Python >= 3.11 and any torch; then installed and used in a fresh environment that sees no compiler.
wheel: setup
	$(BIN)/python -m build --wheel --outdir dist
	$(BIN)/python examples/try_wheel.py dist

clean:
	rm -rf $(VENV) build dist demo
