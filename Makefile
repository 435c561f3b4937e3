# Everything sets itself up: a fresh machine needs Python 3.10+ and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# A stamp per extra: installed again only when the project's requirements change.
DEMO   := $(VENV)/.installed-demo
DEV    := $(VENV)/.installed-dev

.PHONY: help demo test test-all check format soak bench profile picture clean system-packages

help:
	@echo "make demo      a real job on simulated GPUs, with the live dashboard"
	@echo "make test      the whole test suite"
	@echo "make check     lint, format, types"
	@echo "make test-all  the suite on Python 3.10 to 3.13"
	@echo "make soak      an hour of faults (SOAK_SECONDS=60 for a minute)"
	@echo "make bench     every peer and the limit, in one table"
	@echo "make profile   where a task's microseconds go"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[ui]"
	$(BIN)/python -m compileall -q src  # pip does that for what it copies: new workers then start in half the time
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/python -m compileall -q src  # pip does that for what it copies: new workers then start in half the time
	@touch $@

demo: $(DEMO)
	$(BIN)/python -m gpu_dispatch demo

# What pip cannot install. Where it cannot be installed here, the tests that need it say what is missing.
system-packages:
	@missing=""; \
	for tool in flite tmux cc; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    packages=$$(echo "$$missing" | sed 's/\bcc\b/gcc libc6-dev/'); \
	    echo "installing$$packages"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$packages >/dev/null; \
	fi

test: $(DEV) system-packages
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/architecture

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One virtualenv per version, beside the usual one.
test-all:
	@for version in 3.10 3.11 3.12 3.13; do \
	    python=$$(tools/find_python.sh $$version) || exit 1; \
	    echo "== Python $$version ($$python)"; \
	    $(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

soak: $(DEV)
	$(BIN)/python -m pytest -m soak -s tests/soak

bench: $(DEV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

profile: $(DEV)
	$(BIN)/python -m benchmarks.profile_stages

picture: $(DEV)
	$(BIN)/python tools/make_readme_picture.py

clean:
	rm -rf .venv .venv-3.* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
