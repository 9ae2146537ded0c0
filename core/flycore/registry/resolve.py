"""Resolves the command of an entry to an executable file, and says why there is none.

For a script, the interpreter in its `#!` line must exist as well.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from functools import lru_cache
from pathlib import Path

import msgspec

from flycore.model.diagnostics import nearest
from flycore.model.enums import Anchor, PathState, ReasonCode, Source
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.registry.resolve_python import is_function, resolve_function
from flycore.registry.source_text import key_position
from flycore.registry.stat_cache import FileStat, recall, recall_head, remember, remember_head, stat_file
from flysafe.beneath import OutsideAnchor, open_anchor, open_beneath, real_path_of
from flysafe.spare_descriptors import NONE_LEFT

_NO_DESCRIPTOR = "run fewer calls at once, or raise the limit of descriptors (`ulimit -n`)"
"""The remedy if the program is there, but this process has no descriptor left to look at it."""
MAX_LINE = 256
"""Bytes the operating system reads of a `#!` line."""


class Interpreter(msgspec.Struct, frozen=True):
    """The interpreter of a script. `argv` is empty where `missing` names the program that does not exist."""

    argv: tuple[str, ...] = ()
    missing: str = ""


def read_interpreter(head: bytes, path: str) -> Interpreter | None:
    """Return the interpreter of a file that begins with `head`; None for a file without a `#!` line.

    `path` is the search path for a name after `/usr/bin/env`.
    """
    if not head.startswith(b"#!"):
        return None
    line = head[2 : MAX_LINE - 1].split(b"\n", 1)[0].strip(b" \t")
    if line.endswith(b"\r"):
        return Interpreter(
            missing=f"{_printable_line(line[:-1])} with a carriage return (save the file with \\n)"
        )
    name, _, argument = line.partition(b" ") if b"\t" not in line else line.partition(b"\t")
    command, argument_text = os.fsdecode(name), os.fsdecode(argument.strip(b" \t"))
    if not command:
        return Interpreter(missing="an interpreter (the #! line names none)")
    if os.path.basename(command) == "env" and argument_text:
        return _resolve_env(argument_text, path)
    if not os.path.isabs(command) or not _is_executable(command):
        return Interpreter(missing=command)
    return Interpreter(argv=(command, argument_text) if argument_text else (command,))


def _resolve_env(argument: str, path: str) -> Interpreter:
    """Return the interpreter of `env NAME` or `env -S NAME ARG…`. Lines that set variables are refused."""
    words = [argument]
    if argument.startswith(("-S", "--split-string=")):
        try:
            words = shlex.split(argument.removeprefix("--split-string=").removeprefix("-S"))
        except ValueError:
            return Interpreter(missing=f"env {argument}")
    if not words or words[0].startswith("-") or "=" in words[0]:
        return Interpreter(missing=f"env {argument} (only env NAME and env -S NAME ARG are followed)")
    found = words[0] if os.path.isabs(words[0]) else find_on_path(words[0], path)
    if found is None or not _is_executable(found):
        return Interpreter(missing=words[0])
    return Interpreter(argv=(found, *words[1:]))


def find_on_path(name: str, path: str) -> str | None:
    """Return the first executable of that name in the absolute folders of `path`."""
    if "/" in name or name in ("", ".", ".."):
        return None
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if os.path.isabs(folder) and _is_executable(candidate):
            return candidate
    return None


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _printable_line(name: bytes) -> str:
    return name.decode("utf-8", "replace")


_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:[\\/]|\\\\")
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_PACKAGES = {
    "bash": "bash",
    "node": "nodejs",
    "perl": "perl",
    "python": "python-is-python3",
    "python3": "python3",
    "ruby": "ruby",
    "tesseract": "tesseract-ocr",
    "xdotool": "xdotool",
}
"""Debian packages of some common programs."""


def anchor_folder(anchor: Anchor, registry: Registry) -> Path:
    """Return the folder where relative commands start, and the working directory of a child that has one of
    these."""
    if anchor is Anchor.CONFIG:
        return _folder(os.path.join(registry.config_dir, "tools"))
    if anchor is Anchor.DATA:
        return _folder(registry.data_dir)
    return _folder(registry.workspace if anchor is Anchor.WORKSPACE else registry.app_root)


def command_folder(entry: SidecarEntry, registry: Registry) -> Path:
    """Return the folder where the entry's relative commands start."""
    return _folder(entry.folder) if entry.folder else anchor_folder(entry.command_anchor, registry)


@lru_cache(maxsize=64)
def _folder(path: str) -> Path:
    return Path(path)


