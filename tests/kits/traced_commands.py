"""Runs command lines with bash under strace, and says what each of them did beyond reading.

An effect is: a file opened for writing, made, removed, renamed or changed; a program started that the line
does not name; a socket; a file opened in the folder beside the project; a line that does not end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_DRIVER = """
import json, os, pty, signal, subprocess, sys
cases, limit, key = json.load(open(sys.argv[1])), float(sys.argv[2]), sys.argv[3].encode()
master, terminal = pty.openpty()  # a standard input that never ends
found = {}
for number, (cwd, line, more) in enumerate(cases):
    child = subprocess.Popen(
        ["bash", "-c", line, f"case-{number}"], cwd=cwd, env={**os.environ, **more}, stdin=terminal,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )
    try:
        shown = child.communicate(timeout=limit)[0]
        found[number] = "shows the key" if key in shown else ""
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        found[number] = "does not end"
json.dump(found, open(sys.argv[4], "w"))
"""
LIMIT = 60
"""Seconds after which a line counts as one that does not end. Most take some milliseconds."""
_TRACED = (
    "execve,execveat,open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,"
    "mknod,mknodat,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,"
    "ftruncate,utime,utimes,utimensat,futimesat,setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,"
    "fremovexattr,socket,connect,bind,sendto,sendmsg,io_uring_setup,ptrace,mount,kill,tkill,tgkill"
)
_CALL = re.compile(r"(\d+) +(\w+)\((.*)")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
_CASE = re.compile(r'"case-(\d+)"\], ')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPENED = re.compile(r"= \d+<(/.*)>$")
_NAME_SERVICE = "/var/run/nscd/socket"
"""The C library asks here for the name of a user, before it reads /etc/passwd."""
_PROGRAMS = """\
ls cat head tail wc nl tac rev fold paste column comm cut tr sort uniq diff cmp md5sum sha1sum sha256sum
shasum
cksum od file stat du realpath readlink basename dirname pwd echo true false seq date uname whoami which grep
egrep fgrep rg find sed jq git
"""
"""The programs that may run if a line has their names: written here once more, and not taken from the table
that is tested."""
_STARTED_BY = {"egrep": "grep", "fgrep": "grep"}
"""Programs that are scripts around another one."""


class Case(NamedTuple):
    """A command line, and where it runs."""

    cwd: Path
    line: str
    variables: tuple[tuple[str, str], ...] = ()


def effects_of(cases: Sequence[Case], *, folder: Path, root: Path, key: str) -> dict[int, list[str]]:
    """Run the cases one after the other and return the effects of each that has any, by its number.

    `folder` contains the project `root` and what lies beside it, which no line may open; `home` in it is the
    home folder. No line may print the `key`.
    """
    with tempfile.TemporaryDirectory() as own:
        given, trace, ends = (Path(own) / name for name in ("cases", "trace", "ends"))
        given.write_text(json.dumps([(str(case.cwd), case.line, dict(case.variables)) for case in cases]))
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "TOKEN": key,
        }
        subprocess.run(
            [
                shutil.which("strace") or "strace", "-f", "-qq", "-y", "-s", "4096", "--seccomp-bpf",
                "-e", f"trace={_TRACED}", "-e", "signal=none", "-o", str(trace),
                sys.executable, "-c", _DRIVER, str(given), str(LIMIT), key, str(ends),
            ],
            env=environment, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found = {int(number): [end] for number, end in json.loads(ends.read_text()).items() if end}
        reader = _Trace(cases, folder, root)
        for line in trace.read_text(errors="replace").splitlines():
            reader.read(line)
    if reader.begun != len(cases):
        raise AssertionError(f"the trace has {reader.begun} of {len(cases)} lines")
    for number, effects in reader.effects.items():
        found.setdefault(number, []).extend(effects)
    return found


class _Trace:
    """Reads what strace wrote, line by line."""

    def __init__(self, cases: Sequence[Case], folder: Path, root: Path) -> None:
        self._cases, self._folder, self._root = cases, str(folder), str(root)
        self._case_of: dict[str, int] = {}
        self._unfinished: dict[str, str] = {}
        self._driver = ""
        self._case = -1
        self.begun = 0
        self.effects: dict[int, list[str]] = {}

    def read(self, line: str) -> None:
        if line.endswith("<unfinished ...>"):
            pid = line.split()[0]
            self._unfinished[pid] = line.removesuffix("<unfinished ...>")
            self._driver = self._driver or pid
            return
        if resumed := _RESUMED.match(line):
            line = self._unfinished.pop(resumed[1], f"{resumed[1]} {resumed[2]}(") + resumed[3]
        call = _CALL.match(line)
        if call is None:
            return
        pid, name, rest = call[1], call[2], call[3]
        self._driver = self._driver or pid
        if pid == self._driver:
            return
        if name == "execve" and (begins := _CASE.search(rest)) and rest.endswith(" = 0"):
            self._case = int(begins[1])
            self._case_of = {pid: self._case}  # the system uses the numbers of ended processes again
            self.begun += 1
            return
        # Before bash itself runs, the process is still the driver's copy. Its own children come afterwards,
        # and the next case begins when all of them have ended.
        if pid not in self._case_of and self._case >= 0 and not self._is_copy(name, rest):
            self._case_of[pid] = self._case
        if pid in self._case_of and (
            effect := self._effect(self._cases[self._case_of[pid]], pid, name, rest)
        ):
            self.effects.setdefault(self._case_of[pid], []).append(effect)

    @staticmethod
    def _is_copy(name: str, rest: str) -> bool:
        return name == "execve" and bool(_CASE.search(rest))

    def _effect(self, case: Case, pid: str, name: str, rest: str) -> str:
        paths = _QUOTED.findall(rest)
        path = paths[0] if paths else ""
        match name:
            case "execve" | "execveat":
                return "" if not rest.endswith(" = 0") or _is_named(case, path) else f"starts {path}"
            case "open" | "openat" | "openat2" | "creat":
                return self._open_effect(name, path, rest)
            case "socket":
                return "" if rest.startswith("AF_UNIX") else f"socket({rest}"
            case "connect":
                return "" if _NAME_SERVICE in rest else f"connect({rest}"
            case "kill" | "tkill" | "tgkill" if rest.startswith(f"{pid},"):
                return ""  # it ends itself, as git does when nobody reads its output
            case "unlink" | "rename" if all(self._is_index(one) for one in paths):
                return ""
        return f"{name}({rest}"

    def _open_effect(self, name: str, path: str, rest: str) -> str:
        writes = name == "creat" or any(flag in rest for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"))
        # bash and other programs open their terminal both ways.
        terminal = path == "/dev/tty" or path.startswith("/dev/pts/")
        if writes and path != "/dev/null" and not terminal and not self._is_index(path):
            return f"writes {rest}"
        opened = _OPENED.search(rest)
        real = opened[1] if opened else ""
        own = (self._root, os.path.join(self._folder, "home"))
        outside = real.startswith(self._folder + "/") and not any(
            real == one or real.startswith(one + "/") for one in own
        )
        return f"reads {real}" if outside else ""

    def _is_index(self, path: str) -> bool:
        """Whether it is the index of a repository of the project, in which `git status` and `git diff` keep
        the times of files, so that they need not be read again."""
        return path.startswith(self._root + "/") and path.endswith(("/.git/index.lock", "/.git/index"))


def _is_named(case: Case, program: str) -> bool:
    name = os.path.basename(program)
    words = re.split(r"[\s;|&'\"]+", case.line)
    named = {os.path.basename(word) for word in words} & set(_PROGRAMS.split())
    named |= {_STARTED_BY[one] for one in named if one in _STARTED_BY}
    # A program of this name elsewhere than among the system's would be another program.
    return name in named and os.path.dirname(program) in (
        "/usr/bin", "/bin", "/usr/local/bin", "/usr/lib/git-core", "/usr/libexec/git-core",
    )  # fmt: skip
