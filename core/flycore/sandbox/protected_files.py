"""Finds the protected paths in the folders that a call may write, and keeps them from being written.

What exists is mounted read-only over every write grant, and every folder between it and the grant is a
mount point of its own: without that, a folder above it could be renamed, and another one put in its place.
What does not exist is never mounted, because that would leave a stub in the person's project:
`protected_changes` looks for it once the call has ended.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.confinement import Confinement, IfMissing, Mount
from flysafe.beneath import open_anchor, open_beneath, read_beneath
from flysafe.protected_paths import GIT_FOLDER, Protection, State, git_protection, repository_parts, step

MOST_NAMES = 300_000
"""Names in one folder that is granted; more than three seconds to look through on a slow machine."""
MOST_PROTECTED = 300
"""Paths that are mounted for one call. The time that bubblewrap takes grows with the square of their number:
0.2 s for 250."""
_KEPT_FOLDERS = 100_000
_SETTLED_NS = 50_000_000
"""A folder that changed this shortly before it was read may change again at the same time of the clock."""
_CONFIG_BYTES = 256 * 1024
_MOST_INCLUDES = 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_Stamp = tuple[int, ...]


class ProtectedFile(msgspec.Struct, frozen=True):
    """One protected path of a grant."""

    grant: str
    """The real path of the granted folder."""
    relative: str
    """The path below `grant`, without links."""
    seen: str
    """The path at which the program sees it."""
    protection: Protection
    stamp: _Stamp
    link: str = ""
    """Where it leads to, if it is a symbolic link: nothing can be mounted over one."""

    @property
    def path(self) -> str:
        """The absolute path."""
        return f"{self.grant.rstrip('/')}/{self.relative}"


class ProtectedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The protected paths in everything that one call may write, at one moment."""

    grants: tuple[tuple[str, str], ...] = ()
    """The granted folders that may be written: real path, and the path at which the program sees it."""
    closed: frozenset[str] = frozenset()
    """Paths that are granted and are protected themselves: they are mounted read-only."""
    files: tuple[ProtectedFile, ...] = ()
    own: tuple[str, ...] = ()
    """flytui's own folders, by their real paths. They are kept read-only, and not looked at afterwards."""
    app_root: str = ""
    held: bool = True
    """Whether mounts hold existing files."""
    compared: bool = False
    """Whether existing files are compared afterwards: where no mounts hold them, and for a process that
    serves several calls, which was started before some of them came."""


NOTHING_PROTECTED = ProtectedFiles()
"""For a call that may write nothing but its own folders."""


def find_protected(
    declared: Confinement, app_root: str, own: Sequence[str], *, held: bool, compared: bool
) -> ProtectedFiles:
    """Return the protected paths in the writable mounts of `declared`, which has what the entry declares and
    nothing else.

    `own` are flytui's own folders, absolute; `held` and `compared` are those of the result. It reads whole
    folders, so it is not for the event loop. Raises NotPermitted for a grant that cannot be protected.
    """
    kept = tuple(os.path.realpath(folder) for folder in own)
    named = dict(_named_by_git(f"{app_root}/{GIT_FOLDER}"))
    grants: list[tuple[str, str]] = []
    closed: set[str] = set()
    for mount in declared.mounts:
        if not mount.writable:
            continue
        real = os.path.realpath(mount.path)
        kept_away = at_or_below_any(real, (*kept, *named)) or _protection_above(real, app_root) is not None
        if kept_away or _linked_protection(real, app_root, kept) is not None:
            closed.add(mount.path)
        else:
            grants.append((real, mount.path))
    found = ProtectedFiles(
        grants=tuple(grants),
        closed=frozenset(closed),
        own=kept,
        app_root=app_root,
        held=held,
        compared=compared or not held,
    )
    found = msgspec.structs.replace(found, files=tuple(files_in(found)))
    if held and len(found.files) > MOST_PROTECTED:
        raise NotPermitted(
            grants[0][1],
            f"holds {len(found.files)} files that no tool may write, such as {found.files[0].relative}, and"
            f" flytui can keep {MOST_PROTECTED} apart",
            "declare smaller folders in permissions.fs.write of the entry",
        )
    return found


