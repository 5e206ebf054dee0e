# The whole developer's life. Needs Python 3.11 or newer with venv and pip, gcc, make; Java 17 for Spark only.
# Each target first installs what it needs into .venv, and again only when its sources changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD_INPUTS := pyproject.toml setup.py $(wildcard src/headwater/records/kernel/*.px?)
PIP := $(BIN)/pip --disable-pip-version-check -q

# Before the defaults of the simulators: faults are other ones each time, unless a seed is given.
FAULTS := --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))
SEED ?= 1
SIM ?=
MINUTES ?= 30

.PHONY: help setup run demo test test-slow test-faults test-eos test-browser test-peers test-lowest test-spark peers check format sim sim-night bench docs docs-serve clean

help:
	@echo "make run         a broker on 127.0.0.1:9092 with its data in ./data"
	@echo "make test        all tests that a change must pass"
	@echo "make test-slow   the tests that take minutes"
	@echo "make test-faults a real cluster is hurt for MINUTES=10, and held to its promises; SEED=n for the same faults"
	@echo "make test-eos    Spark's exactly-once sink while its processes are killed"
	@echo "make test-browser the web console in Chromium, which apt-get install chromium chromium-driver has"
	@echo "make test-peers  Headwater and Apache Kafka side by side, after make peers"
	@echo "make test-lowest all tests on the oldest versions that pyproject.toml allows"
	@echo "make test-spark  the Spark tests on PySpark 4.2 and 4.3, each in a virtual environment of its own"
	@echo "make check       format, lint, types, layers"
	@echo "make format      rewrite the sources in the house format"
	@echo "make sim         every simulator once, or those that SIM=groups names; SEED=n replays a run"
	@echo "make sim-night   as many seeds as MINUTES=30 hold; tells which failed, and how to replay them"
	@echo "make bench       every benchmark, or make bench-NAME for one of: broker, client, cluster, cold,"
	@echo "                 controller, groups, hostile, log, mirror, net, peers, restart, spark, validation; bench-hostile takes"
	@echo "                 HOSTILE_SECONDS=60 for each attack, HOSTILE_ATTACKS='Metadata;Fetch', HOSTILE_BEFORE=other/src"
	@echo "make docs        build the documentation site into build/site"
	@echo "make docs-serve  build the documentation site and serve it on 127.0.0.1:8000"
	@echo "make peers       fetch Apache Kafka, its frameworks and Spark's Kafka connector with Maven into a cache folder; needs Java 17 to run"
	@echo "make demo        a live pipeline: broker, orders, Spark, a verdict, a picture; needs Java 17"
	@echo "make setup       the package with all extras, Spark included"
	@echo "make clean       remove what was built here"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# An editable install compiles nothing; compiled now, a broker is ready a quarter sooner.
COMPILE := $(BIN)/python -m compileall -q src

$(VENV)/.core: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e .
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[dev]'
	@$(COMPILE)
	@touch $@ $(VENV)/.core

$(VENV)/.demo: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[demo]'
	@$(COMPILE)
	@touch $@ $(VENV)/.core

$(VENV)/.all: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[dev,avro,cluster,json,spark,web]'
	@touch $@ $(VENV)/.dev $(VENV)/.core

setup: $(VENV)/.all

run: $(VENV)/.core
	@$(BIN)/headwater start --listen 127.0.0.1:9092 --data ./data

# Minutes the first time, for it installs Spark; half a minute then.
demo: $(VENV)/.demo
	@$(BIN)/python -m demo

# The slowest tests are named, so that a slow one is noticed on the day it is written.
test: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow and not peers and not browser" --durations=5 --durations-min=1

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow --ignore=tests/spark/eos

test-eos: $(VENV)/.dev
	$(BIN)/pytest -m slow -s -q tests/spark/eos

test-browser: $(VENV)/.dev
	$(BIN)/pytest -m browser

test-faults: $(VENV)/.dev
	$(BIN)/python -m tests.cluster.faults $(FAULTS)

# Kept outside the repository: ~/.cache/headwater/peers, or what HEADWATER_PEERS names.
peers: $(VENV)/.dev
	@$(BIN)/python -m tests.peers.jars

test-peers: $(VENV)/.dev
	$(BIN)/pytest -m peers

test-lowest: $(VENV)/.dev
	$(PIP) install uv
	test -d $(VENV)/lowest || $(PYTHON) -m venv $(VENV)/lowest
	$(BIN)/uv pip install -q --python $(VENV)/lowest/bin/python --resolution lowest-direct -e '.[dev]'
	$(VENV)/lowest/bin/pytest -n 2 --dist loadgroup -m "not slow and not peers and not browser"

SPARK_VERSIONS ?= 4.2 4.3
SPARK_TESTS ?= tests/spark tests/unit/spark

test-spark: $(SPARK_VERSIONS:%=test-spark-%)

# Kept: make would remove these as intermediate files, and reinstall each time.
.SECONDARY: $(SPARK_VERSIONS:%=$(VENV)/spark-%/.installed)

test-spark-%: $(VENV)/spark-%/.installed
	$(VENV)/spark-$*/bin/pytest -m "not slow and not peers and not browser" $(SPARK_TESTS)

$(VENV)/spark-%/.installed: $(VENV)/.dev $(BUILD_INPUTS)
	test -d $(@D)/bin || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip --disable-pip-version-check -q install -e '.[dev]' 'pyspark[connect]==$*.*'
	@touch $@

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: $(VENV)/.dev
	$(BIN)/python -m tests.simulation $(SIM) --seed $(SEED)

sim-night: $(VENV)/.dev
	$(BIN)/python -m tests.simulation.night $(SIM) --minutes $(MINUTES)

bench: $(VENV)/.dev
	$(BIN)/python -m bench

bench-%: $(VENV)/.dev
	$(BIN)/python -m bench $*

# Material for MkDocs prints a notice about its successor, which reads the same mkdocs.yml.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

docs: $(VENV)/.dev
	$(BIN)/python docs/diagrams/draw.py
	$(BIN)/python docs/reference/generate.py
	$(MKDOCS) build --strict

docs-serve: docs
	$(MKDOCS) serve

clean:
	rm -rf build dist demo-output $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/headwater/records/kernel/_kernel*.so src/headwater/records/kernel/_kernel.c
