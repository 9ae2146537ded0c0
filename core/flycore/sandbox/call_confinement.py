"""The confinement of one call, from what its entry declares: a pure function from values to a value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from flycore.model.json import JsonObject
from flycore.model.sidecar import Permissions
from flycore.sandbox.confinement import Confinement, IfMissing, Mount

_INPUT = re.compile(r"\$\{input\.([A-Za-z0-9_-]{1,64})\}")


class NotPermitted(Exception):
    """A declared path cannot be granted to this call. `path` is the path, and `hint` what to do."""

    def __init__(self, path: str, why: str, hint: str) -> None:
        self.path, self.why, self.hint = path, why, hint
        super().__init__(f"{path} {why}")


class CallFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one call: absolute paths, without links."""

    app_root: str
    cwd: str
    artifacts: str = ""
    """The call's own folder for the files that it makes; empty for a probe."""
    tmp: str = ""
    """A private folder for temporary files, where /tmp is not a private one; else empty."""
    home: str = ""
    """What `~` stands for in a declared path."""


class ProgramFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What one program reads as it runs: absolute paths, without links."""

    roots: tuple[str, ...] = ()
    """Its interpreter's installation and its package."""
    parts: tuple[str, ...] = ()
    """The files and folders that its seal covers and that run where they lie."""
    copies: tuple[tuple[str, str], ...] = ()
    """Sealed folders, each with its copy, which the program sees in the folder's place."""


class PathLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The paths that one limit of permissions allows, as they are written there."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


def confinement_of(
    permissions: Permissions,
    input: JsonObject,
    folders: CallFolders,
    programs: Sequence[ProgramFiles],
    limits: Sequence[PathLimit] = (),
) -> Confinement:
    """Return the limits of a call: what its programs need to run, its own folders, and what is declared.

    A path with `${input.NAME}` stays in the folder that is written before it, or in the project, and each
    path in a folder that every one of `limits` allows; no link in these folders leads out of them. Raises
    NotPermitted where it does not, and for a path that lets the tool write to its own sealed program.
    """
    copies = tuple(dict.fromkeys(copy for program in programs for copy in program.copies))
    sealed = tuple(folder for folder, _ in copies)
    own = (
        path
        for program in programs
        for path in (*program.roots, *_parts(program.parts, folders.app_root))
        # The copy is seen there; a file of the original would take its place.
        if not _at_or_below_any(path, sealed)
    )
    private = filter(None, (folders.artifacts, folders.tmp))
    return Confinement(
        mounts=(
            *(Mount(path) for path in dict.fromkeys(own)),
            *(Mount(folder, source=copy) for folder, copy in copies),
            *_declared(
                permissions.read, input, folders, sealed, [limit.read for limit in limits], writable=False
            ),
            *_declared(
                permissions.write, input, folders, sealed, [limit.write for limit in limits], writable=True
            ),
            *(Mount(path, writable=True) for path in private),
        ),
        cwd=folders.cwd,
        # What is written to a folder that is not granted would otherwise vanish without an error, where the
        # project lies below /tmp.
        shown_empty=tuple(dict.fromkeys((folders.app_root, folders.cwd))),
        network=permissions.network,
    )


def declared_mounts(
    permissions: Permissions, input: JsonObject, folders: CallFolders, limits: Sequence[PathLimit] = ()
) -> tuple[Mount, ...]:
    """Return what the entry lets this call read and write, besides its programs and its own folders. Raises
    NotPermitted where `confinement_of` does, but for what belongs to a sealed program."""
    reads, writes = [limit.read for limit in limits], [limit.write for limit in limits]
    return (
        *_declared(permissions.read, input, folders, (), reads, writable=False),
        *_declared(permissions.write, input, folders, (), writes, writable=True),
    )


def _parts(parts: Iterable[str], app_root: str) -> Iterator[str]:
    """The parts without a folder that holds the whole project: a program that lies at its top is granted
    itself, not everything."""
    return (path for path in parts if not _at_or_below(app_root, path))


def _declared(
    paths: Iterable[str],
    input: JsonObject,
    folders: CallFolders,
    sealed: Sequence[str],
    limits: Sequence[tuple[str, ...]],
    *,
    writable: bool,
) -> Iterator[Mount]:
    for declared in paths:
        path = _filled(declared, input)
        if path is None:
            continue  # the input leaves that field out
        path = _absolute(path, folders)
        # The words of a declaration are shown before they are trusted; what an input names is not.
        own = (_folder_of(declared, folders),) if "${" in declared else ()
        if own and not _at_or_below(path, own[0]):
            raise NotPermitted(
                path,
                f"lies outside {own[0]}, and {declared} reaches only what lies in it",
                "name a path in that folder, or declare the other one in permissions.fs of the entry",
            )
        # All of them hold the path, so that the longest lies in the others.
        within = max(
            (*own, *(_allowing(limit, declared, path, folders) for limit in limits)), default="", key=len
        )
        if _at_or_below_any(path, sealed):
            if not writable:
                continue
            raise NotPermitted(
                path,
                "belongs to the sealed program, which nothing may change while it runs",
                "declare another folder in permissions.fs.write of the entry",
            )
        missing = IfMissing.MAKE_FOLDER if writable else IfMissing.LEAVE_OUT
        anchor = folders.app_root if _at_or_below(path, folders.app_root) else within
        if not _at_or_below(within, anchor) or within in (anchor, path):
            within = ""
        yield Mount(path, writable, anchor, if_missing=missing, within=within)


def _folder_of(declared: str, folders: CallFolders) -> str:
    """The folder that is written before the first placeholder of a path, or the project."""
    return _absolute(os.path.dirname(declared.partition("${")[0]) or ".", folders)


def _allowing(limit: tuple[str, ...], declared: str, path: str, folders: CallFolders) -> str:
    """The widest folder of the limit that the path lies in. Raises NotPermitted where there is none."""
    found = [_absolute(top, folders) for top in limit if "${" not in top]
    found = [top for top in found if _at_or_below(path, top)]
    found += [_folder_of(top, folders) for top in limit if "${" in top and top == declared]
    if not found:
        raise NotPermitted(
            path,
            "lies outside what security.max_permissions allows a tool of an agent",
            "name a path that it allows; the person may allow more in the settings",
        )
    return min(found, key=len)


def _absolute(path: str, folders: CallFolders) -> str:
    return declared_path(path, folders.app_root, folders.home)


def declared_path(path: str, app_root: str, home: str) -> str:
    """Return the absolute path that a path of an entry's permissions stands for."""
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    # normpath keeps two slashes at the beginning, which POSIX leaves open.
    return "/" + os.path.normpath(os.path.join(app_root, path)).lstrip("/")


def named_folder(paths: Iterable[str], input: JsonObject, folders: CallFolders) -> str:
    """Return the first of the declared paths that the input fills in with a folder, but for those in the
    working folder, whose files a seal watches; empty where there is none."""
    filled = (_filled(declared, input) for declared in paths if "${" in declared)
    named = (_absolute(path, folders) for path in filled if path is not None)
    found = (path for path in named if not _at_or_below(path, folders.cwd) and os.path.isdir(path))
    return next(found, "")


def _filled(declared: str, input: JsonObject) -> str | None:
    """The declared path with each `${input.NAME}` filled in; None where the input has no such text."""
    values = {name: input.get(name) for name in _INPUT.findall(declared)}
    if not all(isinstance(value, str) and value and "\0" not in value for value in values.values()):
        return None
    return _INPUT.sub(lambda found: str(values[found[1]]), declared)


def _at_or_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(_at_or_below(path, folder) for folder in folders)


def _at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
