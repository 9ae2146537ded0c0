"""The real command `flytui` as a process, on an app root with folders of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kits.command import COMMAND
from kits.fork_server import ForkedProcess
from kits.kernels import PROGRAM, end_kernels
from kits.waits import until as until

LONGEST = 60.0
"""Seconds after which a command has hung."""
LOOK_AGAIN = 0.05
ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|.)")

ECHO_TOOL = {
    "name": "try.echo",
    "description": "Answers what it was sent.",
    "inputSchema": {
        "type": "object",
        "properties": {"message": {"type": "string"}, "delayMs": {"type": "integer"}},
        "required": ["message"],
        "additionalProperties": True,
    },
    "approvalClass": "read",
    "risk": "low",
    "readOnly": True,
}
REGISTRY: dict[str, Any] = {
    "schemaVersion": 2,
    "sidecars": {
        "try.local": {"command": "flytui-sidecar", "args": ["mock.echo"], "tools": [ECHO_TOOL]},
        "utility.local": {
            "command": "flytui-sidecar",
            "args": ["utility.local"],
            "permissions": {"fs": {"read": ["."]}},
            "tools": ["file.hash"],
        },
        "web.search": {
            "command": "flytui-sidecar",
            "tools": ["web.search"],
            "enabled": False,
            "disabledReason": "not today",
        },
        "media.local": {"command": "./bin/nowhere", "tools": ["vision.ocr"]},
    },
}
ALLOW_ECHO = {
    "schemaVersion": 1,
    "rules": [{"tool": "try.echo", "decision": "allow", "because": "it only echoes"}],
}


@dataclass(frozen=True)
class Desk:
    """An app root with folders of its own, in which `flytui` runs as a process."""

    root: Path
    home: Path
    forked: bool = True
    """False where a test looks at the process itself: its environment or its command line in /proc."""

    @property
    def environ(self) -> dict[str, str]:
        """The environment that leads only to this root's own folders."""
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
        }

    def argv(self, *words: str) -> list[str]:
        """The command line of `flytui WORDS` on this root."""
        return [sys.executable, "-m", "flytui", "--root", str(self.root), *words]

    def run(self, *words: str, given: bytes | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end without a terminal."""
        env = {**self.environ, **more}
        if self.forked and COMMAND.fits(env):
            done = COMMAND.run(self.argv(*words)[2:], env, self.root, given or b"", LONGEST)
        else:
            done = subprocess.run(
                self.argv(*words),
                env=env,
                cwd=self.root,
                input=given or b"",
                capture_output=True,
                timeout=LONGEST,
                check=False,
            )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        )

    def document(self, *words: str) -> dict[str, Any]:
        """The document that a command prints with `--json`: one line of ASCII and nothing else on stdout."""
        done = self.run(*words, "--json")
        assert done.stdout.isascii()
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    def write(self, registry: object) -> None:
        """Write the project's registry."""
        folder = self.root / "tools"
        folder.mkdir(exist_ok=True)
        (folder / "external.tools.jsonc").write_text(
            registry if isinstance(registry, str) else json.dumps(registry), encoding="utf-8"
        )

    def allow(self, policy: object = ALLOW_ECHO) -> None:
        """Write the user's policy. A kernel on demand ends: a looser rule counts from its next start."""
        self.end_kernel()
        folder = self.home / "config" / "flytui"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "policy.jsonc").write_text(json.dumps(policy), encoding="utf-8")

    def trust(self) -> None:
        """Trust every entry, as a script does."""
        waiting = self.document("trust", "--print-digest")
        done = self.run("trust", "--digest", waiting["digest"])
        assert done.returncode == 0, done.stderr

    def start(self, *words: str) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start a command without a terminal and do not wait for it."""
        if self.forked:
            stdin = os.open(os.devnull, os.O_RDONLY)
            return COMMAND.start(self.argv(*words)[2:], self.environ, self.root, stdin)
        return subprocess.Popen(
            self.argv(*words),
            env=self.environ,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def owner(self) -> str:
        """Who owns the root: `console`, `serve`, `on demand`; empty if no kernel answers."""
        kernel = self.document("status")["kernel"]
        if kernel is None:
            return ""
        if kernel["onDemand"]:
            return "on demand"
        return "serve" if kernel["role"] == "headless" else str(kernel["role"])

    @contextmanager
    def serving(self, *words: str) -> Iterator[subprocess.Popen[bytes] | ForkedProcess]:
        """Run `flytui serve` on the root during the block."""
        process = self.start("serve", *words)
        try:
            until("it serves", lambda: self.owner() == "serve")
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LONGEST)

    def end_kernel(self) -> None:
        """End the kernel on demand, if one runs."""
        end_kernels(self.home)

    def survivors(self) -> list[str]:
        """The command lines of processes that still run with this root's environment, without that of a
        kernel on demand, which stays for the next command."""
        mark = os.fsencode(f"HOME={self.home}")
        return [line for line in _command_lines(mark) if line and os.fsdecode(PROGRAM) not in line]

    @contextmanager
    def terminal(self, *words: str) -> Iterator[Terminal]:
        """Run a command on a terminal of 100 columns and 30 rows. It is killed at the end of the block."""
        outer, inner = pty.openpty()
        os.set_blocking(outer, False)
        termios.tcsetwinsize(inner, (30, 100))
        process: subprocess.Popen[bytes] | ForkedProcess
        if self.forked:
            process = COMMAND.start_on_terminal(self.argv(*words)[2:], self.environ, self.root, inner)
        else:
            process = subprocess.Popen(
                self.argv(*words),
                env=self.environ,
                cwd=self.root,
                stdin=inner,
                stdout=inner,
                stderr=inner,
                start_new_session=True,
            )
            os.close(inner)
        shown = Terminal(process, outer)
        try:
            yield shown
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(LONGEST)
            os.close(outer)


class Terminal:
    """The outer end of a pseudo-terminal on which a command runs."""

    def __init__(self, process: subprocess.Popen[bytes] | ForkedProcess, outer: int) -> None:
        self.process = process
        self.raw = ""
        self._outer = outer
        self._latest = ("", "")

    @property
    def shown(self) -> str:
        """The output without escape sequences; cells stay in the order in which they were drawn."""
        if self._latest[0] is not self.raw:
            self._latest = (self.raw, ESCAPES.sub("", self.raw))
        return self._latest[1]

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._outer, keys.encode("utf-8"))

    def read(self, seconds: float) -> bool:
        """Read output for at most that time; False once the command has ended."""
        ready, _, _ = select.select([self._outer], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._outer, 65_536)
        except OSError:
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def until(self, text: str) -> None:
        """Read until the output contains the text."""
        end = time.monotonic() + LONGEST
        while text not in self.shown:
            assert time.monotonic() < end, f"never shown: {text!r} in {self.shown[-2000:]!r}"
            assert self.read(LOOK_AGAIN) or text in self.shown, (
                f"left without {text!r}: {self.shown[-2000:]!r}"
            )

    def until_so(self, what: str, found: Callable[[], bool]) -> None:
        """Read until a condition holds. A program stops when nobody reads its terminal."""
        end = time.monotonic() + LONGEST
        while not found():
            assert time.monotonic() < end, f"never came: {what}"
            self.read(LOOK_AGAIN)

    def decide(self, key: str, counted: Callable[[], bool]) -> None:
        """Press a key that decides, each time that the card's keys are ready, until it has counted. The
        console drops a key that came while it stood still, and its card is armed anew then."""
        end = time.monotonic() + LONGEST
        at = 0
        while not counted():
            assert time.monotonic() < end, f"{key} never counted: {self.shown[-2000:]!r}"
            if "keys ready" in ESCAPES.sub("", self.raw[at:]):
                at = len(self.raw)
                self.press(key)
            self.read(LOOK_AGAIN)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + LONGEST
        while self.read(LOOK_AGAIN):
            assert time.monotonic() < end, f"still there: {self.shown[-2000:]!r}"
        return self.process.wait(LONGEST)


def _command_lines(mark: bytes) -> Iterator[str]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
