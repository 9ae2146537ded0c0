"""Finds the executables in the folders of tools, and makes an entry of each. None of them is run here.

The tools that an executable offers are known when it has been asked with `--schema`, which trust decides.
Until then its entry offers one tool, with the name of the file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from flycore.discovery.other_systems import gibson
from flycore.discovery.other_systems.model import MOST_BYTES as MOST_COMPONENT_BYTES
from flycore.discovery.tool_folders import ToolFolder, find_tool_folders, tool_folder_files
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Anchor, Kind, Source
from flycore.model.json import JsonObject, digest
from flycore.model.sidecar import DEFAULT_TIMEOUT_MS, SidecarEntry, ToolClaim
from flycore.registry.entry import entry_digest, sorted_json
from flycore.registry.names import LONGEST_ID
from flycore.registry.paths import LEGACY_REGISTRY_FILE, MANIFESTS_DIR, REGISTRY_FILE, RootPaths
from flycore.registry.read_file import read_text
from flycore.registry.stamps import Stamp, stamp_of
from flysafe.beneath import OutsideAnchor, open_anchor, open_beneath, real_path_of

RULE = "executable"
MOST_FILES = 1_000
"""Executables of all search paths together. A project's file can name any folder, and must not hold up the
commands that look at the project."""
MOST_LOOKED = 20_000
"""Files and folders that are looked at for them."""
MOST_BYTES = 1024 * 1024 * 1024
"""Bytes of all of them together, which are read for their digests."""
MOST_NAMES = 20_000
"""Names of one folder that are read."""
DEEPEST = 8
"""Folders below a search path, one within the other."""
LARGEST = 512 * 1024 * 1024
"""Bytes of an executable, all of which are read for its digest."""
MOST_KNOWN = 4_096
_SETTLED_NS = 100_000_000
"""A file that changed more recently is read again: it may change once more with the same time stamp."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NO_ID = re.compile(r"[^a-z0-9._-]")
_NEVER = frozenset(("node_modules", "__pycache__"))
_OWN_FOLDERS = ("tools/packages", MANIFESTS_DIR)
"""Folders below the app root with the programs of packages and manifests, which declare them themselves."""


class FoundFile(NamedTuple):
    """One executable below a search path."""

    relative: str
    path: str
    """Absolute, with links resolved."""
    status: os.stat_result
    timeout_ms: int = 0
    """The time limit that a component file gives; 0 where none does."""


class FolderScan(NamedTuple):
    """What lies below a search path."""

    files: tuple[FoundFile, ...] = ()
    left: tuple[tuple[str, str, str], ...] = ()
    """What was left out: its relative path, why, and what to do."""
    looked: tuple[tuple[str, Stamp], ...] = ()
    """Every folder and file that was looked at, absolute, with its stamp before that."""


class _Search(NamedTuple):
    """The content of all folders of one root at one moment."""

    scans: tuple[tuple[ToolFolder, FolderScan], ...]
    diagnostics: tuple[Diagnostic, ...]
    watched: tuple[tuple[Path, Stamp], ...]
    """Everything that the rest depends on, with its stamps."""
    paths: tuple[str, ...]
    """The same paths, for a quick look."""
    settled: bool
    """Whether every later change has another stamp."""


class _Budget(msgspec.Struct):
    """What is left to look at."""

    files: int = msgspec.field(default_factory=lambda: MOST_FILES)
    looked: int = msgspec.field(default_factory=lambda: MOST_LOOKED)
    bytes: int = msgspec.field(default_factory=lambda: MOST_BYTES)

    @property
    def spent(self) -> bool:
        return self.files <= 0 or self.looked <= 0 or self.bytes <= 0

    def admit(self, found: list[FoundFile]) -> list[FoundFile]:
        """Return what was found by looking at one name, if there is room for it."""
        self.looked -= 1
        admitted = [] if self.spent else found
        self.files -= len(found)
        self.bytes -= sum(file.status.st_size for file in found)
        return admitted


_searches: dict[tuple[str, str, str], _Search] = {}
MOST_SEARCHES = 16


