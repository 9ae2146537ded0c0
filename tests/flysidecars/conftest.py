"""Sidecars as real processes, and a real X server to let them loose on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kits.fork_server import ForkServer
from kits.programs import needs
from kits.waits import pauses

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / folder) for folder in ("sidecars", "core"))
START = "import sys; from flysidecars.main import main; sys.exit(main())"
SIDECARS = ForkServer("flysidecars.main:main", ("flysidecars.*",))
PATIENCE_S = 30.0
LONGEST_S = 100.0
"""Seconds after which a sidecar has hung."""

RECORDER = """
import os, sys, tty
tty.setraw(0)
os.write(1, sys.argv[2].encode().decode("unicode_escape").encode())
with open(sys.argv[1], "wb", 0) as file:
    while data := os.read(0, 4096):
        file.write(data)
"""
"""Writes what its terminal receives into a file; the second argument is sent to the terminal first."""


def until(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of `condition`; fails after a deadline that is far from any real wait."""
    deadline = time.monotonic() + PATIENCE_S
    for pause in pauses(0.005, 0.1):
        if value := condition():
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {what}")
        time.sleep(pause)
    raise AssertionError("pauses have no end")


@dataclass
class Answered:
    """What a sidecar process did with a request."""

    code: int
    out: bytes
    stderr: str
    events: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)


def read_answer(code: int, out: bytes, stderr: bytes) -> Answered:
    answered = Answered(code, out, stderr.decode())
    for line in out.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if "ok" in document:
            answered.answer = document
        else:
            answered.events.append(document)
    return answered