def protection_of_grant(path: str, app_root: str, own: Sequence[str]) -> Protection | None:
    """Return why a tool may not write what an input names; None if it may.

    Links are followed, names are compared without case, and a file that is another name of a protected one
    counts as that one. Everything in `.git` counts. Not for the event loop.
    """
    real = os.path.realpath(path)
    if GIT_FOLDER in (part.casefold() for part in relative_path(real, app_root).split("/")):
        return git_protection()
    if at_or_below_any(real, [os.path.realpath(folder) for folder in own]):
        return Protection(real, "it belongs to flytui's own settings and state")
    found = _protection_above(real, app_root)
    if found is not None:
        return found
    for folder, protection in _named_by_git(f"{app_root}/{GIT_FOLDER}"):
        if at_or_below(real, folder):
            return protection
    return _linked_protection(real, app_root, own)


def _linked_protection(real: str, app_root: str, own: Sequence[str]) -> Protection | None:
    """Why a file is protected that is another name of a protected file of the project."""
    about = _lstat(real)
    if about is None or not stat.S_ISREG(about.st_mode) or about.st_nlink < 2:
        return None
    return _linked_names(app_root, own).get((about.st_dev, about.st_ino))


def with_protected(
    confinement: Confinement, protected: ProtectedFiles, *, copied: bool = False
) -> Confinement:
    """Return the confinement with the protected paths kept from being written. With `copied` the program sees
    copies of protected files."""
    mounts = [
        msgspec.structs.replace(mount, writable=False, if_missing=IfMissing.LEAVE_OUT)
        if mount.path in protected.closed
        else mount
        for mount in confinement.mounts
    ]
    if protected.held:
        granted = tuple(mounts)
        for file in protected.files:
            mounts += _mounts_for(file, granted, copied=copied and stat.S_ISREG(file.stamp[0]))
        for folder in protected.own:
            mounts += _mounts_for_own(folder, protected.grants, granted)
    return msgspec.structs.replace(confinement, mounts=tuple(dict.fromkeys(mounts)))


def _mounts_for(file: ProtectedFile, granted: Sequence[Mount], *, copied: bool = False) -> Iterator[Mount]:
    """The mount over one protected path, and those over the folders above it up to the grant."""
    nearest = _nearest(file.seen, granted)
    # What lies in a folder that is mounted read-only anyway, such as the sealed program, needs no other one.
    if nearest is None or not nearest.writable or nearest.path == file.seen:
        return
    below = file.seen[len(nearest.path.rstrip("/")) + 1 :].split("/")
    prefix = file.relative[: len(file.relative) - len("/".join(below))]
    for count in range(1, len(below) + 1):
        last = count == len(below)
        if last and file.link:
            return
        part = "/".join(below[:count])
        yield Mount(
            f"{nearest.path.rstrip('/')}/{part}",
            writable=not last,
            anchor=file.grant,
            source=f"{file.grant.rstrip('/')}/{prefix}{part}",
            if_missing=IfMissing.LEAVE_OUT,
            follow=False,
            copied=copied and last,
        )


def _mounts_for_own(
    folder: str, grants: Iterable[tuple[str, str]], granted: Sequence[Mount]
) -> Iterator[Mount]:
    for real, seen in grants:
        if at_or_below(folder, real):
            relative = os.path.relpath(folder, real)
            file = ProtectedFile(real, relative, f"{seen.rstrip('/')}/{relative}", Protection("", ""), ())
            yield from _mounts_for(file, granted)


def _nearest(path: str, mounts: Iterable[Mount]) -> Mount | None:
    above = [mount for mount in mounts if at_or_below(path, mount.path)]
    # Of two for one path the writable one counts, as in `ordered_mounts`.
    return max(above, key=lambda mount: (len(mount.path), mount.writable), default=None)


# The search.


class _Folder(msgspec.Struct, frozen=True):
    """What one folder holds, as far as it matters here."""

    identity: _Stamp
    read_at: int
    folders: tuple[tuple[str, State], ...]
    protected: tuple[tuple[str, Protection], ...]
    files: frozenset[int]
    """The inodes of what is no folder."""
    names: int
    repository: bool


_kept: dict[tuple[str, str, str], _Folder] = {}
"""Folders as they were read last, by the project, the grant and their path. The time of change of a folder
shows whether a name was added or removed; no program can set it."""


