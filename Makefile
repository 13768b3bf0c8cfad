# The project's own commands; `make help` lists them. Stamp files under .venv/.stamps make a
# second call instant and a changed lock install again. All paths are relative, so that the
# checkout may stand in a directory with spaces in its name.

PYTHON ?= python3
ARGS ?=
# Many tests wait more than they compute.
TEST_PROCESSES ?= 3

export PYTHON
python := .venv/bin/python
pip := $(python) -m pip --disable-pip-version-check --no-input
stamps := .venv/.stamps
uv := uv==0.13.9

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.PHONY: help run venv test lint demo bench lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

run: $(stamps)/run  ## Set everything up and run the daemon with its web page; no account, no key
	.venv/bin/clawbot run --config config/clawbot.dev.yaml $(ARGS)

venv: $(stamps)/dev  ## Make .venv from the lock, with what development needs

test: need-tests $(stamps)/dev  ## Run all tests, or some: make test ARGS='tests/unit -k key'
	$(python) -m pytest -n $(TEST_PROCESSES) --dist loadfile $(ARGS)

lint: $(stamps)/dev  ## Check style, format and types
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

demo: $(stamps)/dev  ## Start simulators and the daemon, let people talk, print the conversation
	$(python) -m tests.demo $(ARGS)

bench: $(stamps)/dev  ## Measure throughput and added latency against a bare pipeline
	$(python) -m tests.bench $(ARGS)
	$(python) -m tests.bench.sessions
	$(python) -m tests.bench.memory
	$(python) -m tests.bench.stores
	$(python) -m tests.bench.harness --parts

lock:  ## Resolve pyproject.toml again into both lock files; UPGRADE=--upgrade takes new releases
	@.ci/need venv
	@echo "Resolving pyproject.toml …"
	@venv=$$(mktemp -d) && trap 'rm -rf "$$venv"' EXIT && \
	$(PYTHON) -m venv "$$venv" && "$$venv/bin/python" -m pip install --quiet $(uv) && \
	compile() { "$$venv/bin/python" -m uv pip compile --quiet --universal --python-version 3.11 \
	    --generate-hashes --no-header $(UPGRADE) pyproject.toml --group build "$$@"; } && \
	compile --output-file requirements.lock && \
	compile --extra dev --constraint requirements.lock --output-file requirements-dev.lock

clean:  ## Remove all that these commands have made: .venv, the state of `make run`, caches
	rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Both groups at once, so that somebody who is not root sees one line for everything.
.PHONY: need-tests
need-tests:
	@.ci/need venv tests

$(stamps)/python:
	@.ci/need venv
	$(PYTHON) -m venv .venv
	@mkdir -p $(stamps) && touch $@

# The build backend is in the lock too: installing the checkout itself downloads nothing.
# Without --use-pep517 Debian 12's pip warns about the one source distribution among the tools.
define install
	@echo 'Installing what $(1) names into .venv; the first time takes a minute …'
	@$(pip) install --quiet --use-pep517 --require-hashes --requirement $(1)
	@$(pip) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
endef

$(stamps)/run: $(stamps)/python requirements.lock pyproject.toml
	$(call install,requirements.lock)

$(stamps)/dev: $(stamps)/python requirements-dev.lock pyproject.toml
	$(call install,requirements-dev.lock)
	@touch $(stamps)/run
