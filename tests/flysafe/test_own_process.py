"""The environment block of a real process, and who may inspect that process."""

from __future__ import annotations

import os
import subprocess
import sys

from flysafe.procfs import environment_value

SCRIPT = """
import os, sys
from flysafe.own_process import erase_from_environment, forbid_inspection, is_inspectable
before = is_inspectable()
erase_from_environment(["A_TOKEN", "EMPTY", "ABSENT", "PATH"])
print(before, os.environ["A_TOKEN"], os.environ["A_TOKENS"], flush=True)
sys.stdin.readline()
forbid_inspection()
print(is_inspectable(), os.readlink("/proc/self/exe") != "", os.listdir("/proc/self/fd") != [], flush=True)
sys.stdin.readline()
"""


def test_values_are_gone_from_the_block_and_stay_for_the_process_itself() -> None:
    environ = {"A_TOKEN": "tok-0123456789", "A_TOKENS": "kept", "EMPTY": "", "PATH": os.defpath}
    argv, pipe = [sys.executable, "-c", SCRIPT], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=environ) as process:
        assert process.stdout.readline() == "True tok-0123456789 kept\n"
        shown = [environment_value(process.pid, name) for name in ("A_TOKEN", "A_TOKENS", "PATH")]
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "False True True\n"
        process.communicate("\n")
    assert shown == ["-" * 14, "kept", os.defpath]