def files_in(asked: ProtectedFiles) -> Iterator[ProtectedFile]:
    """Yield every protected path in the grants as it is now. Raises NotPermitted for a grant that holds too
    much."""
    found: dict[str, ProtectedFile] = {}
    linked: dict[tuple[int, int], Protection] = {}
    extra = dict(_named_by_git(f"{asked.app_root}/{GIT_FOLDER}"))
    for grant, seen in asked.grants:
        for relative, protection in _names_in(grant, seen, asked, extra):
            _add(found, grant, seen, relative, protection)
    names = [file.path for file in found.values()]
    for path, protection in extra.items():
        for grant, seen in asked.grants:
            if at_or_below(path, grant) and path != grant and not at_or_below_any(path, names):
                _add(found, grant, seen, os.path.relpath(path, grant), protection)
    for file in tuple(found.values()):
        if file.link:
            _add_target(found, file, asked.grants)
    outermost = tuple(_outermost(found.values()))
    for file in outermost:
        for member, about in _members(file.path):
            if about.st_nlink > 1 and stat.S_ISREG(about.st_mode):
                linked[about.st_dev, about.st_ino] = file.protection
            if asked.compared and member:
                yield msgspec.structs.replace(
                    file, relative=f"{file.relative}/{member}", stamp=_stamp(about), link=""
                )
    yield from outermost
    yield from _hard_links(asked, linked, outermost)


def _outermost(files: Iterable[ProtectedFile]) -> Iterator[ProtectedFile]:
    """Leave out what lies in a protected folder: a mount for it would make the folder writable."""
    seen = {file.seen for file in files if not file.link}
    for file in files:
        above = file.seen
        while (above := os.path.dirname(above)) not in ("/", ""):
            if above in seen:
                break
        else:
            yield file


def _add(
    found: dict[str, ProtectedFile], grant: str, seen: str, relative: str, protection: Protection
) -> None:
    path = f"{grant.rstrip('/')}/{relative}"
    about = _lstat(path)
    if about is None:
        return
    link = os.readlink(path) if stat.S_ISLNK(about.st_mode) else ""
    file = ProtectedFile(grant, relative, f"{seen.rstrip('/')}/{relative}", protection, _stamp(about), link)
    found[f"{seen}\0{path}"] = file


def _add_target(
    found: dict[str, ProtectedFile], file: ProtectedFile, grants: Iterable[tuple[str, str]]
) -> None:
    """Protect what a protected link leads to as well, if it lies in a grant."""
    target = os.path.realpath(file.path)
    for grant, seen in grants:
        if target != grant and at_or_below(target, grant):
            _add(found, grant, seen, os.path.relpath(target, grant), file.protection)


def _hard_links(
    asked: ProtectedFiles,
    linked: dict[tuple[int, int], Protection],
    found: Sequence[ProtectedFile],
) -> Iterator[ProtectedFile]:
    """The other names of protected files."""
    whole = any(at_or_below(asked.app_root, grant) for grant, _ in asked.grants)
    if not whole and any(_has_linked_files(grant, asked) for grant, _ in asked.grants):
        # The protected file itself may lie in the project, outside of what this call may write.
        linked = {**_linked_names(asked.app_root, asked.own), **linked}
    protected = {file.path for file in found}
    inodes = {inode for _, inode in linked}
    for grant, seen in asked.grants:
        for relative, about in _regular_files(grant, asked, inodes):
            protection = linked.get((about.st_dev, about.st_ino))
            if protection is not None and f"{grant.rstrip('/')}/{relative}" not in protected:
                path = f"{seen.rstrip('/')}/{relative}"
                yield ProtectedFile(grant, relative, path, protection, _stamp(about))


def _has_linked_files(grant: str, asked: ProtectedFiles) -> bool:
    return any(about.st_nlink > 1 for _, about in _regular_files(grant, asked, None))


def _linked_names(app_root: str, own: Sequence[str]) -> dict[tuple[int, int], Protection]:
    """The protected files of the project that have several names, by device and inode."""
    whole = ProtectedFiles(grants=((app_root, app_root),), own=tuple(own), app_root=app_root)
    found: dict[tuple[int, int], Protection] = {}
    for relative, protection in _names_in(app_root, app_root, whole, {}):
        for _, about in _members(f"{app_root}/{relative}"):
            if about.st_nlink > 1 and stat.S_ISREG(about.st_mode):
                found[about.st_dev, about.st_ino] = protection
    return found


