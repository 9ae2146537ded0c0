"""A terminal that goes away without a signal: the console leaves, and the root is free. One that stalls: the
kernel goes on."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.console_processes import processes_of
from kits.terminals import BIN, PATIENCE, Root, make_root

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@contextmanager
def console_on_a_pty(root: Root) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A console, drawn, and the outer end of its terminal, which is closed at the end."""
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
        while b"policy ok" not in drawn:
            drawn += os.read(master, 65_536)
        yield process, master
    finally:
        os.close(master)


def test_the_console_leaves_with_its_terminal(tmp_path: Path) -> None:
    root = make_root(tmp_path, only=("utility.local",))
    with console_on_a_pty(root) as (process, _):
        pass
    process.wait(timeout=PATIENCE)
    assert json.loads(root.flytui("status", "--json").stdout)["running"] is False


def test_calls_go_on_while_nobody_reads_the_terminal(tmp_path: Path) -> None:
    """Far more is drawn than terminal and queue hold; a line that has stalled stops nobody's work."""
    root = make_root(tmp_path, only=("utility.local",))
    root.trust()
    with console_on_a_pty(root) as (process, master):
        for _ in range(100):
            for key in (b"1", b"3"):
                os.write(master, key)
                time.sleep(0.03)  # a frame for each: keys that come together are drawn together
        for _ in range(3):
            done = root.flytui("call", "file.hash", f"path={root.folder / 'tools'}", "--json", "--no-wait")
            assert json.loads(done.stdout)["tool"] == "file.hash"
        said = root.flytui("status", "--json").stdout
        assert json.loads(said)["kernel"]["pid"] == processes_of(process.pid).kernel, said
    process.wait(timeout=PATIENCE)
