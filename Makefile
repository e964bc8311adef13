# Needs Python 3.10 or newer with venv, and make. Everything is installed into $(VENV).

PYTHON ?= python3
VENV ?= .venv
python := $(VENV)/bin/python

# tests/test_x.py for kernels/x.py and kernels/_x.py; the launcher is tested with the threads.
kernel_modules := $(patsubst kernels/%.py,%,$(subst kernels/_,kernels/,$(wildcard kernels/*.py)))
kernel_tests := $(wildcard $(kernel_modules:%=tests/test_%.py)) tests/test_threads.py

.PHONY: help demo test unit coverage lint format bench clean
# Two runs of pip must not meet in one environment, and two timings not on one machine.
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## List the targets
	@echo "make [PYTHON=python3.12] [VENV=.venv] target"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed-plot ## Learn digits from candidate labels with HERA; table and plot
	@mkdir -p out/demo
	$(python) -m hera_fast demo --out out/demo/hera.png

test: unit coverage ## All tests, then the line coverage of the kernels

unit: $(VENV)/.installed-test ## All tests
	$(python) -m pytest

coverage: $(VENV)/.installed-test ## The kernels' tests without compilation: 100 % of the lines
	NUMBA_DISABLE_JIT=1 $(python) -m pytest $(kernel_tests) --cov=kernels --cov-fail-under=100

lint: $(VENV)/.installed-lint ## Style, format and types
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

format: $(VENV)/.installed-lint ## Rewrite the files in the project's format
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

bench: $(VENV)/.installed-bench ## Compare the kernels with their competitors and the machine
	$(python) bench/limits.py
	$(python) -m pytest bench

clean: ## Remove the environment and everything that was generated
	rm -rf $(VENV) out build dist *.egg-info .coverage* .hypothesis .mypy_cache .pytest_cache
	rm -rf .ruff_cache .benchmarks
	find hera_fast kernels tests bench examples -name __pycache__ -exec rm -rf {} +

# pip, and with it the network, is needed only when the list of packages has changed.
$(VENV)/.installed-%: $(VENV)/pyvenv.cfg pyproject.toml setup.cfg hera_fast/_version.py
	@echo "Installing hera-fast[$*] into $(VENV); the first time takes a minute or two"
	@$(python) -m pip install --quiet --disable-pip-version-check --editable '.[$*]' || \
	    { echo "pip failed, see above; packages are downloaded only this once" >&2; exit 1; }
	@touch $@

$(VENV)/pyvenv.cfg:
	@command -v $(PYTHON) > /dev/null || \
	    { echo "$(PYTHON) was not found: try make PYTHON=python3.12, or another 3.10 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { $(PYTHON) --version; echo "hera-fast needs Python 3.10 or newer: try make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
