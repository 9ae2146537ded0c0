"""What decides, besides the program's own file, what a command runs: files and folders that its arguments
name, the folder of its script, variables of its loader, and files of its working folder."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from flycore.model.enums import Level
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram, SealedPart
from flycore.registry.loader_environment import loader_of
from flycore.sandbox.digests import PACKAGES, ChangedWhileReadError, file_digest, lies_beneath
from flycore.sandbox.distribution import Distribution
from flycore.sandbox.folders import TooLargeError, folder_digest, is_written
from flycore.sandbox.observed_files import is_unchanging, note_content, real_path

MOST_CANDIDATES = 2_000
"""How many names an argument may hold; a longer one is not looked through."""
LONGEST_NAME = 4_096
_SEPARATORS = re.compile(r"[\s=,:;|&<>()\[\]{}'\"`$!]+")
_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".pm", ".sh", ".lua", ".tcl", ".php", ".R")
"""What interpreters add to the name of a module."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_DATA = frozenset(
    (
        *(".cfg", ".conf", ".csv", ".db", ".gif", ".gz", ".html", ".ini", ".jpeg", ".jpg", ".json", ".jsonc"),
        *(".log", ".md", ".pdf", ".png", ".rst", ".sqlite", ".svg", ".toml", ".tsv", ".txt", ".wav", ".xml"),
        *(".yaml", ".yml", ".zip"),
    )
)
"""Endings of files beside which a program is not expected to look for further code."""
SHOWN = 3


