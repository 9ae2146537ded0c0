"""A process that freed a large message does not keep its memory."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from flysafe.process_memory import LARGE_BYTES

MESSAGE = 24 * 1024 * 1024
SCRIPT = f"""
import sys
if sys.argv[1] == "return":
    from flysafe.process_memory import return_large_blocks
    return_large_blocks()
for _ in range(3):  # the first block that is freed is what glibc learns from
    message = bytearray({MESSAGE})
    message[::4096] = bytes(len(range(0, len(message), 4096)))
    del message
for line in open("/proc/self/smaps_rollup"):
    if line.startswith("Anonymous:"):
        print(int(line.split()[1]) * 1024)
"""


def anonymous_bytes(mode: str) -> int:
    argv = [sys.executable, "-c", SCRIPT, mode]
    return int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not sys.platform.startswith("linux"), reason="is about glibc"
)
def test_large_blocks_go_back_to_the_system() -> None:
    assert LARGE_BYTES < MESSAGE
    kept, returned = anonymous_bytes("keep"), anonymous_bytes("return")
    assert kept - returned > MESSAGE // 2
