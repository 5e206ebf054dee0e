# Development tasks. Needs Python 3.11 or newer with venv and pip, gcc and make; Java 17 for Spark only.
# Each target installs what it needs into .venv first, and again when pyproject.toml or the kernel changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD_INPUTS := pyproject.toml setup.py $(wildcard src/headwater/records/kernel/*.px?)
PIP_LOUD := $(BIN)/pip --disable-pip-version-check
PIP := $(PIP_LOUD) -q

# Before the simulators' defaults: without SEED, each run of test-faults has a new seed.
FAULTS := --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))
SEED ?= 1
SIM ?=
MINUTES ?= 30

.PHONY: help setup run demo test test-slow axe test-faults test-eos test-cdc test-browser test-peers test-lowest test-spark test-lake test-orchestration test-rest peers check format sim sim-night bench docs docs-serve clean

help:
	@echo "make run          start a broker on 127.0.0.1:9092 with its data in ./data"
	@echo "make demo         run a live pipeline on Spark and check its output; needs Java 17"
	@echo "make test         run all tests that a change must pass"
	@echo "make check        check format, lint, types and layers"
	@echo "make format       format the sources and fix what the linter can"
	@echo "make setup        install the package with all extras, Spark included"
	@echo "make docs         build the documentation site into build/site"
	@echo "make docs-serve   build the documentation site and serve it on 127.0.0.1:8000"
	@echo "make clean        remove what was built"
	@echo
	@echo "Longer tests"
	@echo "make test-slow    tests that take minutes"
	@echo "make test-faults  inject faults into a running cluster for MINUTES=10 and verify its guarantees; SEED=n repeats a run, ZOOKEEPER=1 has no quorum"
	@echo "make test-eos     exactly-once writes from Spark while its processes are killed"
	@echo "make test-cdc     mirror a PostgreSQL database for MINUTES=10 while processes are killed; SEED=n repeats a run"
	@echo "make axe          download axe-core, which test-browser uses; needs npm"
	@echo "make test-browser the web console and the docs site in Chromium; needs the packages chromium and chromium-driver"
	@echo "make peers        download Apache Kafka, its frameworks and Spark's Kafka connector into a cache folder; needs Maven"
	@echo "make test-peers   Headwater beside Apache Kafka; needs Java 17 and make peers"
	@echo "make test-lowest  all tests with the lowest versions that pyproject.toml allows"
	@echo "make test-spark   all Spark tests, clusters included, on PySpark 4.2 and 4.3, each in its own virtual environment"
	@echo "make test-orchestration  the recipes for Airflow and Dagster, killed and retried, in a virtual environment of their own"
	@echo "make test-rest    requests that schemathesis generates from the REST API's OpenAPI document, in a virtual environment of its own"
	@echo "make test-lake    Delta, Iceberg and S3 tables from pipelines, with kills; needs Java 17 and Maven"
	@echo "make sim          run every simulator once; SIM=groups selects one, SEED=n repeats a run"
	@echo "make sim-night    run simulators with new seeds for MINUTES=30; prints failing seeds and how to repeat them"
	@echo
	@echo "make bench        run every benchmark except hostile, produce, spark-latency and spark-memory; make bench-NAME runs one of: broker, client,"
	@echo "                  cluster, cold, compaction, controller, groups, hostile, log, mirror, net, peers, produce, rest, restart, spark, spark-latency,"
	@echo "                  spark-memory, sql, validation, zero-copy"
	@echo "                  bench-hostile takes HOSTILE_SECONDS=60 per attack, HOSTILE_ATTACKS='Metadata;Fetch' and"
	@echo "                  HOSTILE_BEFORE=other/src to compare with"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# An editable install leaves no byte code; compiling it now makes the first start a quarter faster.
COMPILE := $(BIN)/python -m compileall -q src

$(VENV)/.core: $(BIN)/python $(BUILD_INPUTS)
	@echo "Installing Headwater into $(VENV): about a minute, once"
	@$(PIP_LOUD) install -e .
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[dev]'
	@$(COMPILE)
	@touch $@ $(VENV)/.core

$(VENV)/.demo: $(BIN)/python $(BUILD_INPUTS)
	@echo "Installing Headwater with Spark into $(VENV): some minutes, once"
	@$(PIP_LOUD) install -e '.[demo]'
	@$(COMPILE)
	@touch $@ $(VENV)/.core

$(VENV)/.all: $(BIN)/python $(BUILD_INPUTS)
	$(PIP) install -e '.[dev,avro,cluster,json,spark,web]'
	@touch $@ $(VENV)/.dev $(VENV)/.core

