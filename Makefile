# Each target does all of its own set-up; it needs only python3 (3.11+), git and make.
.PHONY: install demo test test-slow check lint types layers bench lock clean
.DELETE_ON_ERROR:

BIN := .venv/bin
PYTHON ?= python3
# Compiled modules are kept, whatever the shell says: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

install: $(BIN)/arena

$(BIN)/arena: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: python 3.11 or newer is needed; name it with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "error: cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: install
	@$(BIN)/arena demo

test: install
	@$(BIN)/pytest -n 3 -m "not slow"

test-slow: install
	@$(BIN)/pytest -n 3 -m slow --timeout 600

check: lint types layers

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m reconcile.kinds.crds --check
	$(BIN)/hadolint Dockerfile

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports

bench: install
	$(BIN)/python -m bench

lock: install
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --extra test --extra build pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache dist
