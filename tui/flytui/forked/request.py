"""What a stub and the process that works for it tell each other. Standard library only, and of that the parts
which are imported fast."""

from __future__ import annotations

import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

READY = b"ready"
"""The forker's first message: it is there, and nothing was asked of it yet."""
BEGUN = b"begun"
"""The message of the process that begins to work, which comes with a descriptor of that process."""
REFUSED = b"refused"
"""The message of a process that cannot be like the stub. Nothing was done."""
CONNECT = b"connect "
"""Begins the message that asks the stub for a connection; the path of the socket follows. The stub answers
with its descriptor, or with the number of the error."""
LEAVING = b"leaving "
"""Begins the last message of the process, with its wait status: all that it does is done."""
ENDED = b"ended "
"""Begins the forker's last message, with the wait status: the process has ended."""
MAX_MESSAGE_BYTES = 8_192
STANDARD = (0, 1, 2)
MAX_DESCRIPTORS = 64
"""Descriptors that are handed over, with the standard streams."""
IGNORABLE = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
"""Signals that a program may have been started to ignore, as by `nohup`."""
LIMITS = tuple(getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_"))


def encoded_request(argv: Sequence[str], numbers: Sequence[int]) -> bytes:
    """Return the facts of this process, which `command_process.Request` reads. `numbers` are the numbers that
    the descriptors have here."""
    umask = os.umask(0o077)
    os.umask(umask)
    facts = {
        "pid": os.getpid(),
        "argv": list(argv),
        "environ": dict(os.environ),
        "numbers": list(numbers),
        "umask": umask,
        "nice": os.nice(0),
        "ignored": [int(number) for number in IGNORABLE if signal.getsignal(number) == signal.SIG_IGN],
        "limits": [resource.getrlimit(limit) for limit in LIMITS],
        "encodings": encodings(),
    }
    return ascii(facts).encode("ascii")


def encodings() -> list[str]:
    """Return the encodings of names and of the standard streams of this interpreter."""
    streams = (getattr(sys, name) for name in ("stdin", "stdout", "stderr"))
    return [sys.getfilesystemencoding(), *(stream.encoding for stream in streams)]


def inherited_descriptors() -> list[int]:
    """Return the descriptors beside the standard streams that a program started here would get."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if number not in STANDARD and os.get_inheritable(number):
                found.append(number)
        except OSError:
            continue  # that of the listing itself
    return found


def packed(descriptors: Sequence[int]) -> bytes:
    """Return the descriptors as a control message carries them."""
    return b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)


def unpacked(data: bytes) -> list[int]:
    """Return the descriptors of a control message."""
    whole = len(data) - len(data) % 4
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, whole, 4)]
