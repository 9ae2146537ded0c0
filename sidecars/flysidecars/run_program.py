"""Finds programs on PATH and runs them with a limit on time and on output."""

from __future__ import annotations

import os
import time

from flysidecars.sdk import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    import selectors
    import subprocess
    from collections.abc import Callable, Mapping, Sequence


MAX_OUTPUT_BYTES = 256 * 1024
_CHUNK = 65536
_CANCEL_CHECK_S = 0.1
"""Seconds between two calls of `check_cancelled` while a program runs."""


class ProgramResult:
    """The result of one run: exit code, stdout and stderr.

    `code` is negative for a signal. `timed_out` and `too_much` (more output than allowed) mean that `run`
    ended the program.
    """

    __slots__ = ("code", "out", "stderr", "timed_out", "too_much")

    def __init__(self, code: int, out: bytes, stderr: bytes, *, timed_out: bool, too_much: bool) -> None:
        self.code = code
        self.out = out
        self.stderr = stderr
        self.timed_out = timed_out
        self.too_much = too_much

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.code == 0 and not self.timed_out and not self.too_much

    def stderr_text(self) -> str:
        """The last 400 bytes of stderr as text."""
        return self.stderr[-400:].decode("utf-8", "replace").strip()


def find_program(name: str) -> str | None:
    """The absolute path of a program, or None.

    Relative folders of PATH are skipped: they would find programs of the folder that the project names.
    """
    for folder in os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
        path = os.path.join(folder, name)
        if folder.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def environment(*names: str) -> dict[str, str]:
    """The environment for a child process: the common variables and those in `names`."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "FLYTUI_TOOL_MODE", "FLYTUI_CALL_ID", *names)
    return {name: os.environ[name] for name in kept if name in os.environ}


def run(
    argv: Sequence[str],
    stdin: bytes | int,
    limit_s: float,
    environment: Mapping[str, str],
    *,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    check_cancelled: Callable[[], None] | None = None,
    inherited_fds: tuple[int, ...] = (),
) -> ProgramResult:
    """Run a program to its end in a process group of its own, and kill the group afterwards.

    `stdin` is bytes to write, or the descriptor of a file. The program inherits `inherited_fds`. It is
    killed after `limit_s` seconds, after `max_output_bytes` of stdout and stderr, or when `check_cancelled`,
    which is called every 0.1 s, raises. Raises `OSError` if it cannot be started.
    """
    import subprocess

    child_stdin = stdin if isinstance(stdin, int) else subprocess.PIPE
    with subprocess.Popen(
        argv,
        stdin=child_stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        process_group=0,
        pass_fds=inherited_fds,
        bufsize=0,
    ) as process:
        deadline = time.monotonic() + limit_s
        try:
            out, stderr = _gather(
                process, b"" if isinstance(stdin, int) else stdin, deadline, max_output_bytes, check_cancelled
            )
            too_much = len(out) + len(stderr) > max_output_bytes
            timed_out = not too_much and not _wait_for_exit(process, deadline, check_cancelled)
        finally:
            _kill_group(process)
    return ProgramResult(process.returncode, out, stderr, timed_out=timed_out, too_much=too_much)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    import signal
    from contextlib import suppress

    # The leader has not been reaped yet (`_has_exited` uses WNOWAIT), so its pid cannot be another group's.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has exited. It is not reaped."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _wait_for_exit(
    process: subprocess.Popen[bytes], deadline: float, check_cancelled: Callable[[], None] | None
) -> bool:
    while not _has_exited(process):
        if check_cancelled is not None:
            check_cancelled()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _gather(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    deadline: float,
    max_output_bytes: int,
    check_cancelled: Callable[[], None] | None,
) -> tuple[bytes, bytes]:
    """Write `stdin` and read stdout and stderr, until both end, the program exits, more than
    `max_output_bytes` were read, or the deadline has passed."""
    import selectors

    if process.stdout is None or process.stderr is None:
        raise ValueError("the process was started without pipes")
    out, stderr = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, stderr)
        open_pipes = 2
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, memoryview(stdin))
        while (
            open_pipes
            and len(out) + len(stderr) <= max_output_bytes
            and (left := deadline - time.monotonic()) > 0
        ):
            ready = selector.select(min(left, _CANCEL_CHECK_S))
            for key, _ in ready:
                if isinstance(key.data, memoryview):
                    _write_stdin(selector, key)
                elif chunk := os.read(key.fd, _CHUNK):
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fileobj)
                    open_pipes -= 1
            if check_cancelled is not None:
                check_cancelled()
            # A grandchild may hold the pipes open after the program has exited: do not wait for it.
            if not ready and _has_exited(process):
                break
    return bytes(out), bytes(stderr)


def _write_stdin(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Write as much as the pipe takes. Close it when all is written or the program has closed its end."""
    from selectors import EVENT_WRITE
    from typing import IO, cast

    left = key.data
    try:
        left = left[os.write(key.fd, left[:_CHUNK]) :] if left else left
    except BrokenPipeError:
        left = memoryview(b"")
    if left:
        selector.modify(key.fileobj, EVENT_WRITE, left)
    else:
        selector.unregister(key.fileobj)
        cast("IO[bytes]", key.fileobj).close()


HEARTBEAT_S = 2.0
"""Seconds between two progress events of `heartbeat`."""


def heartbeat(call: Call, words: str) -> Callable[[], None]:
    """A function to call repeatedly while another program works, such as `check_cancelled` of `run`.

    It reports every 2 s as progress how many seconds have passed, with `words` as the message, and raises
    `Cancelled` if the call was cancelled.
    """
    began = last_report = time.monotonic()

    def beat() -> None:
        nonlocal last_report
        call.raise_if_cancelled()
        now = time.monotonic()
        if now - last_report >= HEARTBEAT_S:
            last_report = now
            call.progress(int(now - began), message=words)

    return beat
