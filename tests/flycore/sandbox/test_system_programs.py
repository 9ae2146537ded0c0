"""Each program of the table opens nothing of its working folder, whatever lies there."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from flycore.sandbox.system_programs import known_programs, loads_nothing
from kits.tables import each_row

IN_OPEN, IN_ISDIR, IN_NONBLOCK, IN_CLOEXEC = 0x20, 0x40000000, 0o4000, 0o2000000
USES = {
    "xdotool": ("version",),
    "espeak-ng": ("--stdout", "-q", "hello"),
    "tesseract": ("--version",),
    "scrot": ("--version",),
    "cat": ("/dev/null",),
    "head": ("/dev/null",),
    "sha256sum": ("/dev/null",),
    "sleep": ("0",),
    "tail": ("/dev/null",),
    "wc": ("/dev/null",),
    "printf": ("x",),
    "date": ("+%s",),
}
"""An ordinary use of each program, which names no file of the working folder."""
FOLDERS = ("espeak-ng-data", "tessdata", "configs", "lib", "plugins", ".config", "share", "etc")


def baits(program: str) -> set[str]:
    """Names under which a program could look for code or configuration in its working folder."""
    libraries = subprocess.run(
        ["/usr/bin/ldd", program], capture_output=True, text=True, check=False
    ).stdout.split()
    name = os.path.basename(program)
    own = {f".{name}rc", f"{name}.conf", f"{name}.so", f".{name}", f"{name}.ini", f"{name}.cfg", name}
    general = {"ld.so.preload", "ld.so.conf", ".env", "config", "init", ".inputrc", "locale", "gconv-modules"}
    return own | general | {word for word in libraries if ".so" in word and "/" not in word}


@pytest.mark.parametrize("name", sorted(known_programs()))
def test_a_program_opens_nothing_of_its_working_folder(name: str, tmp_path: Path) -> None:
    program = shutil.which(name, path="/usr/bin:/bin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    for bait in baits(program):
        (tmp_path / bait).write_text("#!/bin/sh\n")
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
    assert watch >= 0
    try:
        for folder in (tmp_path, *(tmp_path / each for each in FOLDERS)):
            assert libc.inotify_add_watch(watch, os.fsencode(folder), IN_OPEN) >= 0
        environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
        command = [program, *USES.get(name, ())]
        subprocess.run(command, cwd=tmp_path, env=environ, input=b"{}", capture_output=True, check=False)
        assert opened(watch) == []
        # The control: the watch does see what a program opens there.
        subprocess.run(["/bin/cat", baits(program).pop()], cwd=tmp_path, capture_output=True, check=True)
        assert opened(watch)
    finally:
        os.close(watch)


def opened(watch: int) -> list[str]:
    """The names that were opened since the last look."""
    try:
        data = os.read(watch, 1 << 20)
    except BlockingIOError:
        return []
    names, at = [], 0
    while at < len(data):
        _, mask, _, size = struct.unpack_from("iIII", data, at)
        names.append(f"{data[at + 16 : at + 16 + size].rstrip(bytes(1)).decode()} {mask:x}")
        at += 16 + size
    return names


@pytest.mark.parametrize("name", sorted(known_programs()))
def test_its_package_owns_the_program(name: str) -> None:
    program = shutil.which(name, path="/usr/bin:/bin")
    if program is None or not os.path.isdir("/var/lib/dpkg/info"):
        pytest.skip(f"{name} is not installed by a package of Debian")
    assert loads_nothing(os.path.realpath(program))


@each_row("name", ["sh", "find", "git", "env", "python3", "awk"])
def test_other_programs_are_not_known(name: str) -> None:
    assert not loads_nothing(f"/usr/bin/{name}")


def test_a_program_of_that_name_elsewhere_is_not_known(tmp_path: Path) -> None:
    other = tmp_path / "cat"
    other.write_text("#!/bin/sh\n")
    assert not loads_nothing(str(other))
