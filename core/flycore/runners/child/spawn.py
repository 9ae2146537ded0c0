"""Starts one child process: without a shell, in a session of its own, with three pipes and no other
descriptor."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from dataclasses import dataclass, field

from flycore.model.sidecar import Limits


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
    pass_fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SpawnFailure:
    """The reason why nothing was started, with the path, and what a person can check."""

    message: str
    hint: str

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

    popen: subprocess.Popen[bytes]
    pidfd: int
    stdin: int
    stdout: int
    stderr: int


def spawn(spec: SpawnSpec) -> Child:
    """Start the child. Raises SpawnError; then nothing runs and no descriptor is left open."""
    ends: list[int] = []  # read and write end of stdin, stdout, stderr
    try:
        # Close-on-exec from the start: a child that another thread starts at this moment gets none of them.
        for _ in range(3):
            ends += os.pipe2(os.O_CLOEXEC)
        popen, pidfd = _start(spec, ends)
    except (OSError, ValueError) as fault:
        _close(ends)
        raise SpawnError(
            _explain(spec, fault) if isinstance(fault, OSError) else _unwritable(spec)
        ) from fault
    child_in, stdin, stdout, child_out, stderr, child_err = ends
    _close([child_in, child_out, child_err])
    _limit(popen.pid, spec.limits)
    return Child(popen, pidfd, stdin, stdout, stderr)


def _start(spec: SpawnSpec, ends: list[int]) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and a descriptor that becomes readable when it exits."""
    # Without preexec_fn and without another user, Popen uses vfork: a parent of 1 GiB starts a child as
    # quickly as a small one. The session of its own is the first mark by which the tree is told from others.
    popen = subprocess.Popen(
        spec.argv,
        executable=spec.executable,
        cwd=spec.cwd,
        env=spec.env,
        stdin=ends[0],
        stdout=ends[3],
        stderr=ends[5],
        close_fds=True,
        pass_fds=spec.pass_fds,
        start_new_session=True,
    )
    try:
        # The child is not reaped yet, so its id cannot belong to another process by now.
        return popen, os.pidfd_open(popen.pid)
    except OSError:
        popen.kill()
        popen.wait()
        raise


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _limit(pid: int, limits: Limits) -> None:
    """Apply the declared limits, and only those."""
    # From outside, right after the start: a limit set in the child before exec would need preexec_fn, which
    # costs vfork. The child may already run for a moment without them.
    for kind, wanted in (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ):
        if wanted is None:
            continue
        try:
            hard = resource.prlimit(pid, kind)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.prlimit(pid, kind, (value, value))
        except ProcessLookupError:
            return  # it has already exited


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
    what, hint = _BY_ERRNO.get(fault.errno or 0, (fault.strerror or "cannot be started", "check the command"))
    return SpawnFailure(f"{program}: {what}", hint)


_BY_ERRNO = {
    errno.ENOENT: ("not found", "check that the command exists, or install what provides it"),
    errno.ENOTDIR: ("not found: a part of the path is not a folder", "check the command's path"),
    errno.EACCES: ("not executable", "make the file executable (chmod +x), and its folder searchable"),
    errno.ENOEXEC: ("not a program this system runs", "check its format, or give it a #! line"),
    errno.E2BIG: ("its arguments and environment are too long", "shorten args and env of the entry"),
    errno.EMFILE: ("this process has no descriptor left", "run fewer calls at once, or raise `ulimit -n`"),
    errno.ENFILE: ("this system has no descriptor left", "end other programs"),
    errno.EAGAIN: ("the system allows no further process", "end other programs, or raise `ulimit -u`"),
    errno.ENOMEM: ("not enough memory", "end other programs"),
}


def _program(spec: SpawnSpec) -> str:
    return spec.executable or spec.argv[0]
