# Everything needs only Python >= 3.11 (with venv and headers), a C++17 compiler and make.
# make PYTHON=/path/to/python3.12 ... chooses the interpreter, ARGS="..." passes arguments on.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
endif
# Tests start hundreds of processes that import tc: what is compiled to byte code is kept.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := TC_VERIFY=1 $(BIN)/python -m pytest

UNIT := lang errors halide ranges ir sac pipeline poly

# The environment follows what is required, the extensions follow their sources.
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built

.DEFAULT_GOAL := help
.PHONY: help setup unit test test-all lint format demo bench fuzz golden clean distclean tools

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

setup: $(BUILT) ## create .venv, install what is required, build the C++ extensions

unit: setup ## the tests of language, ranges, IR and polyhedra that generate no code, in a minute
	$(PYTEST) -n 2 --no-code $(addprefix tests/,$(UNIT)) $(ARGS)

test: setup ## the fast tests, and a share of what is many alike
	$(PYTEST) -n 2 $(ARGS)

test-all: setup ## every test, the slow ones too
	TC_TESTS=all $(PYTEST) -n 2 -m "slow or not slow" $(ARGS)

lint: setup ## style, import layers, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/pyright

format: setup ## let ruff format and repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup ## programs, a photo that one draws, a race with NumPy and PyTorch; pictures go to build/demo
	$(BIN)/python -m tc demo --output build/demo $(ARGS)

bench: setup ## measure against peers; results go to benchmarks/results; ARGS="cpu --quick" for one table
	@$(BIN)/python -c 'import jax, matplotlib, numba, torch' 2>/dev/null || \
	  $(BIN)/python -m pip install -q --no-build-isolation -e '.[bench]'
	$(BIN)/python -m benchmarks $(ARGS)

fuzz: setup ## random programs and texts on every backend for MINUTES=5; ARGS="--backend cpu" for some
	$(BIN)/python -m fuzz --minutes $(or $(MINUTES),5) $(ARGS)

golden: setup ## accept what the golden tests see now; look at the diff before you commit it
	$(PYTEST) --update-golden $(ARGS)

clean: ## remove what was built and cached; .venv stays
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache $(BUILT)
	rm -f tc/*.so tc/_build_info.py
	find tc backends tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove .venv too
	rm -rf $(VENV)

tools:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is missing. Debian: apt-get install python3"; exit 1; }
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) is not a command"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than Python 3.11. Debian: apt-get install python3"; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing. Debian: apt-get install python3-venv"; exit 1; }
	@"$(PYTHON)" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || \
	  { echo "Python's C headers (Python.h) are missing. Debian: apt-get install python3-dev"; exit 1; }
	@echo 'int main() {}' | $(CXX) -std=c++17 -x c++ -fsyntax-only - 2>/dev/null || \
	  { echo "a C++17 compiler ($(CXX)) is missing. Debian: apt-get install g++"; exit 1; }

$(INSTALLED): pyproject.toml setup.py
	@$(MAKE) --no-print-directory tools
	$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	  print(*p["build-system"]["requires"], sep="\n")' > $(VENV)/build-requires.txt
	$(BIN)/python -m pip install -q -r $(VENV)/build-requires.txt
	$(BIN)/python -m pip install -q --no-build-isolation -e '.[test]'
	@touch $@

$(BUILT): $(INSTALLED) $(wildcard tc/native/*)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@
