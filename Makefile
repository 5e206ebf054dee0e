# The whole developer's life. Needs Python 3.11 or newer with venv and pip, gcc, make; Java 17 for Spark only.
# Each target first installs what it needs into .venv, and again only when its sources changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD_INPUTS := pyproject.toml setup.py src/headwater/records/_kernel.pyx
PIP := $(BIN)/pip --disable-pip-version-check -q

.PHONY: help setup run demo test test-slow check format sim bench bench-log clean

help:
	@echo "make run         the broker on its embedded default, in the foreground"
	@echo "make test        all tests that a change must pass"
	@echo "make test-slow   the tests that take minutes"
	@echo "make check       format, lint, types, layers"
	@echo "make format      rewrite the sources in the house format"
	@echo "make bench       every benchmark; bench-log for one"
	@echo "make setup       the package with all extras, Spark included"
	@echo "make clean       remove what was built here"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.all: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[dev,cluster,spark,web]'
	@touch $@ $(VENV)/.dev $(VENV)/.core

setup: $(VENV)/.all

run: $(VENV)/.core
	@echo "The broker is not built yet: today Headwater has its record format and its storage engine."
	@echo "Try: $(BIN)/headwater log dump FILE"

demo:
	@echo "The demo comes with the Spark pipelines, which are not built yet."

test: $(VENV)/.dev
	$(BIN)/pytest -m "not slow"

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f src/headwater/records/_kernel*.so src/headwater/records/_kernel.c
