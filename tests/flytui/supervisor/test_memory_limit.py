"""The console's memory has a limit, within which its threads start, and which its programs do not inherit."""

from __future__ import annotations

import subprocess
import sys

LIMITED = """
import mmap, resource, subprocess, sys, threading
from flytui.supervisor.memory_limit import MEMORY_LIMIT, limit_memory, without_memory_limit
limit_memory()
assert resource.getrlimit(resource.RLIMIT_AS)[0] == MEMORY_LIMIT
held, parts = [], []
go = threading.Event()
def work():
    held.append(bytearray(1 << 20))
    go.wait()
threads = [threading.Thread(target=work) for _ in range(40)]
for thread in threads:
    thread.start()
go.set()
for thread in threads:
    thread.join()
assert len(held) == 40
try:
    parts = bytearray(MEMORY_LIMIT)
except MemoryError:
    print("limited")
ask = [sys.executable, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0])"]
with without_memory_limit():
    free = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
assert int(free) == resource.getrlimit(resource.RLIMIT_AS)[1]
assert resource.getrlimit(resource.RLIMIT_AS)[0] == MEMORY_LIMIT
print("done")
"""


def test_the_limit_holds_for_the_console_and_for_nothing_that_it_starts() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["limited", "done"], done.stderr