def read_executables(
    places: RootPaths,
    environ: Mapping[str, str],
    run: Collection[str],
    is_reserved: Callable[[str], bool],
) -> tuple[tuple[SidecarEntry, ...], tuple[Diagnostic, ...]]:
    """Return an entry for each executable, the ones that win first, and what is wrong with files and folders.

    `run` holds the real paths of the programs that the registry runs, which are left out. `is_reserved` says
    of a tool's name whether it belongs to the kernel or a known capability.
    """
    search = _search(places, environ)
    entries: list[SidecarEntry] = []
    diagnostics = list(search.diagnostics)
    seen = set(run)
    for folder, scan in reversed(search.scans):
        for file in scan.files:
            if file.path in seen:
                continue
            seen.add(file.path)
            shown = shown_path(os.path.join(folder.path, file.relative), places, environ)
            try:
                entries.append(_entry(folder, file, shown, is_reserved))
            except OSError as error:
                why = f"cannot be read: {error.strerror or error}"
                diagnostics.append(_left_out(shown, why, "give flytui the right to read it, or take it away"))
        diagnostics += (
            _left_out(shown_path(os.path.join(folder.path, relative), places, environ), why, remedy)
            for relative, why, remedy in scan.left
        )
    return tuple(entries), tuple(diagnostics)


def watched_executables(places: RootPaths, environ: Mapping[str, str]) -> tuple[tuple[Path, Stamp], ...]:
    """Return every file and folder that `read_executables` depends on, with its stamp."""
    return _search(places, environ).watched


def _search(places: RootPaths, environ: Mapping[str, str]) -> _Search:
    """Return what lies in the folders now. Where no stamp has changed, that is what was found before."""
    key = (str(places.app_root), str(places.data_dir), environ.get("HOME", ""))
    last = _searches.get(key)
    if last is not None and last.settled and _unchanged(last):
        return last
    now = time.time_ns()
    # Each stamp is taken before what it stands for is read, so that a change meanwhile is seen the next time.
    stamps: dict[Path, Stamp] = {path: stamp_of(path) for path in tool_folder_files(places)}
    folders, diagnostics = find_tool_folders(places, environ)
    stamps.update({folder.path: stamp_of(folder.path) for folder in folders})
    scans: list[tuple[ToolFolder, FolderScan]] = []
    budget = _Budget()
    for folder in folders:  # the user's own first, so that what a project names leaves them their share
        scan = scan_folder(folder.path, places.app_root, budget)
        scan = scan._replace(files=tuple(_with_time_limit(folder.path, file, stamps) for file in scan.files))
        scans.append((folder, scan))
        for path, stamp in scan.looked:
            stamps.setdefault(Path(path), stamp)
    newest = max((max(stamp[2:]) for stamp in stamps.values() if stamp is not None), default=0)
    watched = tuple(stamps.items())
    paths = tuple(str(path) for path in stamps)
    found = _Search(tuple(scans), diagnostics, watched, paths, newest + _SETTLED_NS < now)
    if len(_searches) >= MOST_SEARCHES:
        _searches.clear()
    _searches[key] = found
    return found


def _with_time_limit(folder: Path, file: FoundFile, stamps: dict[Path, Stamp]) -> FoundFile:
    """Return the file with the time limit of its component file, and add that file's stamps.

    Such a file lies beside the executable, or beside a folder `bin` in one of the executable's name.
    """
    stem = Path(file.relative).stem
    holders = [(folder / file.relative).parent]
    if folder.name == "bin":
        stamps.setdefault(folder.parent, stamp_of(folder.parent))
        holders.append(folder.parent / stem)
    for holder in holders:
        if holder.name != stem or not holder.is_dir():
            continue
        stamps.setdefault(holder, stamp_of(holder))
        for name in gibson.NAMES:
            stamps.setdefault(holder / name, stamp_of(holder / name))
            text = read_text(holder, name, name, MOST_COMPONENT_BYTES)[0]
            limit = _time_limit(text) if text is not None else None
            if limit is not None:
                return file._replace(timeout_ms=limit)
    return file


@lru_cache(maxsize=MOST_FILES)
def _time_limit(text: str) -> int | None:
    """Return the time limit of a component file, which is read anew only where it has changed."""
    return gibson.time_limit(text, "")