def _members(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """The file itself, and everything below it if it is a folder, with paths relative to it."""
    about = _lstat(path)
    if about is None:
        return
    yield "", about
    if not stat.S_ISDIR(about.st_mode):
        return
    count = 0
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            count += 1
            if count > MOST_NAMES:
                raise _too_many(path)
            member = os.path.join(folder, name)
            if (about := _lstat(member)) is not None:
                yield os.path.relpath(member, path), about


def _names_in(
    grant: str, seen: str, asked: ProtectedFiles, extra: dict[str, Protection]
) -> Iterator[tuple[str, Protection]]:
    """The protected names below a granted folder. Adds to `extra` what configurations of git name."""
    for relative, folder in _folders_of(grant, seen, asked):
        for name, protection in folder.protected:
            yield (f"{relative}/{name}" if relative else name), protection
        if folder.repository:
            place = f"{grant.rstrip('/')}/{relative}".rstrip("/")
            extra.update(_named_by_git(place))


def _regular_files(
    grant: str, asked: ProtectedFiles, inodes: set[int] | None
) -> Iterator[tuple[str, os.stat_result]]:
    """The files below the grant that have one of these inodes; all of them where that is None. A file that
    is granted itself is compared by `_linked_protection`."""
    if inodes is not None and not inodes:
        return
    for relative, folder in _folders_of(grant, grant, asked):
        if inodes is not None and folder.files.isdisjoint(inodes):
            continue
        with suppress(OSError), os.scandir(f"{grant.rstrip('/')}/{relative}") as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    name = f"{relative}/{entry.name}" if relative else entry.name
                    with suppress(FileNotFoundError):
                        yield name, entry.stat(follow_symlinks=False)


def _folders_of(grant: str, seen: str, asked: ProtectedFiles) -> Iterator[tuple[str, _Folder]]:
    """Every folder of the grant, with its path below it. Protected folders are not entered."""
    try:
        anchor = open_anchor(grant)
    except (FileNotFoundError, NotADirectoryError):
        return
    names = 0
    try:
        waiting: list[tuple[str, State]] = [("", _state_above(grant, asked.app_root)[1])]
        while waiting:
            relative, state = waiting.pop()
            path = f"{grant.rstrip('/')}/{relative}".rstrip("/") or "/"
            if path in asked.own:
                continue
            folder = _read_folder(anchor, (asked.app_root, grant, path), relative, state)
            if folder is None:
                continue
            names += folder.names
            if names > MOST_NAMES:
                raise _too_many(seen)
            yield relative, folder
            waiting += [(f"{relative}/{name}" if relative else name, below) for name, below in folder.folders]
    finally:
        os.close(anchor)


def _too_many(seen: str) -> NotPermitted:
    return NotPermitted(
        seen,
        f"holds more than {MOST_NAMES:,} names, which are too many to look for files that no tool may write",
        "declare a smaller folder in permissions.fs.write of the entry",
    )


def _read_folder(anchor: int, key: tuple[str, str, str], relative: str, state: State) -> _Folder | None:
    app_root, _, path = key
    about = _lstat(path)
    if about is None or not stat.S_ISDIR(about.st_mode):
        return None
    kept = _kept.get(key)
    if (
        kept is not None
        and kept.identity == _identity(about)
        and kept.read_at - about.st_ctime_ns > _SETTLED_NS
    ):
        return kept
    read_at = time.time_ns()
    try:
        # Beneath the anchor and without links: a folder on the way may be replaced meanwhile.
        descriptor = open_beneath(anchor, relative or ".", _FOLDER)
    except OSError:
        return None  # it is gone, or neither flytui nor the tool can read it
    try:
        about = os.fstat(descriptor)
        with os.scandir(descriptor) as entries:
            members = [(entry.name, entry.is_dir(follow_symlinks=False), entry.inode()) for entry in entries]
    finally:
        os.close(descriptor)
    folder = _folder(members, path, state, app_root, _identity(about), read_at)
    if len(_kept) >= _KEPT_FOLDERS:
        _kept.clear()
    _kept[key] = folder
    return folder


def _folder(
    members: list[tuple[str, bool, int]],
    path: str,
    state: State,
    app_root: str,
    identity: _Stamp,
    read_at: int,
) -> _Folder:
    parts = repository_parts(os.path.basename(path), [name for name, _, _ in members])
    folders: list[tuple[str, State]] = []
    protected: list[tuple[str, Protection]] = []
    for name, is_folder, _ in members:
        hit, below = step(state, name, at_root=path == app_root)
        part = parts.get(name.casefold())
        if part is not None or hit is not None:
            protected.append((name, part or hit or Protection(name, "")))
        elif not is_folder and name.casefold() == GIT_FOLDER:
            # The file of a worktree or submodule, or a link: it says which repository git uses here.
            protected.append((name, git_protection()))
        elif is_folder:
            folders.append((name, below))
    files = frozenset(inode for _, is_folder, inode in members if not is_folder)
    return _Folder(identity, read_at, tuple(folders), tuple(protected), files, len(members), bool(parts))


def _state_above(path: str, app_root: str) -> tuple[Protection | None, State]:
    """Why a folder is protected by its names alone, and the state of the search in it. In the project only
    the names below the project folder count: it may itself lie in somebody's settings."""
    state: State = ()
    if path == app_root:
        return None, state
    relative = relative_path(path, app_root)
    at_root = not relative.startswith("/")
    for name in filter(None, relative.split("/")):
        hit, state = step(state, name, at_root=at_root)
        if hit is not None:
            return hit, state
        at_root = False
    return None, state


def _protection_above(path: str, app_root: str) -> Protection | None:
    """Why a real path is protected, by its own name or that of a folder above it."""
    found, _ = _state_above(path, app_root)
    if found is not None or path == app_root:
        return found
    top = app_root if at_or_below(path, app_root) else "/"
    folder = path
    while folder not in (top, "/"):
        folder, name = os.path.split(folder)
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        part = repository_parts(os.path.basename(folder), names).get(name.casefold())
        if part is not None:
            return part
        if name.casefold() == GIT_FOLDER and not os.path.isdir(os.path.join(folder, name)):
            return git_protection()
    return None


# What the configuration of a repository names.


def _named_by_git(repository: str) -> Iterator[tuple[str, Protection]]:
    """The folder of hooks and the further files that a repository's configuration names, by real paths."""
    waiting = [f"{repository}/config", f"{repository}/config.worktree"]
    work_tree = os.path.dirname(repository) if os.path.basename(repository) == GIT_FOLDER else repository
    why = git_protection().why
    for _ in range(_MOST_INCLUDES):
        if not waiting:
            return
        config = waiting.pop()
        try:
            items = _loose_items(read_text(config))
        except (OSError, UnicodeDecodeError):
            continue
        for key, value in items:
            if key == "core.hookspath":
                yield _real(value, work_tree), Protection("core.hooksPath", why)
            elif key in ("include.path", "includeif.path"):
                included = _real(value, os.path.dirname(config))
                yield included, Protection("include.path", why)
                waiting.append(included)


def _real(value: str, folder: str) -> str:
    return os.path.realpath(os.path.join(folder, os.path.expanduser(value)))


def _loose_items(text: str) -> Iterator[tuple[str, str]]:
    """The keys of a configuration without the middle part of their section, with their values. What is
    written in an unusual way is read as well as possible: one path too many is protected, never one less
    because of another line."""
    section = ""
    for line in text.replace("\\\n", "").splitlines():
        line = line.strip()
        if line.startswith("["):
            header, _, line = line[1:].partition("]")
            words = header.split(maxsplit=1)
            section = words[0].casefold() if words else ""
            line = line.strip()
        name, _, value = line.partition("=")
        yield f"{section}.{name.strip().casefold()}", value.strip().strip('"')


def read_text(path: str) -> str:
    """Return the text of a configuration file. Raises OSError and UnicodeDecodeError."""
    return read_beneath(Path(path).parent, os.path.basename(path), _CONFIG_BYTES).decode("utf-8")


def relative_path(path: str, app_root: str) -> str:
    """Return the path relative to the project folder; a path outside it as it is."""
    return os.path.relpath(path, app_root) if at_or_below(path, app_root) else path


def _identity(about: os.stat_result) -> _Stamp:
    return about.st_dev, about.st_ino, about.st_ctime_ns


def _stamp(about: os.stat_result) -> _Stamp:
    if stat.S_ISDIR(about.st_mode):
        return stat.S_IFDIR, about.st_dev, about.st_ino
    return (about.st_mode, *_identity(about), about.st_size, about.st_mtime_ns)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def at_or_below_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether the path is one of the folders, or lies below one."""
    return any(at_or_below(path, folder) for folder in folders)


def at_or_below(path: str, folder: str) -> bool:
    """Return whether the path is the folder, or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
