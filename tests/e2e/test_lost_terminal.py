"""A terminal that goes away without a signal: the console leaves, and the root is free."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from e2e.kit import BIN, PATIENCE, make_root

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_the_console_leaves_with_its_terminal(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [str(BIN / "flytui"), "--root", str(root.folder)],
        env=root.environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        drawn = b""
        while b"Catalog" not in drawn:
            drawn += os.read(master, 65_536)
    finally:
        os.close(master)
    process.wait(timeout=PATIENCE)
    assert json.loads(root.flytui("status", "--json").stdout)["running"] is False
