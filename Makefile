# Two commands matter: `make run` opens the console, `make test` passes the tests; `make test-all` is what CI runs.
# Each sets up .venv by itself; all they need is git, make and Python 3.11 or newer.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := .venv/bin
RUN_STAMP := .venv/.run-stamp
DEV_STAMP := .venv/.dev-stamp

.PHONY: run test test-all suites lowest lint bench bench-full screens docs-images docs-recording dist clean

run: $(RUN_STAMP)
	@$(BIN)/flytui --root .

# Twice as many processes as there are cores, since many tests wait for other programs; one that has
# nothing left to do takes over from the others. What pytest compiles is kept for the next run.
test: $(DEV_STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal -m "not e2e"

# The same, and what drives other programs: agents, MCP clients and servers, tmux, X, browsers.
test-all: $(DEV_STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

suites: $(DEV_STAMP)
	FLYTUI_SUITES=full $(BIN)/python -m pytest -m suite --timeout 1800

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The quick size, for about ten minutes on a quiet machine; bench-full has more rounds and larger sizes.
bench: $(DEV_STAMP)
	$(BIN)/python -m bench

bench-full: $(DEV_STAMP)
	$(BIN)/python -m bench --full

# Every screen at all widths, in 24-bit and 256 colours, dark and light, as SVG; see tests/flytui/console/test_screens.py.
screens: $(DEV_STAMP)
	FLYTUI_SCREENS=$(CURDIR)/.screens $(BIN)/python -m pytest -q -n auto tests/flytui/console/test_screens.py

docs-images: $(DEV_STAMP)
	$(BIN)/python docs/make_images.py

docs-recording: $(DEV_STAMP)
	$(BIN)/python docs/make_recording.py

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "flytui needs Python 3.11 or newer: install it (Debian: apt install python3 python3-venv) or name it, make PYTHON=/path/to/python3.11"; exit 5; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "this Python has no venv module: install it (Debian and Ubuntu: apt install python3-venv), then run make again"; exit 5; }
	@$(PYTHON) -m venv .venv

$(RUN_STAMP): .venv/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . && touch $@

$(DEV_STAMP): .venv/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' && touch $@ $(RUN_STAMP)

# The tests of what depends most on libraries, with the oldest versions that pyproject.toml allows.
LOWEST := tests/flycore/registry tests/flycore/policy tests/flycore/server tests/flycore/audit tests/flysidecars \
	tests/flytui/cli/test_cli_commands.py tests/flytui/console/approvals tests/flytui/console/screens

lowest:
	$(PYTHON) -m venv --clear .lowest
	.lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.lowest/bin/uv pip compile --quiet --resolution lowest-direct pyproject.toml -o .lowest/lowest.txt
	.lowest/bin/uv pip install --quiet -p .lowest -c .lowest/lowest.txt -r .lowest/lowest.txt -e . \
		pytest pytest-timeout pytest-xdist pytest-textual-snapshot hypothesis keyring
	.lowest/bin/python -m pytest -n auto --dist worksteal $(LOWEST)

# The wheel, the sdist, and the list of everything that the wheel brings with it, in CycloneDX's format.
dist: $(DEV_STAMP)
	rm -rf dist .release
	$(BIN)/python -m hatchling build -d dist
	$(PYTHON) -m venv .release
	.release/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(PYTHON) -m venv .release/tools
	.release/tools/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7,<8'
	.release/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		-o dist/flytui.cdx.json .release/bin/python

clean:
	rm -rf .venv .lowest .release dist bench/.build .screens
