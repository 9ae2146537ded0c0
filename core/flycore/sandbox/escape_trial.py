"""Runs the escape probes at a level on this machine and returns what was open."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from flycore.model.enums import Level
from flycore.sandbox import escape_probes, landlock
from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import Launch, degraded_launch, enforced_launch
from flycore.sandbox.runtime_roots import python_roots
from flycore.sandbox.trial_process import run_trial

REPORTED = {
    "run-written-file": "what a program has written and runs has no more rights than the program",
    "run-from-memory": "code that a program runs from memory has no more rights than the program",
}
"""What no level promises to prevent."""
NEEDED = ("needed-socketpair", "needed-read", "needed-write")
"""What has to be open at every level, because ordinary programs need it."""
WITH_NETWORK = ("tcp-host-loopback", "udp-host-loopback")
"""What is open on purpose for a tool that has network."""
GAPS = {
    Level.DEGRADED: {
        "process-cmdline": "Landlock does not hide the names and command lines of other processes",
        "shared-memory": "Landlock has no rule for System V shared memory",
        "stat-outside": "Landlock does not hide sizes and times of files that cannot be read",
        "chmod-read-only": "Landlock has no rule for a file's mode, so its owner can change it",
        "utime-read-only": "Landlock has no rule for a file's times, so its owner can change them",
        "chmod-outside": "Landlock has no rule for a file's mode, so its owner can change it",
        "utime-outside": "Landlock has no rule for a file's times, so its owner can change them",
        "write-protected": "Landlock cannot take back a right for a part of a folder that may be written",
    },
    Level.ENFORCED: {},
}
"""What each level leaves open, with the reason. A probe that is open and not named here is a fault."""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
_TIMEOUT_S = 120.0
_PRIVATE, _CREATE_AND_OWN = 0, 0o1600


class ProbeResult(msgspec.Struct, frozen=True):
    """One probe: `state` is `open`, `shut` or `missing`; `detail` is the error that shut it."""

    name: str
    state: str
    detail: str


_BEFORE_SCOPES = dict.fromkeys(
    ("process-signal-0", "process-signal-stop"),
    "Landlock before version 6 (Linux 6.12) does not keep a program from signalling others",
)


def gaps_of(level: Level, landlock_version: int) -> dict[str, str]:
    """Return what the level leaves open on a kernel with that version of Landlock, with the reasons."""
    older = level is Level.DEGRADED and landlock_version < landlock.WITH_SCOPES
    return {**GAPS.get(level, {}), **(_BEFORE_SCOPES if older else {})}


def newly_open(level: Level, results: tuple[ProbeResult, ...], *, network: bool) -> tuple[str, ...]:
    """Return the probes that are open and should not be, and those that are shut and are needed."""
    if level not in GAPS:
        return ()
    expected = {*NEEDED, *REPORTED, *gaps_of(level, landlock.version()), *(WITH_NETWORK if network else ())}
    states = {result.name: result.state for result in results}
    wrongly_open = [name for name, state in states.items() if state == "open" and name not in expected]
    wrongly_shut = [name for name in NEEDED if states.get(name) != "open"]
    return (*wrongly_open, *wrongly_shut)


class TrialFailed(Exception):
    """The probes did not run at this level; the text says why."""


Start = Callable[[Launch, bytes], subprocess.CompletedProcess[bytes]]
"""Runs the program of a launch to its end with that input, and closes the launch."""


def start_alone(launch: Launch, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """Start it as a process of its own, which belongs to no call."""
    return run_trial(launch, _TIMEOUT_S, stdin)


def try_escapes(
    level: Level, *, network: bool, python: str = sys.executable, start: Start = start_alone
) -> tuple[ProbeResult, ...]:
    """Run every probe at that level. `start` runs the program that tries them.

    Raises TrialFailed where the program could not be confined or ended without an answer.
    """
    with _prepared() as places:
        return _run(level, places, network=network, python=python, start=start)


class _Places(msgspec.Struct, frozen=True):
    """What the probes try to reach: the folders by name, and everything else as they are told it."""

    folder: Path
    told: dict[str, object]


@contextlib.contextmanager
def _prepared() -> Iterator[_Places]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flytui-escape-")))
        _make_files(folder)
        told: dict[str, object] = {name: str(folder / name) for name in ("read", "write", "outside")}
        told |= _open_servers(stack, folder)
        told["pid"] = stack.enter_context(_victim())
        told["kernel_variable"] = _own_variable()
        told["shm_key"] = stack.enter_context(_shared_memory())
        yield _Places(folder, told)


def _make_files(folder: Path) -> None:
    for name in ("read", "write", "outside", "program", "write/protected"):
        (folder / name).mkdir()
    # A copy, because the installation may lie where the program's user cannot read.
    shutil.copyfile(escape_probes.__file__, folder / "program" / "probes.py")
    for name in ("read/file", "write/file", "outside/file", "outside/linked", "outside/renamed"):
        (folder / name).write_text("x")
    (folder / "write/protected/policy.jsonc").write_text("{}")
    for name in ("read", "write"):
        (folder / name / "link").symlink_to(folder / "outside" / "file")


def _open_servers(stack: contextlib.ExitStack, folder: Path) -> dict[str, object]:
    """Servers that send back what they get, at every kind of address."""
    unix = socket.AF_UNIX
    paths = {
        "socket_outside": str(folder / "outside" / "socket"),
        "socket_inside": str(folder / "write" / "socket"),
        "d_bus": str(folder / "outside" / "bus"),
        "x11": str(folder / "outside" / "X0"),
    }
    for path in paths.values():
        _serve(stack, unix, socket.SOCK_STREAM, path)
    abstract = f"flytui-escape-{os.getpid()}-{folder.name}"
    _serve(stack, unix, socket.SOCK_STREAM, "\0" + abstract)
    _serve(stack, unix, socket.SOCK_STREAM, "\0" + paths["x11"])
    ports = {
        name: _serve(stack, socket.AF_INET, kind, ("127.0.0.1", 0))
        for name, kind in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM))
    }
    return {**paths, "socket_abstract": abstract, **{name: at[1] for name, at in ports.items()}}


def _serve(stack: contextlib.ExitStack, family: int, kind: int, address: object) -> tuple[str, int]:
    server = stack.enter_context(socket.socket(family, kind))
    server.bind(address)  # type: ignore[arg-type]  # an address of any family
    if kind == socket.SOCK_STREAM:
        server.listen()
    thread = threading.Thread(target=_echo, args=(server, kind), daemon=True)
    thread.start()
    name = server.getsockname()

    def stop() -> None:
        # Closing alone does not wake the thread that waits in accept; shutting down does.
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        if kind == socket.SOCK_DGRAM:
            with socket.socket(family, kind) as last:
                last.sendto(b"", name)
        thread.join(escape_probes.TIMEOUT_S)

    stack.callback(stop)
    return name if isinstance(name, tuple) else ("", 0)


def _echo(server: socket.socket, kind: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            if kind == socket.SOCK_DGRAM:
                data, sender = server.recvfrom(64)
                if not data:
                    return
                server.sendto(data, sender)
                continue
            opened, _ = server.accept()
            with opened:
                opened.settimeout(escape_probes.TIMEOUT_S)
                with contextlib.suppress(OSError):
                    opened.send(opened.recv(64))


def _own_variable() -> str:
    """The name of a variable that this process was started with and no probe is given; empty where there is
    none."""
    try:
        started_with = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return ""  # a process that has changed its user cannot read it
    names = (os.fsdecode(line.partition(b"=")[0]) for line in started_with if line)
    return next((name for name in names if name not in (*_ENVIRONMENT, "PWD")), "")


@contextlib.contextmanager
def _victim() -> Iterator[int]:
    """A process outside, with the marker in its environment and on its command line."""
    marker = "flytui-escape-marker"
    victim = subprocess.Popen(
        [marker, "600"], executable="/bin/sleep", env={"MARK": marker}, stdin=subprocess.DEVNULL
    )
    try:
        yield victim.pid
    finally:
        victim.kill()
        victim.wait()


@contextlib.contextmanager
def _shared_memory() -> Iterator[int]:
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x666C0000 | os.getpid() & 0xFFFF
    segment = libc.shmget(key, ctypes.c_size_t(4096), _CREATE_AND_OWN)
    try:
        yield key
    finally:
        if segment >= 0:
            libc.shmctl(segment, _PRIVATE, None)


def _run(
    level: Level, places: _Places, *, network: bool, python: str, start: Start
) -> tuple[ProbeResult, ...]:
    program = str(places.folder / "program" / "probes.py")
    argv = (python, "-I", program)
    launch = _launch(level, argv, program, places.folder, network=network, python=python)
    ran = start(launch, json.dumps(places.told).encode())
    try:
        answers = json.loads(ran.stdout)
    except ValueError:  # it ended before it could answer
        last = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it printed nothing"]
        raise TrialFailed(f"exit {ran.returncode}: {last[0]}") from None
    return tuple(ProbeResult(name, *answer) for name, answer in answers.items())


def _launch(
    level: Level, argv: tuple[str, ...], program: str, folder: Path, *, network: bool, python: str
) -> Launch:
    if level is Level.NONE:
        return Launch(argv=argv, environment=_ENVIRONMENT, descriptors=(), cwd=str(folder / "write"))
    confinement = Confinement(
        mounts=(
            *(Mount(root) for root in python_roots(python)),
            Mount(program),
            Mount(str(folder / "read")),
            Mount(str(folder / "write"), writable=True),
            Mount(str(folder / "write" / "protected")),
        ),
        cwd=str(folder / "write"),
        network=network,
    )
    make = enforced_launch if level is Level.ENFORCED else degraded_launch
    return make(confinement, read_system_layout(), _ENVIRONMENT, argv)
