# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer, git and make.
# The virtual environment is made once and refreshed only when its inputs change.
# .venv is relative, so a checkout path may contain spaces.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRAS := bench,hf,mcp,onnx,ray,review,tensorboard
GROUPS := --group dev --group docs

.PHONY: help demo test lint types unit slow format bench pages docs docs-serve dist audit clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

.venv/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing jnpl into .venv (once): downloads 400 MB, half of it PyTorch, in a few minutes" >&2
	@echo "(on Linux, pip may take PyTorch for NVIDIA GPUs: several GB; docs/install.md says how to avoid it)" >&2
	@$(PIP) -e .
	@echo "installed" >&2
	@touch $@

# What the tests use beside it; `make demo` does without these 800 MB.
.venv/.extras: .venv/.installed
	@echo "installing jnpl[$(EXTRAS)] and what its tests use into .venv (once), in a few minutes" >&2
	@$(PIP) --upgrade "pip>=25.1" # that of Python 3.11 to 3.13 knows no groups
	@$(PIP) -e ".[$(EXTRAS)]" $(GROUPS)
	@echo "installed" >&2
	@touch $@

demo: .venv/.installed  ## wrong labels found, ranked and pictured: a minute after the installation (ARGS="--seeds 3")
	@$(BIN)/python -m jnpl demo $(ARGS)

test: lint types docs unit  ## lint, types, documentation, tests and doctests

lint: .venv/.extras  ## ruff: rules and format
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

types: .venv/.extras  ## mypy --strict
	@$(BIN)/python -m mypy

# A part of the tests is not asked for the coverage of all; CONTRIBUTING.md has the figure.
unit: .venv/.extras  ## tests and doctests, warnings are errors, with the coverage of src/ (ARGS="-k nl_plus": a part)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow or ray" \
	  $(or $(ARGS),--cov --cov-report=term --cov-fail-under=97)

slow: .venv/.extras  ## the tests that `make test` leaves out: minutes of training, compilers, all examples
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "slow and not ray" $(ARGS)

format: .venv/.extras  ## let ruff rewrite what it can
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

bench: .venv/.installed  ## speed of the losses against their rivals
	@$(BIN)/python benchmarks/losses.py

pages: .venv/.extras  ## write the generated pages of docs/ from the committed results and the registry
	@$(BIN)/python benchmarks/reproduction_page.py
	@$(BIN)/python benchmarks/field.py --table
	@$(BIN)/python benchmarks/evidence.py page
	@$(BIN)/python benchmarks/owners.py page
	@$(BIN)/python benchmarks/owners.py tables-page
	@$(BIN)/python benchmarks/noise_rate.py page
	@$(BIN)/python benchmarks/review.py page
	@$(BIN)/python benchmarks/own_loop.py page
	@$(BIN)/python docs/generate.py

docs: .venv/.extras  ## build the documentation site into site/, warnings are errors
	@$(BIN)/python docs/generate.py --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: .venv/.extras  ## show the documentation site on http://127.0.0.1:8000 while you edit it
	@$(BIN)/python -m mkdocs serve

dist: .venv/.extras  ## build sdist and wheel into dist/, check them, run the demo from the wheel in an empty environment
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python .ci/check_dist.py dist

audit: .venv/.extras  ## known vulnerabilities of the installed packages (needs the network)
	@$(BIN)/python -m pip_audit --skip-editable

clean:  ## remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