def resolve_program(
    command: str,
    args: tuple[str, ...],
    *,
    entry: SidecarEntry,
    registry: Registry,
    interpreter_dir: Path,
    path_env: str,
) -> ResolvedProgram:
    """Find the executable file of `command`, which is the command of the entry or of a delegate.

    A relative command is opened below the descriptor of its anchor, so that neither `..` nor a link leads
    outside. A bare name is searched in the folder of the running interpreter, then on PATH. Everything else
    is refused. Raises nothing.
    """
    # `argv` begins with the real path of a relative command, but with the path as it was found of a bare
    # name: programs such as busybox, and the python of a virtual environment, depend on that.
    if (function := is_function(entry, command)) is not None:
        folder = command_folder(entry, registry)
        return resolve_function(entry, function, folder, path_env, interpreter_dir)
    asked = _ProgramLookup(command, args, entry, registry)
    if _ABSOLUTE.match(command):
        return asked.unreadable("an absolute command never runs", _declare_fix(entry))
    if "/" in command or "\\" in command:
        return _resolve_relative(asked, path_env)
    return _resolve_bare_name(asked, interpreter_dir, path_env)


def at_url(entry: SidecarEntry) -> ResolvedProgram:
    """Return the resolved program of an MCP server on HTTP, which has no file on this machine."""
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="url",
        base=entry.cwd,
        declared=entry.url,
        portable=True,
        root_safe=True,
    )


class _ProgramLookup(msgspec.Struct, frozen=True):
    """The command to resolve, with methods that build the outcomes."""

    command: str
    args: tuple[str, ...]
    entry: SidecarEntry
    registry: Registry

    @property
    def mode(self) -> str:
        """`relative` or `path`."""
        return "relative" if "/" in self.command or "\\" in self.command else "path"

    def unreadable(self, message: str, remedy: str) -> ResolvedProgram:
        """Return the outcome for a command that leads outside its anchor."""
        return self._outcome(
            PathState.OUTSIDE_ROOT_DENIED,
            ReasonCode.OUTSIDE_ROOT_DENIED,
            f"{self.command}: {message}",
            remedy,
        )

    def unresolved(
        self, reason: ReasonCode, message: str, remedy: str, *, wanted: str = "", shut: str = ""
    ) -> ResolvedProgram:
        """Return the outcome for a command without an executable file."""
        found = self._outcome(PathState.UNRESOLVED, reason, f"{self.command}: {message}", remedy)
        return msgspec.structs.replace(found, wanted=wanted, shut=shut)

    def _outcome(self, state: PathState, reason: ReasonCode, message: str, remedy: str) -> ResolvedProgram:
        return ResolvedProgram(
            state=state,
            mode=self.mode,
            base=self.entry.command_anchor,
            declared=self.command,
            reason=reason,
            message=message,
            remedy=remedy,
        )

    def resolved(self, called: str, real: str, head: bytes, path_env: str) -> ResolvedProgram:
        """Return the outcome for a file. `called` is the path to call it by, `real` that with its links
        followed, `head` the first bytes of the file."""
        search = os.pathsep.join((os.path.dirname(called), path_env))
        interpreter = read_interpreter(head, search)
        if interpreter is not None and interpreter.missing:
            name = interpreter.missing
            message = f"its #! line names {name}, which does not exist here"
            remedy = f"{_install_fix(name)}, or correct the first line of {self.command}"
            return self.unresolved(
                ReasonCode.INTERPRETER_MISSING, message, remedy, wanted=os.path.basename(name)
            )
        line = interpreter.argv if interpreter is not None else ()
        return ResolvedProgram(
            state=PathState.RESOLVED,
            mode=self.mode,
            base=self.entry.command_anchor,
            declared=self.command,
            path=real,
            argv=(called, *self.args),
            interpreter=os.path.realpath(line[0]) if line else "",
            interpreter_argv=line,
            portable=self.mode == "path" or self.entry.command_anchor is not Anchor.WORKSPACE,
            root_safe=True,
        )


def _resolve_relative(asked: _ProgramLookup, path_env: str) -> ResolvedProgram:
    command = asked.command
    if not command.startswith(("./", "../")):
        instead = f"./{command}".replace("\\", "/")
        message = "is neither a bare name nor a path that starts with ./"
        return asked.unresolved(ReasonCode.COMMAND_NOT_FOUND, message, f'write "{instead}"')
    folder = command_folder(asked.entry, asked.registry)
    try:
        anchor = open_anchor(folder)
    except OSError as error:
        message = f"its anchor, the {asked.entry.command_anchor} folder, cannot be opened: {error.strerror}"
        remedy = _NO_DESCRIPTOR if error.errno in NONE_LEFT else "create the folder, or set cwd"
        return asked.unresolved(ReasonCode.COMMAND_NOT_FOUND, message, remedy)
    try:
        return _beneath(asked, anchor, path_env)
    except OutsideAnchor:
        message = f"leads out of the {asked.entry.command_anchor} folder"
        return asked.unreadable(message, _declare_fix(asked.entry))
    except OSError as error:
        return _missing(asked, anchor, error)
    finally:
        os.close(anchor)


def _beneath(asked: _ProgramLookup, anchor: int, path_env: str) -> ResolvedProgram:
    """Check the file through descriptors. Raises OSError where it cannot be opened."""
    file = _open_inside(anchor, asked.command, _PATH_ONLY)
    try:
        status = os.fstat(file)
        real = real_path_of(file)
    finally:
        os.close(file)
    look = stat_file(status, real, asked.command, asked.args, asked.entry.command_anchor)
    return recall(look) or _inspect(asked, anchor, path_env, look, status)


