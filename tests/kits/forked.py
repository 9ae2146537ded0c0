"""The forker of an environment, which works for the commands that run as they are installed."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from flysafe.procfs import read_process
from flysafe.unix_sockets import peer_credentials
from flytui.forked.address import forker_socket, is_confined
from kits.command_line import LONGEST, Desk, until


def accepts(path: Path) -> bool:
    """Whether a process accepts connections at that socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tried:
        return tried.connect_ex(str(path)) == 0


def forker_of(environ: Mapping[str, str]) -> int | None:
    """The process id of the forker; None if none serves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tried:
        if tried.connect_ex(forker_socket(environ)):
            return None
        pid, _ = peer_credentials(tried)
        return pid if read_process(pid) is not None else None


def start_forker(desk: Desk) -> int:
    """Run a command in its own process, and return the process id of the forker that it starts."""
    if is_confined():
        pytest.skip("NOT TESTED, this process may be confined (NoNewPrivs), so nothing is forked for it")
    done = subprocess.run(
        desk.argv("status"),
        env=desk.environ,
        cwd=desk.root,
        capture_output=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    until("the forker serves", lambda: forker_of(desk.environ))
    forker = forker_of(desk.environ)
    assert forker is not None
    return forker
