"""`python -m flytui` does the same as the command `flytui`."""

from __future__ import annotations

import sys

from flytui.cli.main import run

sys.exit(run())