setup: $(VENV)/.all

run: $(VENV)/.core
	@$(BIN)/headwater start --listen 127.0.0.1:9092 --data ./data

demo: $(VENV)/.demo
	@$(BIN)/python -m demo

# Tests wait as long as they work, so there are more workers than two cores.
# --durations names the slowest tests, so that a new slow test is noticed.
test: $(VENV)/.dev
	$(BIN)/pytest -n 3 --dist loadgroup -m "not slow and not spark and not peers and not browser and not lake" --durations=5 --durations-min=1

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m "slow and not lake" --ignore=tests/spark/eos

test-eos: $(VENV)/.dev
	$(BIN)/pytest -m slow -s -q tests/spark/eos

test-cdc: $(VENV)/.dev
	$(BIN)/python -m tests.spark.eos.cdc_kills $(FAULTS)

test-browser: $(VENV)/.dev axe
	$(BIN)/pytest -m browser

# Checks accessibility. Only tests use it, so it is not in the repository.
AXE := $(HOME)/.cache/headwater/axe
axe:
	@mkdir -p $(AXE)
	@test -f $(AXE)/package/axe.min.js || (cd $(AXE) && npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz package/axe.min.js) \
	    || echo "axe-core was not downloaded: the tests of accessibility are skipped"

test-faults: $(VENV)/.dev
	$(BIN)/python -m tests.cluster.faults $(FAULTS) $(if $(ZOOKEEPER),--zookeeper)

# Downloads go to ~/.cache/headwater/peers, or to $HEADWATER_PEERS.
peers: $(VENV)/.dev
	@$(BIN)/python -m tests.peers.jars

test-peers: $(VENV)/.dev
	$(BIN)/pytest -m peers

test-lowest: $(VENV)/.dev
	$(PIP) install uv
	test -d $(VENV)/lowest || $(PYTHON) -m venv $(VENV)/lowest
	$(BIN)/uv pip install -q --python $(VENV)/lowest/bin/python --resolution lowest-direct -e '.[dev]'
	$(VENV)/lowest/bin/pytest -n 2 --dist loadgroup -m "not slow and not peers and not browser and not lake"

SPARK_VERSIONS ?= 4.2 4.3
SPARK_TESTS ?= tests/spark tests/unit/spark tests/unit/pipelines tests/unit/cli/spark tests/unit/cli/quickstart

test-spark: $(SPARK_VERSIONS:%=test-spark-%)

# Kept: make would remove these as intermediate files, and reinstall each time.
.SECONDARY: $(SPARK_VERSIONS:%=$(VENV)/spark-%/.installed)

test-spark-%: $(VENV)/spark-%/.installed
	$(VENV)/spark-$*/bin/pytest -m "not slow and not peers and not browser and not lake" $(SPARK_TESTS)

$(VENV)/spark-%/.installed: $(VENV)/.dev $(BUILD_INPUTS)
	test -d $(@D)/bin || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip --disable-pip-version-check -q install -e '.[dev]' 'pyspark[connect]==$*.*'
	@touch $@

test-orchestration: $(VENV)/orchestration/.installed
	$(BIN)/pytest -m slow tests/orchestration

$(VENV)/orchestration/.installed: $(VENV)/.dev $(BUILD_INPUTS)
	$(PIP) install uv
	test -d $(@D)/bin || $(PYTHON) -m venv $(@D)
	$(BIN)/uv pip install -q --python $(@D)/bin/python -e . 'apache-airflow>=3' 'dagster>=1.9'
	@touch $@

test-rest: $(VENV)/schemathesis/.installed
	$(BIN)/pytest -m slow tests/fuzz/test_rest_openapi.py

$(VENV)/schemathesis/.installed: $(VENV)/.dev
	test -d $(@D)/bin || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip --disable-pip-version-check -q install 'schemathesis>=4.32'
	@touch $@

# Delta has jars for Spark 4.2 and none for 4.3. They come with Maven, and so do those of Hadoop for S3.
test-lake: $(VENV)/lake/.installed
	@$(VENV)/lake/bin/python -m tests.peers.jars lake
	$(VENV)/lake/bin/pytest -m lake -q tests/lake

$(VENV)/lake/.installed: $(VENV)/.dev $(BUILD_INPUTS)
	test -d $(@D)/bin || $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip --disable-pip-version-check -q install -e '.[dev,iceberg]' 'pyspark[connect]==4.2.*' 'moto[server]'
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
