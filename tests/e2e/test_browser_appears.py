"""A browser that is not there, is started as the remedy says, and is gone again: the open console follows."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.terminals import Root, console, display, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ABSENT, THERE = r"○ unavailable +browser\.open", r"● available +browser\.open"
WRAPPER = """#!/bin/sh
# In a container Chromium's own sandbox may not work; the page is the test's own.
exec /usr/bin/chromium --no-sandbox --no-first-run "$@"
"""


class Person:
    """A person's shell, whose PATH has a browser once it is installed."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root = root
        self.folder = folder
        folder.mkdir()

    def install(self) -> None:
        """Put the browser on the PATH."""
        program = self.folder / "chromium"
        program.write_text(WRAPPER)
        program.chmod(0o755)

    def types(self, command: str) -> subprocess.Popen[bytes]:
        """Run a command line."""
        environ = {**self.root.environ, "PATH": f"{self.folder}:/no/system"}
        log = self.root.home / "shell.log"
        with log.open("ab") as out:
            return subprocess.Popen(
                ["/bin/sh", "-c", command], env=environ, stdout=out, stderr=out, start_new_session=True
            )


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "Xvfb", "chromium")
    root = make_root(tmp_path, only=("browser.cdp",))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        root.extra["FLYFLOR_BROWSER_CDP_URL"] = f"http://127.0.0.1:{found.getsockname()[1]}"
    with display() as name:
        root.extra["DISPLAY"] = name
        root.trust()
        yield root
        root.end()


def remedy(root: Root) -> str:
    """The command that flytui names for the tool."""
    found = re.search(r"start one: (.+) \(with", root.flytui("why", "browser.open", "--plain").stdout)
    assert found is not None
    return found[1]


def ended(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


def test_the_remedy_makes_the_browser_available_without_a_restart(root: Root, tmp_path: Path) -> None:
    person = Person(root, tmp_path / "programs")
    with console(root, 160, 45) as tmux:
        tmux.sees(ABSENT)
        command = remedy(root)
        assert person.types(command).wait(30) == 127  # no browser is installed
        person.install()
        browser = person.types(command)
        try:
            port = root.extra["FLYFLOR_BROWSER_CDP_URL"].rpartition(":")[2]
            until("the browser listens", lambda: _listens(int(port)))
            tmux.keys("R")
            tmux.sees(THERE)
        finally:
            ended(browser)
        tmux.sees(ABSENT)  # by the loop
        browser = person.types(command)
        try:
            tmux.sees(THERE)  # by the loop
        finally:
            ended(browser)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
