"""The start of a kernel on demand by a command."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from flycore.client import kernel_start
from flycore.model.errors import KernelFailed
from flycore.registry.paths import find_paths

HANGS = """#!/bin/sh
sleep 600 &
echo $! > {folder}/hanging
"""


@pytest.mark.anyio
async def test_a_kernel_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the pipe on which its report is awaited for as long as it hangs."""
    program = tmp_path / "python"
    program.write_text(HANGS.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(kernel_start, "START_SECONDS", 0.5)
    places = find_paths(str(tmp_path), None, {"HOME": str(tmp_path / "home")}, tmp_path)
    try:
        with pytest.raises(KernelFailed, match="did not start within"):
            await kernel_start.start_kernel(places)
    finally:
        os.kill(int((tmp_path / "hanging").read_text()), signal.SIGKILL)
