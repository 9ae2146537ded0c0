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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyjson5

from flysafe.procfs import process_table
from kits.command import COMMAND
from kits.programs import needs as needs
from kits.waits import PATIENCE, pauses
from kits.waits import until as until

REPOSITORY = Path(__file__).resolve().parents[2]
READY = "keys ready ●"
BIN = Path(sys.executable).parent

RECORDER = """
import os, sys, termios, tty
tty.setraw(0)
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
while chunk := os.read(0, 4096):
    os.write(out, chunk)
"""


@dataclass
class Root:
    """An app root with folders of its own, so that no test sees another's state."""

    folder: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    forked: bool = True
    """False where a test depends on a command's own process id, parent or command line in /proc."""

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

    @property
    def forks(self) -> bool:
        """Whether commands are forked."""
        return self.forked and COMMAND.fits(self.environ)

    def argv(self, *args: str) -> list[str]:
        """The command line of `flytui ARGS` on this root."""
        return [str(BIN / "flytui"), "--root", str(self.folder), *args]

    def flytui(self, *args: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        argv = self.argv(*args)
        if not self.forks:
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
        argv = self.argv(*args)
        process = subprocess.Popen(
            COMMAND.launcher(*argv) if self.forks else argv,
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


def make_root(folder: Path, registry: str | None = None, only: Sequence[str] = ()) -> Root:
    """A fresh root with the given registry, or this repository's own: with its entries in `only`, because a
    process looks at each entry when a kernel opens, or with all of them."""
    root = folder / "project"
    (root / "tools").mkdir(parents=True)
    text = registry or (REPOSITORY / "tools" / "external.tools.jsonc").read_text()
    if only:
        shipped = pyjson5.decode(text)
        sidecars = {name: shipped["sidecars"][name] for name in only}
        text = json.dumps({**shipped, "sidecars": sidecars}, indent=1)
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
        """Start the command in the pane, forked if it is `flytui`."""
        if self.root.forks and command[0] == str(BIN / "flytui"):
            command = tuple(COMMAND.launcher(*command))
        width, height = self.size
        self.run("new-session", "-d", "-x", width, "-y", height, "-c", str(self.root.folder), *command)

    @property
    def pid(self) -> int:
        """The process of the command in the pane: the leader of the terminal's session."""
        terminal = os.stat(self.run("display-message", "-p", "#{pane_tty}").strip()).st_rdev
        return int(until("the program", lambda: _leader(terminal)))

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

    def decide(self, key: str = "a") -> None:
        """Press a key that decides, once the card's keys are ready, until it has counted.

        The console drops a key that came while it stood still, which a busy machine makes it do. Its card is
        armed anew then, and the key is pressed again. What became of a request stays on screen for longer
        than is waited here."""

        def counted() -> bool:
            if READY in self.screen():
                self.keys(key)
            elif "sending the answer" in self.screen():
                return False
            end = time.monotonic() + 1.0
            for pause in pauses():
                if not re.search(r"keys (not )?ready|sending the answer", self.screen()):
                    return True
                if time.monotonic() >= end:
                    break
                time.sleep(pause)
            return False

        self.sees(READY)
        until(f"{key} has decided", counted)

    def read_card(self) -> None:
        """Page through the card as a person does, until its keys are ready."""

        def ready() -> bool:
            if not re.search(r"keys (not )?ready", self.screen()):
                for key in ("Home", "NPage", "NPage", "NPage", "End"):
                    self.keys(key)
                    time.sleep(0.2)
            return READY in self.screen()

        until("the card is read", ready)

    def lacks(self, pattern: str) -> None:
        """Wait until the screen no longer shows it."""
        until(f"/{pattern}/ gone from the screen", lambda: not re.search(pattern, self.screen()))


def _leader(terminal: int) -> int:
    """The process that leads the session of the terminal; 0 while there is none."""
    found = (one for one in process_table().values() if one.pid == one.session)
    return next((one.pid for one in found if one.terminal == terminal and not one.ended), 0)


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
        tmux.sees(r"policy (ok|FAILED)|\d+ waiting")  # the frame is there before the kernel
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
    display_name: str,
    title: str,
    *command: str,
    environ: dict[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[str]:
    """Open a terminal window that runs the command, and return its window id."""
    process = subprocess.Popen(
        ["xterm", "-T", title, "-geometry", "110x34+0+0", *options, "-e", *command],
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