def _inspect(
    asked: _ProgramLookup, anchor: int, path_env: str, look: FileStat, status: os.stat_result
) -> ResolvedProgram:
    real = look.real
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a file"
        return asked.unresolved(ReasonCode.NOT_EXECUTABLE, f"is {what}", "name the program itself")
    if not os.access(real, os.X_OK):
        remedy = f"run chmod +x {asked.command}"
        return asked.unresolved(ReasonCode.NOT_EXECUTABLE, "is not executable", remedy, shut=real)
    head = recall_head(look)
    if head is None:
        try:
            reader = _open_inside(anchor, asked.command, os.O_RDONLY | os.O_NONBLOCK)
        except PermissionError:
            return asked.resolved(real, real, b"", path_env)
        with os.fdopen(reader, "rb") as opened:
            head = opened.read(MAX_LINE)
        remember_head(look, head)
    program = asked.resolved(real, real, head, path_env)
    remember(look, program)
    return program


def _open_inside(anchor: int, relative: str, flags: int) -> int:
    """Open a file below the anchor."""
    # A link may lead outside and back inside, for example by an absolute path. Then the real path, which is
    # below the anchor, is opened, without following links a second time.
    try:
        return open_beneath(anchor, relative, flags, links=True)
    except OutsideAnchor:
        root = real_path_of(anchor)
        real = os.path.realpath(os.path.join(root, relative))
        if ".." in relative.split("/") or not real.startswith(root.rstrip("/") + "/"):
            raise
        return open_beneath(anchor, os.path.relpath(real, root), flags)


def _missing(asked: _ProgramLookup, anchor: int, error: OSError) -> ResolvedProgram:
    if error.errno in (errno.EACCES, errno.EPERM):
        remedy = "run chmod on the folders that contain it"
        return asked.unresolved(ReasonCode.NOT_EXECUTABLE, "you may not open it", remedy)
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        message = f"cannot be opened: {error.strerror}"
        remedy = _NO_DESCRIPTOR if error.errno in NONE_LEFT else "name a program file"
        return asked.unresolved(ReasonCode.COMMAND_NOT_FOUND, message, remedy)
    near = _nearest_files(anchor, asked.command)
    package = f", or install the package {asked.entry.package_id}" if asked.entry.package_id else ""
    remedy = f"put the program there, or correct {_entry_place(asked.entry)}{package}"
    if near:
        remedy = f"did you mean {near[0]}? Correct {_entry_place(asked.entry)}"
    return asked.unresolved(
        ReasonCode.COMMAND_NOT_FOUND,
        f"there is no such file in the {asked.entry.command_anchor} folder",
        remedy,
    )


def _nearest_files(anchor: int, command: str) -> list[str]:
    """Return files in the same folder with a name similar to the missing one."""
    folder, _, name = command.rpartition("/")
    try:
        descriptor = open_beneath(anchor, folder, os.O_RDONLY | os.O_DIRECTORY, links=True)
    except OSError:
        return []
    try:
        names = [found for found in os.listdir(descriptor) if found != name][:2_000]
    finally:
        os.close(descriptor)
    return [f"{folder}/{near}" for near in nearest(name, names, count=1)]


def _resolve_bare_name(asked: _ProgramLookup, interpreter_dir: Path, path_env: str) -> ResolvedProgram:
    command = asked.command
    search = os.pathsep.join((str(interpreter_dir), path_env))
    found = find_on_path(command, search)
    if found is not None:
        return asked.resolved(found, os.path.realpath(found), _head(found), path_env)
    for folder in search.split(os.pathsep):
        candidate = os.path.join(folder, command)
        if os.path.isabs(folder) and command not in ("", ".", "..") and os.path.isfile(candidate):
            remedy = f"run chmod +x {candidate}"
            message = f"{candidate} is not executable"
            return asked.unresolved(ReasonCode.NOT_EXECUTABLE, message, remedy)
    if " " in command:
        remedy = f'write "command": "{command.split()[0]}" and put the rest into args'
        return asked.unresolved(ReasonCode.COMMAND_NOT_FOUND, "no program has such a name", remedy)
    remedy = f"{_install_fix(command)}, or name a program below the anchor with ./"
    return asked.unresolved(ReasonCode.COMMAND_NOT_FOUND, "not found on PATH", remedy, wanted=command)


def _head(path: str) -> bytes:
    """Return the first bytes of a file; empty where this user may run it but not read it."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_LINE)
    except OSError:
        return b""


def _install_fix(name: str) -> str:
    base = os.path.basename(name.split(" ")[0])
    package = _PACKAGES.get(base)
    return f"install {base} (Debian: apt install {package})" if package else f"install {base}"


def _entry_place(entry: SidecarEntry) -> str:
    """Return the file and line that a person has to edit."""
    if entry.source is Source.EXECUTABLE:  # the file is the program itself, and no line of it is to blame
        return entry.position.file
    place = key_position(entry, "command")
    return f"{place.file}:{place.line}"


def _declare_fix(entry: SidecarEntry) -> str:
    return (
        f"write in {_entry_place(entry)} a path below the {entry.command_anchor} folder that starts with ./, "
        "or a bare name that is on PATH"
    )
