"""Finding a program, and running it with bounded time and output."""

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
_GLANCE_S = 0.1
"""How often `heed` is asked while a program runs, seconds."""


class ProgramResult:
    """How a program ended. `code` is negative for a signal; `timed_out` and `too_much` mean that it
    was ended from here."""

    __slots__ = ("code", "out", "stderr", "timed_out", "too_much")

    def __init__(self, code: int, out: bytes, stderr: bytes, *, timed_out: bool, too_much: bool) -> None:
        self.code = code
        self.out = out
        self.stderr = stderr
        self.timed_out = timed_out
        self.too_much = too_much

    @property
    def ok(self) -> bool:
        """Whether it left by itself with 0."""
        return self.code == 0 and not self.timed_out and not self.too_much

    def stderr_text(self) -> str:
        """The end of its stderr, as text."""
        return self.stderr[-400:].decode("utf-8", "replace").strip()


def find_program(name: str) -> str | None:
    """Absolute path of a program in one of the absolute folders of PATH."""
    for folder in os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
        path = os.path.join(folder, name)
        if folder.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def environment(*names: str) -> dict[str, str]:
    """What a child is given of the environment: what every program may know, and `names`."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "FLYTUI_TOOL_MODE", "FLYTUI_CALL_ID", *names)
    return {name: os.environ[name] for name in kept if name in os.environ}


def run(
    argv: Sequence[str],
    stdin: bytes | int,
    limit_s: float,
    environment: Mapping[str, str],
    *,
    most: int = MAX_OUTPUT_BYTES,
    heed: Callable[[], None] | None = None,
    keep: tuple[int, ...] = (),
) -> ProgramResult:
    """Run a program to its end, in a process group of its own: `stdin` (bytes, or the descriptor of a file)
    on its stdin, at most `limit_s` seconds and `most` bytes of output. Beyond either, and when `heed`, asked
    every 0.1 s, raises, the group is killed; so is what is left of it at the end. `keep` are descriptors that
    it inherits. Raises `OSError` where it cannot be started."""
    import subprocess
    import time

    given = stdin if isinstance(stdin, int) else subprocess.PIPE
    with subprocess.Popen(
        argv,
        stdin=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        process_group=0,
        pass_fds=keep,
        bufsize=0,
    ) as process:
        deadline = time.monotonic() + limit_s
        try:
            out, stderr = _gather(process, b"" if isinstance(stdin, int) else stdin, deadline, most, heed)
            too_much = len(out) + len(stderr) > most
            timed_out = not too_much and not _wait_for_exit(process, deadline, heed)
        finally:
            _kill_group(process)
    return ProgramResult(process.returncode, out, stderr, timed_out=timed_out, too_much=too_much)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the group. Its leader is not reaped before, so the number is nobody else's."""
    import signal
    from contextlib import suppress

    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has left, seen without reaping it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _wait_for_exit(
    process: subprocess.Popen[bytes], deadline: float, heed: Callable[[], None] | None
) -> bool:
    import time

    while not _has_exited(process):
        if heed is not None:
            heed()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _gather(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    deadline: float,
    most: int,
    heed: Callable[[], None] | None,
) -> tuple[bytes, bytes]:
    """stdout and stderr up to their end, or the program's, or a little more than `most`, or the deadline,
    while `stdin` is fed."""
    import selectors
    import time

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
        while open_pipes and len(out) + len(stderr) <= most and (left := deadline - time.monotonic()) > 0:
            ready = selector.select(min(left, _GLANCE_S))
            for key, _ in ready:
                if isinstance(key.data, memoryview):
                    _write_stdin(selector, key)
                elif chunk := os.read(key.fd, _CHUNK):
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fileobj)
                    open_pipes -= 1
            if heed is not None:
                heed()
            if not ready and _has_exited(process):
                break
    return bytes(out), bytes(stderr)


def _write_stdin(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Write what the pipe takes; close it at the end, or where nobody reads."""
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


# Progress while another program works.


EVERY_S = 2.0


def heartbeat(call: Call, words: str) -> Callable[[], None]:
    """What to ask while waiting: it says every 2 s for how many seconds the work goes on, and raises
    `Cancelled` where nobody waits for it any more."""
    began = told = time.monotonic()

    def beat() -> None:
        nonlocal told
        call.raise_if_cancelled()
        now = time.monotonic()
        if now - told >= EVERY_S:
            told = now
            call.progress(int(now - began), message=words)

    return beat
