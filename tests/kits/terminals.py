"""Real terminals and displays: a console in tmux, an X server, and an xterm that records what is typed into
it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kits.command import COMMAND
from kits.programs import needs as needs

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Longest wait for something that takes well under six seconds, in seconds."""
BIN = Path(sys.executable).parent

RECORDER = """
import os, sys, termios, tty
tty.setraw(0)
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
while chunk := os.read(0, 4096):
    os.write(out, chunk)
"""


def until(what: str, found: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Wait until `found` returns a true value; fail with the name of what never came."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    pytest.fail(f"never came: {what}")


@dataclass
class Root:
    """An app root with folders of its own, so that no test sees another's state."""

    folder: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    forked: bool = True
    """False where a test depends on who calls, which the kernel reads from command lines in /proc."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which flytui starts."""
        runtime = self.home / "run"
        runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
        return {
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_RUNTIME_DIR": str(runtime),
            **self.extra,
        }

    def flytui(self, *args: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        argv = [str(BIN / "flytui"), "--root", str(self.folder), *args]
        # The kernel tells callers by their command lines in /proc, where a forked process has its server's.
        if not self.forked or args[:1] == ("call",):
            return subprocess.run(
                argv,
                env=self.environ,
                cwd=self.folder,
                capture_output=True,
                text=True,
                input=input or "",
                timeout=PATIENCE,
                check=False,
            )
        done = COMMAND.run(argv, self.environ, self.folder, (input or "").encode(), PATIENCE)
        return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())

    def end(self) -> None:
        """End every command that was started and still runs."""
        for process in self.started:
            process.kill()
            process.communicate(timeout=PATIENCE)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it. `end` ends it."""
        process = subprocess.Popen(
            [str(BIN / "flytui"), "--root", str(self.folder), *args],
            env=self.environ,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def trust(self) -> None:
        """Trust everything that the registry would run, as a script does."""
        shown = self.flytui("trust", "--print-digest")
        digest = re.findall(r"\b[0-9a-f]{64}\b", shown.stdout)[-1]
        accepted = self.flytui("trust", "--digest", digest)
        assert accepted.returncode == 0, accepted.stderr

    def audit(self) -> list[dict[str, Any]]:
        """Every line of the log."""
        files = sorted((self.home / "state").glob("flytui/roots/*/audit/*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def make_root(folder: Path, registry: str | None = None) -> Root:
    """A fresh root with this repository's own registry, or the given one."""
    root = folder / "project"
    (root / "tools").mkdir(parents=True)
    text = registry or (REPOSITORY / "tools" / "external.tools.jsonc").read_text()
    (root / "tools" / "external.tools.jsonc").write_text(text)
    return Root(root, folder / "home")


_servers = itertools.count(1)
"""A socket for each server: one that is just ending would take the next one's session along."""


class Tmux:
    """A tmux server of the test with one pane."""

    def __init__(self, root: Root, width: int = 120, height: int = 40) -> None:
        self.root = root
        self.socket = str(root.home / f"tmux{next(_servers)}.sock")
        self.size = (str(width), str(height))

    def run(self, *args: str) -> str:
        """One tmux command."""
        done = subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", self.socket, *args],
            env=self.root.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout

    def open(self, *command: str) -> None:
        """Start the command in the pane."""
        width, height = self.size
        self.run("new-session", "-d", "-x", width, "-y", height, "-c", str(self.root.folder), *command)

    def end(self) -> None:
        """End tmux and wait until its program has ended: a console that is still closing answers calls."""
        panes = [int(pid) for pid in self.run("list-panes", "-a", "-F", "#{pane_pid}").split()]
        self.run("kill-server")
        for pid in panes:
            until(f"the end of process {pid} in tmux", partial(_ended, pid))

    def screen(self) -> str:
        """The text in the pane."""
        return self.run("capture-pane", "-p")

    def keys(self, *keys: str) -> None:
        """Press keys, named as in tmux."""
        self.run("send-keys", *keys)

    def text(self, text: str) -> None:
        """Type text, key by key."""
        self.run("send-keys", "-l", text)

    def sees(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """Wait until the screen shows it."""
        try:
            return until(f"/{pattern}/ on the screen", lambda: re.search(pattern, self.screen()), patience)
        except BaseException:
            print(self.screen())
            raise

    def lacks(self, pattern: str) -> None:
        """Wait until the screen no longer shows it."""
        until(f"/{pattern}/ gone from the screen", lambda: not re.search(pattern, self.screen()))


def _ended(pid: int) -> bool:
    """Whether the process has ended. A zombie counts: its parent may never wait for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def console(root: Root, width: int = 120, height: int = 40) -> Iterator[Tmux]:
    """A console in tmux, which ends with the block."""
    tmux = Tmux(root, width, height)
    tmux.open(str(BIN / "flytui"), "--root", str(root.folder))
    try:
        tmux.sees("policy (ok|FAILED)")  # the frame is there before the kernel
        yield tmux
    finally:
        tmux.end()


@contextmanager
def display() -> Iterator[str]:
    """Start an X server of the test; gives its name, such as `:7`."""
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset"],
        pass_fds=(writing,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        number = os.read(reading, 16).decode().strip()
        assert number, "Xvfb did not start"
        yield f":{number}"
    finally:
        os.close(reading)
        server.terminate()
        server.wait(PATIENCE)


def xdotool(display_name: str, *args: str) -> str:
    """Run xdotool in the place of a person's hands, and return its output."""
    done = subprocess.run(
        ["xdotool", *args],
        env={"DISPLAY": display_name, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout.strip()


@contextmanager
def xterm(
    display_name: str, title: str, *command: str, environ: dict[str, str] | None = None
) -> Iterator[str]:
    """Open a terminal window that runs the command, and return its window id."""
    process = subprocess.Popen(
        ["xterm", "-T", title, "-geometry", "110x34+0+0", "-e", *command],
        env={"PATH": f"{BIN}:/usr/bin:/bin", **(environ or {}), "DISPLAY": display_name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        window = until(
            f"the window {title}",
            lambda: xdotool(display_name, "search", "--onlyvisible", "--name", f"^{re.escape(title)}$"),
        )
        yield str(window).split()[0]
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def recorder(display_name: str, title: str, into: Path) -> Iterator[str]:
    """Open an xterm with the focus that appends every byte typed into it to a file."""
    with xterm(display_name, title, sys.executable, "-c", RECORDER, str(into)) as window:
        until("the recorder is ready", into.exists)
        xdotool(display_name, "windowfocus", "--sync", window)
        yield window
