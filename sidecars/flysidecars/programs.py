"""Finding a program, and running it with bounded time and output."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

MAX_OUTPUT_BYTES = 256 * 1024


class Ran:
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


def find_program(name: str) -> str | None:
    """Absolute path of a program in one of the absolute folders of PATH."""
    for folder in os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
        path = os.path.join(folder, name)
        if folder.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def run(argv: Sequence[str], stdin: bytes, limit_s: float, environment: Mapping[str, str]) -> Ran:
    """Run a program to its end: `stdin` (at most one pipe buffer, 64 KiB) on its stdin, at most
    `limit_s` seconds and 256 KiB of output; beyond either it is killed."""
    import subprocess
    import time

    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        deadline = time.monotonic() + limit_s
        out, stderr = _gather(process, stdin, deadline)
        too_much = len(out) + len(stderr) > MAX_OUTPUT_BYTES
        timed_out = not too_much and not _left(process, deadline)
        if too_much or timed_out:
            process.kill()
    return Ran(process.returncode, out, stderr, timed_out=timed_out, too_much=too_much)


def _left(process: subprocess.Popen[bytes], deadline: float) -> bool:
    import subprocess
    import time

    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _gather(process: subprocess.Popen[bytes], stdin: bytes, deadline: float) -> tuple[bytes, bytes]:
    import selectors
    import time

    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ValueError("the process was started without pipes")
    _offer(process.stdin.fileno(), stdin)
    process.stdin.close()
    found = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in found:
            selector.register(pipe, selectors.EVENT_READ, found[pipe])
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            if sum(map(len, found.values())) > MAX_OUTPUT_BYTES:
                break
    return bytes(found[process.stdout]), bytes(found[process.stderr])


def _offer(descriptor: int, data: bytes) -> None:
    if len(data) > 65536:
        raise ValueError("more than a pipe holds")
    try:
        os.write(descriptor, data)
    except BrokenPipeError:
        return