def _unchanged(search: _Search) -> bool:
    look = os.stat
    for path, (_, stamp) in zip(search.paths, search.watched, strict=True):
        try:
            facts = look(path)
        except OSError:
            if stamp is not None:
                return False
            continue
        if stamp != (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns):
            return False
    return True


def scan_folder(folder: Path, app_root: Path, budget: _Budget) -> FolderScan:
    """Return the executables below a folder, as far as the budget goes; nothing where it cannot be opened."""
    try:
        anchor = open_anchor(folder)
    except OSError:
        return FolderScan()
    try:
        whole = real_path_of(anchor)
        never = frozenset(os.path.join(app_root, path) for path in _OWN_FOLDERS)
        files: list[FoundFile] = []
        left: list[tuple[str, str, str]] = []
        looked: list[tuple[str, Stamp]] = []
        waiting = [("", 0)]
        while waiting and not budget.spent:
            relative, depth = waiting.pop(0)
            here = os.path.join(whole, relative) if relative else whole
            looked.append((here, stamp_of(Path(here))))
            names = _names(anchor, relative)
            flat = any(name in _REGISTRIES and not is_folder for name, is_folder in names)
            for name, is_folder in names:
                below = f"{relative}/{name}" if relative else name
                inner = os.path.join(whole, below)
                if not is_folder:
                    looked.append((inner, stamp_of(Path(inner))))
                    files += budget.admit(_executable(anchor, below, left))
                elif not flat and depth < DEEPEST and name not in _NEVER and inner not in never:
                    waiting.append((below, depth + 1))
        if budget.spent:
            why = "holds more files than are looked at, and the others are left out"
            left.append(("", why, "name a folder with fewer files"))
        return FolderScan(tuple(files), tuple(left), tuple(looked))
    except OSError:
        return FolderScan()
    finally:
        os.close(anchor)


_REGISTRIES = frozenset(os.path.basename(path) for path in (REGISTRY_FILE, LEGACY_REGISTRY_FILE))
"""In a folder with a registry, what lies in its folders is not scanned."""


