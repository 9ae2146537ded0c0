"""Starts one child process: without a shell, in a session of its own, with three pipes and no other
descriptor."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from flycore.model.sidecar import DEFAULT_MEMORY_BYTES, Limits
from flycore.runners.child.launcher import ChildProcess, launch
from flysafe.own_process import descriptor_limit_before

OOM_SCORE_RAISE = 500
"""How much more a child's `oom_score_adj` is than that of this process."""
MAX_OOM_SCORE = 1000
"""From proc_pid_oom_score_adj(5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnSpec:
    """The program to start, with its arguments, folder and limits. `env` is the child's whole environment."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = field(repr=False)
    call_id: str
    executable: str | None = None
    """The file to run, where it is not `argv[0]`."""
    limits: Limits = field(default_factory=Limits)
    sidecar: str = ""
    """The id of the entry that the program belongs to; empty for a program of flytui's own."""
    check: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Is called right after the start, and returns a file that is not what was approved any more; then the
    child is ended."""


@dataclass(frozen=True, slots=True)
class SpawnFailure:
    """The reason why nothing was started, with the path, and what a person can check."""

    message: str
    hint: str
    fault: str = ""
    """`no-descriptors` where the machine failed, not the program."""

    def __str__(self) -> str:
        return self.message


class SpawnError(Exception):
    """The child could not be started; `failure` says why."""

    def __init__(self, failure: SpawnFailure) -> None:
        self.failure = failure
        super().__init__(failure.message)


@dataclass(frozen=True, slots=True)
class Child:
    """A running child and our ends of its pipes. Its owner closes the descriptors and reaps the child."""

    process: ChildProcess
    pidfd: int
    stdin: int
    stdout: int
    stderr: int


def spawn(spec: SpawnSpec) -> Child:
    """Start the child. Raises SpawnError; then nothing runs any more and no descriptor is left open."""
    ends: list[int] = []  # read and write end of stdin, stdout, stderr
    try:
        # Close-on-exec from the start: a child that another thread starts at this moment gets none of them.
        for _ in range(3):
            ends += os.pipe2(os.O_CLOEXEC)
        process, pidfd = _start(spec, ends)
    except (OSError, ValueError) as fault:
        _close(ends)
        raise SpawnError(
            _explain(spec, fault) if isinstance(fault, OSError) else _unwritable(spec)
        ) from fault
    # After the start: whatever the child can have read by then is what was there during this look or before.
    changed = spec.check() if spec.check is not None else ""
    if changed:
        _end(process, pidfd)
        _close(ends)
        raise SpawnError(_swapped(changed))
    child_in, stdin, stdout, child_out, stderr, child_err = ends
    _close([child_in, child_out, child_err])
    _limit(process.pid, spec.limits)
    _offer_memory(process.pid)
    return Child(process, pidfd, stdin, stdout, stderr)


def _start(spec: SpawnSpec, ends: list[int]) -> tuple[ChildProcess, int]:
    """The process, and a descriptor that becomes readable when it exits."""
    child = launch(
        spec.argv,
        executable=spec.executable,
        cwd=spec.cwd,
        env=spec.env,
        stdin=ends[0],
        stdout=ends[3],
        stderr=ends[5],
    )
    try:
        # The child is not reaped yet, so its id cannot belong to another process by now.
        return child, os.pidfd_open(child.pid)
    except OSError:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        raise


def _end(process: ChildProcess, pidfd: int) -> None:
    """End the child and everything in its session's first group, and reap it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    os.close(pidfd)


def _swapped(changed: str) -> SpawnFailure:
    return SpawnFailure(
        f"{changed} changed while the program was started; it was ended at once, and may have acted",
        "find out what changes the file, then call again; what a tool writes stands in permissions.fs.write",
    )


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _limit(pid: int, limits: Limits) -> None:
    """Apply the declared limits. Those that every program has are `DEFAULT_MEMORY_BYTES` of memory, and the
    limit of descriptors that this process was started with."""
    # From outside, right after the start. The child may already run for a moment without them.
    # The default counts what a program writes to, not its address space, of which some runtimes reserve many
    # gigabytes.
    undeclared = DEFAULT_MEMORY_BYTES if limits.memory_bytes is None else None
    for kind, wanted in (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_DATA, undeclared),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files or descriptor_limit_before()),
    ):
        if wanted is None:
            continue
        try:
            hard = resource.prlimit(pid, kind)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.prlimit(pid, kind, (value, value))
        except ProcessLookupError:
            return  # it has already exited


def _offer_memory(pid: int) -> None:
    """Let the system, where memory runs out, end the child and what it starts rather than this process."""
    # The child inherits this process's own value, and raising it needs no privilege. A system without the
    # file, or a child that has exited, needs nothing.
    with suppress(OSError):
        own = int(Path("/proc/self/oom_score_adj").read_bytes())
        with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as score:
            score.write(b"%d" % min(own + OOM_SCORE_RAISE, MAX_OOM_SCORE))


def _unwritable(spec: SpawnSpec) -> SpawnFailure:
    return SpawnFailure(
        f"{_program(spec)!r} cannot be started: an argument or variable holds a NUL character or is not text",
        "check command, args and env of the entry",
    )


def _explain(spec: SpawnSpec, fault: OSError) -> SpawnFailure:
    program = _program(spec)
    if not os.path.isdir(spec.cwd):
        return SpawnFailure(f"the working directory {spec.cwd} is not a folder", "check cwd of the entry")
    # execve has the same error for a missing program and for a program whose interpreter is missing.
    if fault.errno == errno.ENOENT and os.path.exists(program):
        return SpawnFailure(
            f"{program} names an interpreter that does not exist",
            "check the first line of the file: the program after #! must be installed",
        )
    if fault.errno in (errno.EMFILE, errno.ENFILE):
        return SpawnFailure(*_BY_ERRNO[fault.errno], fault="no-descriptors")
    what, hint = _BY_ERRNO.get(fault.errno or 0, (fault.strerror or "cannot be started", "check the command"))
    return SpawnFailure(f"{program}: {what}", hint)


_BY_ERRNO = {
    errno.ENOENT: ("not found", "check that the command exists, or install what provides it"),
    errno.ENOTDIR: ("not found: a part of the path is not a folder", "check the command's path"),
    errno.EACCES: ("not executable", "make the file executable (chmod +x), and its folder searchable"),
    errno.ENOEXEC: ("not a program this system runs", "check its format, or give it a #! line"),
    errno.E2BIG: ("its arguments and environment are too long", "shorten args and env of the entry"),
    errno.EMFILE: (
        "flytui has no descriptor left, so that it can start no program",
        "run fewer calls at once, or raise the limit of descriptors (`ulimit -n`) and start flytui again",
    ),
    errno.ENFILE: ("this system has no descriptor left", "end programs that have many files open"),
    errno.EAGAIN: ("the system allows no further process", "end other programs, or raise `ulimit -u`"),
    errno.ENOMEM: ("not enough memory", "end other programs"),
}


def _program(spec: SpawnSpec) -> str:
    return spec.executable or spec.argv[0]