class StartConditions(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is started, as far as that decides what it runs. All paths are absolute and real."""

    in_place: bool = False
    """Whether the entry forbids copies."""
    distribution: Distribution | None = None
    packages: str = ""
    """The folder that packages are installed in."""
    anchors: tuple[str, ...] = ()
    """The app root, the workspace, and the folder of the user's registry."""
    cwd: str = ""
    """The working folder; an empty text stands for one that is empty and outside all anchors."""
    env: tuple[tuple[str, str], ...] = ()
    """The variables that the entry sets."""
    level: Level = Level.NONE
    """The sandbox level of its calls."""
    granted: tuple[str, ...] = ()
    """What the tool declares to read, but for what its input names."""
    written: tuple[str, ...] = ()
    """What the tool declares to write."""
    home: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that a seal depends on, to find it again."""
        return (
            self.in_place,
            id(self.distribution),
            self.packages,
            self.anchors,
            self.cwd,
            self.env,
            self.level,
            self.granted,
            self.written,
            self.home,
        )

    def is_anchor(self, path: str) -> bool:
        """Whether the path is an anchor itself, or lies above one."""
        return any((anchor + "/").startswith(path.rstrip("/") + "/") for anchor in (*self.anchors, self.cwd))

    def below_anchor(self, path: str) -> bool:
        """Whether the path lies at or below an anchor."""
        return any(path == anchor or lies_beneath(path, anchor) for anchor in self.anchors)


class FoundParts(msgspec.Struct):
    """The parts of a seal as they are found, and why it is not complete."""

    parts: dict[tuple[str, str], SealedPart] = msgspec.field(default_factory=dict)
    partial: dict[str, None] = msgspec.field(default_factory=dict)
    reach: dict[str, None] = msgspec.field(default_factory=dict)
    """Why it is not complete because of what the program can read as it is confined. No part of the digest:
    an approval is bound to level and permissions as well, and a sandbox that was installed changes no
    program."""
    leasable: bool = True

    def add(self, path: str, why: str, content: str) -> None:
        """Add one part."""
        self.parts[path, why] = SealedPart(path=path, why=why, digest=content)

    def say(self, reason: str, *, leasable: bool = True) -> None:
        """Add a reason why the seal is partial."""
        self.partial[reason] = None
        self.leasable = self.leasable and leasable

    def digest(self) -> str:
        """The digest over all parts; empty where there are none."""
        found = [[part.path, part.why, part.digest] for _, part in sorted(self.parts.items())]
        return digest(found) if found else ""


# Names in arguments and variables.


def named_paths(argument: str) -> list[str]:
    """Everything in an argument that could be a path: the whole, what follows `=`, `:` or a short option's
    letter, `@file`, and each word of a command line or program text."""
    words = dict.fromkeys((argument, *_SEPARATORS.split(argument)))
    found: dict[str, None] = {}
    for word in words:
        for name in (word, word[2:] if re.match(r"-[A-Za-z]", word) else "", word.lstrip("-+@")):
            name = name.removeprefix("@").removeprefix("file://").removeprefix("file:")
            if name and "\0" not in name and len(name) <= LONGEST_NAME:
                found[name] = None
                if _DOTTED.fullmatch(name):
                    found[name.replace(".", "/")] = None
                    found[name.partition(".")[0]] = None
    return list(found)


def _existing(argument: str, conditions: StartConditions) -> Iterator[str]:
    """The real path of everything that the argument names and that is there, except the root folder."""
    for name in named_paths(argument)[:MOST_CANDIDATES]:
        if not conditions.cwd and not name.startswith("/"):
            continue
        base = os.path.join(conditions.cwd, name)
        suffixes = () if name.startswith("-") or "*" in name else _SUFFIXES
        for path in (base, *(base + suffix for suffix in suffixes)):
            real = real_path(path)
            if real is not None and real != "/":
                yield real


def add_arguments(
    found: FoundParts, words: Iterable[str], conditions: StartConditions, why: str
) -> list[str]:
    """Seal everything that the words name, and return the files among it that may be scripts."""
    scripts: list[str] = []
    for word in words:
        if len(named_paths(word)) > MOST_CANDIDATES:
            found.say("an argument is too long to be looked through", leasable=False)
        for path in _existing(word, conditions):
            about = os.lstat(path)
            if (path, why) in found.parts or _add_one(found, path, about, conditions, why) is None:
                continue
            if stat.S_ISREG(about.st_mode) and os.path.splitext(path)[1].lower() not in _DATA:
                scripts.append(path)
    return scripts


def _add_one(
    found: FoundParts, path: str, about: os.stat_result, conditions: StartConditions, why: str
) -> str | None:
    """Seal one file or folder. Returns its digest, None where it is nothing that can be sealed as a part."""
    shown = _shown(path, conditions)
    if stat.S_ISREG(about.st_mode):
        if not conditions.below_anchor(path) and is_unchanging(path):
            return None
        if is_written(path, conditions.written):
            found.say(f"{shown} is not sealed: the tool declares to write it", leasable=False)
            return None
        found.add(path, why, file_digest(path)[1])
        return found.parts[path, why].digest
    if stat.S_ISCHR(about.st_mode) and not conditions.below_anchor(path):
        return None  # such as /dev/null
    if not stat.S_ISDIR(about.st_mode):
        found.say(f"{shown} is neither a file nor a folder", leasable=False)
        return None
    # The working folder as a whole is no part: other work goes on there. A lease watches it.
    if conditions.is_anchor(path) or not conditions.below_anchor(path):
        if conditions.is_anchor(path) or not is_unchanging(path):
            found.say(f"may run files of {shown}, which its arguments name")
        return None
    return add_folder(found, path, conditions, why)


def add_folder(found: FoundParts, path: str, conditions: StartConditions, why: str) -> str | None:
    """Seal a folder. Returns its digest, None where it is too large."""
    shown = _shown(path, conditions)
    if is_written(path, conditions.written):
        found.say(f"{shown} is not sealed: the tool declares to write it", leasable=False)
        return None
    try:
        made = folder_digest(path, conditions.written, _own_files(conditions))
    except TooLargeError:
        found.say(f"{shown} holds more than can be sealed", leasable=False)
        return None
    for left in made.left_out:
        found.say(f"of {shown} is not sealed: {left}")
    found.add(path, why, made.digest)
    return made.digest


def _own_files(conditions: StartConditions) -> frozenset[str]:
    """flytui's own files in the app root, which the registry reads and no program runs; and the packages,
    each of which has a seal of its own."""
    roots = [anchor for anchor in conditions.anchors if anchor]
    names = ("tools/external.tools.jsonc", "tools/policy.jsonc", PACKAGES)
    return frozenset(os.path.join(root, name) for root in roots for name in names)


def add_folders_of(found: FoundParts, scripts: Iterable[str], conditions: StartConditions) -> None:
    """Seal the folder of each script that lies below an anchor, with what the script imports from there."""
    for folder in dict.fromkeys(map(os.path.dirname, scripts)):
        if conditions.below_anchor(folder) and (folder, "folder") not in found.parts:
            add_folder(found, folder, conditions, "folder")


# Variables.


def add_environment(
    found: FoundParts, variables: Iterable[tuple[str, str]], conditions: StartConditions
) -> None:
    """Name each variable that a loader reads, and seal what its value names."""
    for name, value in variables:
        reader = loader_of(name)
        if reader:
            found.say(f"its environment sets {name}, which {reader} reads")
            scripts = add_arguments(found, (value,), conditions, name)
            add_folders_of(found, scripts, conditions)


# What the program can read as it is confined.


AT_LEVEL = {
    Level.DEGRADED: "runs without namespaces, so that its seal is not all that it may load",
    Level.HOST_CONTROL: "runs unconfined, where it may load any file of yours",
    Level.NONE: "runs unconfined, where it may load any file of yours",
}
"""Why a seal is partial at a level, whatever it holds."""
_MAY_LOAD = "may load files of {}, which its entry lets it read"
_UNWATCHED = "no lease can watch all of {}"
_SYSTEM = ("/usr", "/nix/store", "/gnu/store")
"""Folders of which a program that is confined sees everything that the system's own programs do."""


def reach_reasons(conditions: StartConditions) -> frozenset[str]:
    """Every reason that `add_reach` may give under these conditions."""
    paths = (*conditions.granted, *conditions.anchors[:1])
    reasons = (form.format(_shown(path, conditions)) for path in paths for form in (_MAY_LOAD, _UNWATCHED))
    return frozenset((*AT_LEVEL.values(), *reasons))


def add_reach(found: FoundParts, conditions: StartConditions, copied: Iterable[str], watched: str) -> str:
    """Say what the program can read besides what is sealed, where anybody but root may change it. `copied`
    are the folders that run from their copies, and `watched` is the digest of the working folder, or empty.

    Returns a digest of `watched` and of these files, for leases.
    """
    held = tuple(copied)
    open_paths = [path for path in conditions.granted if not _is_sealed(path, held)]
    found.reach.update(dict.fromkeys(_MAY_LOAD.format(_shown(path, conditions)) for path in open_paths))
    if conditions.level in AT_LEVEL:
        found.reach[AT_LEVEL[conditions.level]] = None
        # Nobody can watch everything that an unconfined program can read: the project is where others write.
        open_paths += conditions.anchors[:1] if conditions.level is not Level.DEGRADED else ()
    seen = conditions.cwd if watched else ""
    further = [path for path in open_paths if not (seen and (path == seen or lies_beneath(path, seen)))]
    contents = [[path, _content_of(found, path, conditions)] for path in sorted({*further})]
    return digest([watched, contents]) if contents else watched


def _is_sealed(path: str, copied: tuple[str, ...]) -> bool:
    """Whether what the program sees there is the copy of a sealed folder, or nothing that this user can
    change."""
    if any(path == root or lies_beneath(path, root) for root in copied):
        return True
    real = real_path(path)
    if real is None or not is_unchanging(real):
        return False
    # A folder of root's may hold one of yours, as /home does.
    return not os.path.isdir(real) or any(real == one or lies_beneath(real, one) for one in _SYSTEM)


def _content_of(found: FoundParts, path: str, conditions: StartConditions) -> str:
    """The digest of the file or folder; empty where nothing is there, or nothing that a lease can watch."""
    real = real_path(path)
    if real is None:
        return ""
    try:
        about = os.lstat(real)
        if not is_written(real, conditions.written):
            if stat.S_ISDIR(about.st_mode):
                return folder_digest(real, conditions.written, _own_files(conditions)).digest
            return file_digest(real)[1] if stat.S_ISREG(about.st_mode) else ""
    except ChangedWhileReadError:
        raise  # the whole seal is made again
    except OSError:
        pass  # too large, or a file in it that cannot be read: then no change of it would be noticed
    found.reach[_UNWATCHED.format(_shown(path, conditions))] = None
    found.leasable = False
    return ""


# The working folder.


@cache
def _working_files() -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """The exact names, the beginnings of names, and the files of a Git folder."""
    text = Path(__file__).with_name("data").joinpath("working_files.json").read_text("utf-8")
    table = json.loads(text)
    exact = frozenset(name for name in table["names"] if not name.endswith("*"))
    begins = tuple(name[:-1] for name in table["names"] if name.endswith("*"))
    return exact, begins, tuple(table["git"])


def add_working_folder(found: FoundParts, conditions: StartConditions) -> str:
    """Seal the files of the working folder that programs are known to run unasked, say that there may be
    more, and return the digest of the whole folder, for leases."""
    if starts_empty(conditions):
        return ""
    exact, begins, git = _working_files()
    note_content(conditions.cwd, os.lstat(conditions.cwd))
    names = sorted(
        name for name in os.listdir(conditions.cwd) if name in exact or (begins and name.startswith(begins))
    )
    for path in (*(os.path.join(conditions.cwd, name) for name in names), *_git_files(conditions.cwd, git)):
        real = real_path(path)
        if real is not None:
            _add_working_file(found, real, conditions)
    shown = _shown(conditions.cwd, conditions)
    listed = f", such as {', '.join(names[:SHOWN])}" if names else ""
    found.say(f"may run files of its working folder {shown}{listed}")
    try:
        made = folder_digest(conditions.cwd, conditions.written, _own_files(conditions))
    except TooLargeError:
        found.say(f"{shown} holds more than a lease can watch", leasable=False)
        return ""
    if is_written(conditions.cwd, conditions.written):
        found.say(f"declares to write all of {shown}, so no lease can watch it", leasable=False)
    return made.digest


def _add_working_file(found: FoundParts, path: str, conditions: StartConditions) -> None:
    about = os.lstat(path)
    if stat.S_ISREG(about.st_mode) and not is_written(path, conditions.written):
        found.add(path, "working folder", file_digest(path)[1])
    elif stat.S_ISDIR(about.st_mode):
        add_folder(found, path, conditions, "working folder")


def starts_empty(conditions: StartConditions) -> bool:
    """Whether the working folder is empty and lies outside all anchors."""
    if not conditions.cwd:
        return True
    if conditions.below_anchor(conditions.cwd):
        return False
    try:
        note_content(conditions.cwd, os.lstat(conditions.cwd))
        return not os.listdir(conditions.cwd)
    except OSError:
        return False


def _git_files(folder: str, names: tuple[str, ...]) -> Iterator[str]:
    """The files by which a repository makes Git run programs, of the repository that the folder lies in."""
    current = folder
    while True:
        place = os.path.join(current, ".git")
        try:
            about = os.lstat(place)
        except OSError:
            note_content(place, None)
            if current in ("/", ""):
                return
            current = os.path.dirname(current)
            continue
        for part in (place, *_shared_folders(place)) if stat.S_ISREG(about.st_mode) else (place,):
            yield from (os.path.join(part, name) for name in names)
        if stat.S_ISREG(about.st_mode):
            yield place
        return


def _shared_folders(file: str) -> Iterator[str]:
    """The folders that the `.git` file of a work tree leads to."""
    with open(file, "rb") as opened:
        line = os.fsdecode(opened.read(LONGEST_NAME)).strip()
    folder = os.path.normpath(os.path.join(os.path.dirname(file), line.removeprefix("gitdir:").strip()))
    yield folder
    try:
        with open(os.path.join(folder, "commondir"), "rb") as opened:
            common = os.fsdecode(opened.read(LONGEST_NAME)).strip()
    except OSError:
        return
    yield os.path.normpath(os.path.join(folder, common))


def _shown(path: str, conditions: StartConditions) -> str:
    """The path as a person knows it: relative to the app root where it lies below it."""
    for anchor in conditions.anchors[:1]:
        if path == anchor:
            return "the project folder"
        if lies_beneath(path, anchor):
            return path[len(anchor) + 1 :]
    return path


def inside_runtime(program: ResolvedProgram, conditions: StartConditions) -> str:
    """Why the interpreter of a script may load files of an anchor; empty where it does not."""
    if not program.interpreter:
        return ""
    called = os.path.abspath(program.interpreter_argv[0]) if program.interpreter_argv else program.interpreter
    for path in (called, program.interpreter):
        prefix = os.path.dirname(os.path.dirname(path))
        if conditions.below_anchor(prefix):
            return f"its interpreter loads what is installed in {_shown(prefix, conditions)}"
    if conditions.home and conditions.below_anchor(conditions.home):
        return "its interpreter may load files of your home folder, which lies in the project"
    return ""
