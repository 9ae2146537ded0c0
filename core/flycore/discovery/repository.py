"""Says which git repository an app root lies in, from the repository's files. Runs nothing and writes
nothing."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from flycore.discovery.git_history import HistoryError, first_commit
from flycore.model.repository import RepositoryIdentity
from flysafe.beneath import read_beneath

MOST_BYTES = 1_048_576
"""Bytes of a file with settings."""
MOST_REFS_BYTES = 16_777_216
"""Bytes of the file of packed references."""
LONGEST = 4_096
"""Bytes of a path, a reference or an address."""
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE = re.compile(r"refs/(?!.*(?:\.\.|//|\.lock$|/$))[\x21-\x7e\x80-\U0010ffff]+")
_SECTION = re.compile(r'\[remote "([^"\\\n]+)"\]')
_SHORT_ADDRESS = re.compile(r"(?:[^@/:]+@)?([^/:@]+|\[[^\]]+\]):(?!//)(.+)")

_first_commits: dict[tuple[str, str], str] = {}
"""First commits that were found, by folder and commit: a commit's history never changes."""


def find_repository(app_root: Path) -> RepositoryIdentity | None:
    """Return the repository that the folder lies in; None where there is none, or its files are not
    understood, as those of a shallow clone."""
    top = _top(app_root)
    if top is None:
        return None
    try:
        own = _own_folder(top)
        common = _common_folder(own, top)
        return RepositoryIdentity(
            root_commit=_root_commit(common, _head(own, common)),
            remote=_remote(_read(common, "config", MOST_BYTES), top),
            folder=_place(app_root, top),
            common=_without_ending(str(common)),
        )
    except (OSError, ValueError, HistoryError):
        return None


def find_worktree(app_root: Path) -> RepositoryIdentity | None:
    """Return what is known of a repository whose history is not understood: the folder that its worktrees
    share. None where there is no repository."""
    top = _top(app_root)
    if top is None:
        return None
    try:
        common = _without_ending(str(_common_folder(_own_folder(top), top)))
    except (OSError, ValueError):
        return None
    return RepositoryIdentity(root_commit="", folder=_place(app_root, top), common=common)


def _top(app_root: Path) -> Path | None:
    """Return the top folder of the work tree."""
    return next((folder for folder in (app_root, *app_root.parents) if _is_there(folder / ".git")), None)


def _place(app_root: Path, top: Path) -> str:
    return app_root.relative_to(top).as_posix().removeprefix(".")


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _read(folder: Path, name: str, most_bytes: int = LONGEST) -> str:
    return read_beneath(folder, name, most_bytes).decode("utf-8", "surrogateescape")


def _own_folder(top: Path) -> Path:
    """The folder of this worktree's own files, such as HEAD."""
    place = top / ".git"
    if place.is_dir():
        return Path(os.path.realpath(place))
    leads = _read(top, ".git").strip()
    if not leads.startswith("gitdir: "):
        raise ValueError("the file .git has another form")
    return Path(os.path.realpath(top / leads.removeprefix("gitdir: ")))


def _common_folder(own: Path, top: Path) -> Path:
    """The folder that all worktrees share."""
    try:
        named = _read(own, "commondir").strip()
    except FileNotFoundError:
        return own
    # A worktree is named by the repository, too. So a folder cannot pass for one by a file alone.
    back = _read(own, "gitdir").strip()
    if os.path.realpath(own / back) != os.path.realpath(top / ".git"):
        raise ValueError("the repository knows no such worktree")
    return Path(os.path.realpath(own / named))


def _head(own: Path, common: Path) -> str:
    """Return the commit that is checked out."""
    text = _read(own, "HEAD").strip()
    if not text.startswith("ref: "):
        return _object(text)
    name = text.removeprefix("ref: ").strip()
    if _REFERENCE.fullmatch(name) is None:
        raise ValueError("HEAD leads to no reference")
    for folder in dict.fromkeys((own, common)):
        try:
            return _object(_read(folder, name).strip())
        except FileNotFoundError:
            continue
    for line in _read(common, "packed-refs", MOST_REFS_BYTES).splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return _object(commit)
    raise ValueError("nothing is committed yet")


def _object(text: str) -> str:
    if _OBJECT.fullmatch(text) is None:
        raise ValueError("a reference leads to no commit")
    return text


def _root_commit(common: Path, head: str) -> str:
    key = (str(common), head)
    if key not in _first_commits:
        _first_commits[key] = first_commit(common / "objects", head)
    return _first_commits[key]


def _remote(config: str, top: Path) -> str:
    """Return the address of `origin`, or of the first remote by name; empty where there is none."""
    found: dict[str, str] = {}
    for name, address in _addresses(config):
        found.setdefault(name, address)
    if not found:
        return ""
    return normal_address(found["origin"] if "origin" in found else found[min(found)], str(top))


def _addresses(config: str) -> Iterator[tuple[str, str]]:
    """Yield the remotes in a file of settings with their addresses. Raises ValueError for an address that is
    written in another way than git writes it."""
    name = ""
    for line in config.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = _SECTION.fullmatch(line)
            name = section[1] if section else ""
            continue
        key, _, value = line.partition("=")
        if name and key.strip().lower() == "url":
            value = value.strip()
            if not value or len(value) > LONGEST or any(letter in value for letter in '\\";#\0'):
                raise ValueError("the address of a remote has another form")
            yield name, value


def normal_address(address: str, top: str) -> str:
    """Return an address of a remote in one form for all protocols, without what may be secret: `host/path`,
    or an absolute path. A relative path starts at `top`."""
    if "://" in address:
        parts = urlsplit(address)
        if parts.scheme == "file":
            return _without_ending(posixpath.normpath(parts.path))
        host = parts.netloc.rpartition("@")[2].lower()
        return f"{host}/{_without_ending(parts.path).strip('/')}"
    short = _SHORT_ADDRESS.fullmatch(address)
    if short is not None:
        return f"{short[1].lower()}/{_without_ending(short[2]).strip('/')}"
    return _without_ending(os.path.realpath(os.path.join(top, address)))


def _without_ending(path: str) -> str:
    whole = path.rstrip("/")
    return (whole.removesuffix("/.git") if whole.endswith("/.git") else whole.removesuffix(".git")) or "/"
