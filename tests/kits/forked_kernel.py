"""Kernels on demand that are forked: a command of the fork server that needs one gets it from the server.

The server imports this module; commands that an interpreter of their own runs start kernels as users' do.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from flycore.approval.callers import KERNEL_PROGRAM
from flycore.client import kernel_start
from flycore.client.kernel_start import START_SECONDS, StartOrder, StartReport, kernel_environment
from kits.fork_server import sibling

ARGUMENTS = ("python", "-I", "-m", KERNEL_PROGRAM)
"""The command line that the process shows, by which others know a kernel on demand."""


def start(order: StartOrder) -> StartReport:
    """Fork the program of the kernel, hand it the order, and return its report. This blocks."""
    stdin, given_to = os.pipe()
    kernel = sibling(f"{KERNEL_PROGRAM}:main")
    process = kernel.start(
        ARGUMENTS, kernel_environment(os.environ), Path("/"), stdin, new_session=True, shown=True
    )
    written, _ = process.communicate(START_SECONDS, given_to, msgspec.msgpack.encode(order))
    return msgspec.json.decode(written, type=StartReport)


kernel_start._start = start
