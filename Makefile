# Two commands matter: `make run` opens the console, `make test` passes the tests.
# Each sets up .venv by itself; all they need is git, make and Python 3.11 or newer.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := .venv/bin
RUN_STAMP := .venv/.run-stamp
DEV_STAMP := .venv/.dev-stamp

.PHONY: run test suites lint bench screens docs-images clean

run: $(RUN_STAMP)
	@$(BIN)/flytui --root .

# Half as many processes again as there are cores, since many tests wait for other programs; one that has
# nothing left to do takes over from the others. What pytest compiles is kept for the next run.
test: $(DEV_STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

suites: $(DEV_STAMP)
	FLYTUI_SUITES=full $(BIN)/python -m pytest -m suite --timeout 1800

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV_STAMP)
	$(BIN)/python -m bench

# Every screen at all widths, in 24-bit and 256 colours, dark and light, as SVG; see tests/flytui/console/test_screens.py.
screens: $(DEV_STAMP)
	FLYTUI_SCREENS=$(CURDIR)/.screens $(BIN)/python -m pytest -q -n auto tests/flytui/console/test_screens.py

docs-images: $(DEV_STAMP)
	$(BIN)/python docs/make_images.py

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "flytui needs Python 3.11 or newer: install it (Debian: apt install python3 python3-venv) or name it, make PYTHON=/path/to/python3.11"; exit 5; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "this Python has no venv module: install it (Debian and Ubuntu: apt install python3-venv), then run make again"; exit 5; }
	@$(PYTHON) -m venv .venv

$(RUN_STAMP): .venv/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . && touch $@

$(DEV_STAMP): .venv/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' && touch $@ $(RUN_STAMP)

clean:
	rm -rf .venv bench/.build .screens