def _names(anchor: int, relative: str) -> list[tuple[str, bool]]:
    """Return the names in a folder that are not hidden, with whether each is a folder, sorted. Links to
    folders are left out: what they lead to has another name as well."""
    try:
        fd = open_beneath(anchor, relative or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        with os.scandir(fd) as listed:
            found = [
                (item.name, item.is_dir(follow_symlinks=False))
                for item in islice(listed, MOST_NAMES)
                if not item.name.startswith(".")
            ]
    except OSError:
        return []
    finally:
        os.close(fd)
    return sorted(found)


def _executable(anchor: int, relative: str, left: list[tuple[str, str, str]]) -> list[FoundFile]:
    """Return the file if it is an executable; nothing for anything else, with a note in `left` where somebody
    may have meant it as one."""
    try:
        fd = open_beneath(anchor, relative, os.O_RDONLY | os.O_NONBLOCK, links=True)
    except OutsideAnchor:
        left.append((relative, "is a link that leads out of its folder", "put the file itself there"))
        return []
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            left.append((relative, "cannot be read", "run chmod u+r on it"))
        return []
    try:
        status = os.fstat(fd)
        path = real_path_of(fd)
        if not stat.S_ISREG(status.st_mode):
            return []
        if not status.st_mode & 0o111:
            if os.read(fd, 2) == b"#!":
                left.append((relative, "is a script that is not executable", "run chmod +x on it"))
            return []
    except OSError:
        return []
    finally:
        os.close(fd)
    if _NAME.fullmatch(os.path.basename(relative)) is None:
        left.append((relative, "has a name that no tool can have", "use 1 to 64 of A-Z a-z 0-9 . _ -"))
        return []
    if status.st_size > LARGEST:
        left.append((relative, f"is larger than {LARGEST // 1024 // 1024} MiB", "name it in the registry"))
        return []
    return [FoundFile(relative, path, status)]


def _entry(
    folder: ToolFolder, file: FoundFile, shown: str, is_reserved: Callable[[str], bool]
) -> SidecarEntry:
    """Return the entry of one executable. Raises OSError where it cannot be read."""
    sha256 = "" if folder.in_user_folder else file_sha256(file.path)
    raw: JsonObject = {"kind": Kind.EXECUTABLE.value, "file": file.path}
    raw |= {"sha256": sha256} if sha256 else {}
    limit = file.timeout_ms or folder.timeout_ms
    raw |= {"timeoutMs": limit} if limit != DEFAULT_TIMEOUT_MS else {}
    sidecar = _id(folder.label, file.relative)
    entry = SidecarEntry(
        id=sidecar,
        source=Source.EXECUTABLE,
        position=Position(file=shown, line=1, column=1),
        command=f"./{file.relative}",
        # It may read no files of the project, and an empty working folder keeps its seal complete.
        cwd=Anchor.EMPTY,
        kind=Kind.EXECUTABLE,
        timeout_ms=limit,
        raw=raw,
        digest=entry_digest(sidecar, sorted_json(raw)),
        file=file.path,
        folder=str(folder.path),
        sha256=sha256,
        in_user_folder=folder.in_user_folder,
    )
    name = entry.file_alias
    # A file whose name is kept for other tools offers none before its schema names one.
    claims = () if is_reserved(name) else (ToolClaim(name=name, spec={"name": name}),)
    return msgspec.structs.replace(entry, tools=claims)


def is_executable(path: Path) -> bool:
    """Return whether there is a regular file that somebody may execute."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)


def check_executable(path: Path, shown: str) -> tuple[Diagnostic, ...]:
    """Return why a file would be no tool in a folder of tools; nothing where it would. It is not started."""
    left: list[tuple[str, str, str]] = []
    anchor = open_anchor(path.parent)
    try:
        found = _executable(anchor, path.name, left)
    finally:
        os.close(anchor)
    if not found and not left:
        left.append((path.name, "is not an executable file", "run chmod +x on it"))
    return tuple(_left_out(shown, why, remedy) for _, why, remedy in left)


def entry_of_file(path: Path, environ: Mapping[str, str]) -> SidecarEntry:
    """Return the entry of one executable wherever it lies, as that of a folder of tools. Raises OSError where
    there is none."""
    real = Path(os.path.realpath(path))
    status = os.stat(real)
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        raise PermissionError(errno.EACCES, "is not an executable file", str(path))
    file = FoundFile(real.name, str(real), status)
    return _entry(ToolFolder(real.parent, "test"), file, str(path), lambda name: False)


def _id(label: str, relative: str) -> str:
    parts = (*os.path.dirname(relative).split("/"), Path(relative).stem)
    name = ".".join(part for part in (label, *parts) if part)
    return _NO_ID.sub("-", name.lower())[:LONGEST_ID]


# The identity of a file.


_known: dict[tuple[str | int, ...], str] = {}


def file_sha256(path: str) -> str:
    """Return the SHA-256 of a file's bytes, 64 hex digits. A file that is still the same is not read again.
    Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        key = (path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        found = _known.get(key)
        if found is None:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if time.time_ns() - max(facts.st_mtime_ns, facts.st_ctime_ns) > _SETTLED_NS:
                if len(_known) >= MOST_KNOWN:
                    _known.clear()
                _known[key] = found
    return found


def executable_key(path: str) -> str:
    """Return a digest over path, device, inode, size, time and bytes of an executable: while it stays the
    same, so does the schema. Raises OSError."""
    sha256 = file_sha256(path)
    facts = os.stat(path)
    return digest([path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, sha256])


def shown_path(path: str, places: RootPaths, environ: Mapping[str, str]) -> str:
    """Return a path for people: relative to the app root, with `~` below the home folder, or whole."""
    home = environ.get("HOME", "").rstrip("/")
    for folder, instead in ((f"{places.app_root}/", ""), (f"{home}/" if home else "\0", "~/")):
        if path.startswith(folder):
            return instead + path[len(folder) :]
    return path


def _left_out(shown: str, why: str, remedy: str) -> Diagnostic:
    return Diagnostic(
        severity=Severity.INFO,
        rule=RULE,
        message=f"{shown} {why}, so that it is no tool",
        remedy=remedy,
        position=Position(file=shown, line=1, column=1),
    )