def sidecar_environment(**more: str) -> dict[str, str]:
    """About what the kernel hands to a child."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {"PATH": path, "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": SOURCES, **more}


@dataclass
class Starter:
    """Starts `flytui-sidecar` from the source tree."""

    project: Path
    artifacts: Path
    sources: str = SOURCES
    """Where the packages are, as PYTHONPATH has it."""

    @property
    def env(self) -> dict[str, str]:
        return sidecar_environment()

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", START, *arguments]

    def request(self, tool: str, input: dict[str, Any], **more: Any) -> bytes:
        document = {
            "tool": tool,
            "input": input,
            "config": {},
            "delegates": {},
            "projectDir": str(self.project),
            "artifactDir": str(self.artifacts),
            "requestId": "01J0",
            "protocol": "process-json/1",
            **more,
        }
        return json.dumps(document).encode() + b"\n"

    def read(self, out: bytes) -> Answered:
        """What a process that was started otherwise has answered."""
        return read_answer(0, out, b"")

    def run(self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Answered:
        """Run a sidecar to its end, forked unless other packages are to be found; `argv` is for tests of a
        process itself."""
        env = env or sidecar_environment()
        done: subprocess.CompletedProcess[bytes]
        if env.get("PYTHONPATH") == SOURCES:
            argv = ["flytui-sidecar", *arguments]
            done = SIDECARS.run(argv, env, self.project, stdin, LONGEST_S)
        else:
            argv = self.argv(*arguments)
            done = subprocess.run(
                argv, input=stdin, capture_output=True, env=env, cwd=self.project, check=False
            )
        return read_answer(done.returncode, done.stdout, done.stderr)

    def call(
        self, name: str, tool: str, input: dict[str, Any], env: dict[str, str] | None = None, **more: Any
    ) -> Answered:
        return self.run(name, stdin=self.request(tool, input, **more), env=env)


@pytest.fixture
def starter(tmp_path: Path) -> Starter:
    project = tmp_path / "project"
    artifacts = tmp_path / "artifacts"
    project.mkdir()
    artifacts.mkdir()
    return Starter(project, artifacts)


class Stays:
    """A sidecar that stays, and the lines that go to and fro. `more` goes into each request."""

    def __init__(self, starter: Starter, name: str, more: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            starter.argv(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=starter.env
        )
        self.more = more
        self.count = 0

    def send(self, document: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def ask(self, tool: str, input: dict[str, Any]) -> str:
        self.count += 1
        name = f"r{self.count}"
        asked = {"tool": tool, "input": input, "requestId": name, "persistent": True}
        self.send({**asked, **self.more})
        return name

    def answer(self, tool: str, input: dict[str, Any]) -> dict[str, Any]:
        """Ask and hear the answer; events before it are passed over."""
        name = self.ask(tool, input)
        while "event" in (heard := self.hear()):
            continue
        assert heard.pop("requestId") == name
        return heard

    def leave(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def stay(starter: Starter) -> Iterator[Callable[..., Stays]]:
    """Start a sidecar that stays."""
    made: list[Stays] = []

    def start(name: str, **more: Any) -> Stays:
        made.append(Stays(starter, name, more))
        return made[-1]

    yield start
    for one in made:
        one.end()


@dataclass
class Recorder:
    """An xterm whose program writes down what it receives."""

    title: str
    file: Path
    window: int
    process: subprocess.Popen[bytes]

    @property
    def received(self) -> str:
        return self.file.read_bytes().decode("utf-8", "replace")


@dataclass
class Desktop:
    """A private X server, with or without a window manager."""

    display: str
    managed: bool
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    terminals: list[subprocess.Popen[bytes]] = field(default_factory=list)
    count: int = 0

    @property
    def env(self) -> dict[str, str]:
        return sidecar_environment(DISPLAY=self.display)

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                argv, env=self.env | {"LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def xdotool(self, *arguments: str) -> str:
        done = subprocess.run(
            ("xdotool", *arguments), env=self.env, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    def recorder(self, title: str, place: str, greeting: str = "") -> Recorder:
        self.count += 1
        file = self.folder / f"{self.count}.received"
        script = self.folder / "recorder.py"
        script.write_text(RECORDER)
        command = (sys.executable, str(script), str(file), greeting)
        process = self.start("xterm", "-u8", "-T", title, "-geometry", f"40x10{place}", "-e", *command)
        self.terminals.append(process)
        until(file.exists, "the program in xterm")
        numbers = until(
            lambda: self.xdotool(
                "search", "--all", "--onlyvisible", "--pid", str(process.pid), "--class", "xterm"
            ),
            "the window of xterm",
        )
        return Recorder(title, file, int(numbers.split()[0]), process)

    def focus(self, recorder: Recorder) -> None:
        self.xdotool("windowactivate" if self.managed else "windowfocus", str(recorder.window))
        until(lambda: self.xdotool("getwindowfocus") == str(recorder.window), "the focus")

    def clear(self) -> None:
        """Close all terminals."""
        while self.terminals:
            process = self.terminals.pop()
            process.kill()
            process.wait()
        until(lambda: not self.xdotool("search", "--onlyvisible", "--class", "xterm"), "an empty screen")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def _start_server(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    reader, writer = os.pipe()
    with (folder / "xvfb.log").open("wb") as log:
        process = subprocess.Popen(
            ("Xvfb", "-displayfd", str(writer), "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset"),
            pass_fds=(writer,),
            stdout=log,
            stderr=log,
        )
    os.close(writer)
    with os.fdopen(reader) as answer:
        number = answer.readline().strip()
    if not number:
        process.kill()
        process.wait()
        pytest.fail("Xvfb did not start")
    return process, f":{number}"


def open_desktop(folder: Path, *, managed: bool) -> Iterator[Desktop]:
    needs("Xvfb", "xdotool", "xterm", "xprop", *(["openbox"] if managed else []))
    server, display = _start_server(folder)
    desktop = Desktop(display, managed, folder, [server])
    try:
        if managed:
            desktop.processes.append(desktop.start("openbox", "--sm-disable"))
            until(lambda: _has_manager(desktop), "the window manager")
        yield desktop
    finally:
        desktop.stop()


def _has_manager(desktop: Desktop) -> bool:
    done = subprocess.run(
        ("xprop", "-root", "_NET_SUPPORTED"), env=desktop.env, capture_output=True, text=True, check=False
    )
    return "_NET_ACTIVE_WINDOW" in done.stdout


@pytest.fixture(scope="session")
def bare_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    yield from open_desktop(tmp_path_factory.mktemp("bare"), managed=False)


@pytest.fixture(scope="session")
def managed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    yield from open_desktop(tmp_path_factory.mktemp("openbox"), managed=True)


@pytest.fixture(params=["bare", "openbox"])
def desktop(request: pytest.FixtureRequest) -> Iterator[Desktop]:
    """An empty screen, without and with a window manager."""
    name = "bare_server" if request.param == "bare" else "managed_server"
    found: Desktop = request.getfixturevalue(name)
    yield found
    found.clear()


@pytest.fixture
def bare_desktop(bare_server: Desktop) -> Iterator[Desktop]:
    """An empty screen without a window manager."""
    yield bare_server
    bare_server.clear()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], Any], str], Any]:
    return until


@pytest.fixture
def require_programs() -> Callable[..., None]:
    return needs
