"""The program that gives up its rights and then becomes the confined program: level `degraded`.

It is started as `python -I -m flycore.sandbox.degraded_launcher FD`, where FD is a file with one JSON object:
the command, its environment and folder, the mounts, the filter of system calls, the descriptors that are open
for the mounts, and the end of a pipe on which it reports.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys

from flycore.sandbox import landlock, seccomp
from flycore.sandbox.confinement import Mount

NOT_CONFINED = 125
"""The exit code where a right could not be given up. Then the program has not run."""
_DROP_FROM_BOUNDING_SET = 24  # of prctl
_MOST_CAPABILITIES = 64
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3


def main(argv: list[str]) -> int:
    """Confine this process and become the program; returns only where that failed."""
    with open(int(argv[1]), "rb") as file:
        order = json.load(file)
    for descriptor in (order["status"], *order["opened"]):
        os.set_inheritable(descriptor, False)  # the program gets none of them
    try:
        os.chdir(order["cwd"])
        drop_capabilities()
        mounts = [Mount(path, writable) for path, writable in order["mounts"]]
        landlock.restrict_this_process(mounts, network=order["network"])
        # Last, because until here nothing is needed that it refuses, and it judges everything afterwards.
        seccomp.restrict_this_process(bytes.fromhex(order["filter"]))
        _report(order["status"], confined=True)
        os.execve(order["argv"][0], order["argv"], order["environment"])  # noqa: S606  # no shell is wanted
    except OSError as error:
        _report(order["status"], confined=False)
        sys.stderr.write(f"the program could not be confined: {error}\n")
    return NOT_CONFINED


def _report(descriptor: int, *, confined: bool) -> None:
    """Write whether this process has given up its rights. The last line counts."""
    os.write(descriptor, json.dumps({"confined": confined}).encode() + b"\n")


def drop_capabilities() -> None:
    """Give up every capability, for this process and all that it starts. Raises OSError.

    Landlock does not stand in the way of a capability: with CAP_PERFMON a process reads the environment of
    any other (`may_access_mm` in the kernel's `kernel/fork.c`, since Linux 6.14).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_MOST_CAPABILITIES):
        if libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) < 0:
            # EPERM: an ordinary user, who has none to drop. EINVAL: the kernel knows no further ones.
            if ctypes.get_errno() not in (errno.EPERM, errno.EINVAL):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    empty = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 bits each
    if libc.capset(ctypes.byref(header), ctypes.byref(empty)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
