"""Names of files that run by themselves or say what runs, such as git's hooks and the settings of agents.

The table, with a reason for each name, is `protected_paths.json`. It is the only list: the sandbox, flytui's
own file tools and the bundled tools all ask this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA_FILE = "protected_paths.json"
GIT_FOLDER = ".git"


class Protection(NamedTuple):
    """Why a path is protected."""

    name: str
    """The name in the table."""
    why: str
    person_only: bool = False
    """Whether flytui's own file tools never write it, even where a person approves the call."""


class _Pattern(NamedTuple):
    rest: tuple[str, ...]
    """The names that have to follow, in small letters."""
    protection: Protection


State = tuple[_Pattern, ...]
"""The patterns of which a folder's path has matched the beginning."""


class _Table(NamedTuple):
    anywhere: Mapping[str, tuple[_Pattern, ...]]
    """The patterns by their first name."""
    starred: tuple[_Pattern, ...]
    at_root: tuple[_Pattern, ...]
    git_parts: Mapping[str, Protection]
    """The members of a git repository that are protected."""
    git: Protection


@cache
def _table() -> _Table:
    data: Any = json.loads((Path(__file__).parent / DATA_FILE).read_text(encoding="utf-8"))
    anywhere: dict[str, tuple[_Pattern, ...]] = {}
    starred: list[_Pattern] = []
    at_root: list[_Pattern] = []
    parts: dict[str, Protection] = {}
    git = Protection(GIT_FOLDER, "")
    for group in data["groups"]:
        for name in group["names"]:
            protection = Protection(name, group["why"], group.get("personOnly", False))
            if "parts" in group:
                git = protection
                parts = {
                    part: protection._replace(name=f"{GIT_FOLDER}/{part}")
                    for part in map(_fold, group["parts"])
                }
                continue
            pattern = _Pattern(tuple(map(_fold, name.split("/"))), protection)
            if group.get("atRoot"):
                at_root.append(pattern)
            elif "*" in name:
                starred.append(pattern)
            else:
                anywhere[pattern.rest[0]] = (*anywhere.get(pattern.rest[0], ()), pattern)
    return _Table(anywhere, tuple(starred), tuple(at_root), parts, git)


def _fold(name: str) -> str:
    # Some file systems do not tell upper and lower case apart.
    return name.casefold()


def step(state: State, name: str, *, at_root: bool = False) -> tuple[Protection | None, State]:
    """Return why the member `name` of a folder is protected, or None and the state of that member.

    `state` is that of the folder, empty for one of which nothing is known, and `at_root` says that it is the
    project folder. Parts of git repositories are not known here: `repository_parts` names them.
    """
    table, folded = _table(), _fold(name)
    matching = [*table.anywhere.get(folded, ()), *(one for one in state if one.rest[0] == folded)]
    matching += [one for one in table.starred if fnmatchcase(folded, one.rest[0])]
    matching += [one for one in table.at_root if at_root and one.rest[0] == folded]
    hit = next((one.protection for one in matching if len(one.rest) == 1), None)
    return hit, tuple(_Pattern(one.rest[1:], one.protection) for one in matching if len(one.rest) > 1)


def repository_parts(folder: str, names: Iterable[str]) -> Mapping[str, Protection]:
    """Return the protected members of the folder, whose own name is `folder`, by their names in small letters
    if git takes it for a repository; none if it does not.

    `names` are its members. git takes a folder for one if it has HEAD, and objects and refs or a file that
    names another repository for these (gitrepository-layout(5)).
    """
    found = set(map(_fold, names))
    if _fold(folder) == GIT_FOLDER or (
        "head" in found and ({"objects", "refs"} <= found or "commondir" in found)
    ):
        return _table().git_parts
    return {}


def deciding_names() -> tuple[str, ...]:
    """Return the names of flytui's registry, policy and settings in a project."""
    return tuple(
        one.protection.name
        for patterns in _table().anywhere.values()
        for one in patterns
        if one.protection.person_only
    )


def git_protection() -> Protection:
    """Return the protection of git's own files."""
    return _table().git


def protection_of(path: str) -> Protection | None:
    """Return why flytui's own tools do not write the path, or only once a person was asked; None if they may.

    The path is without links and relative to the project folder. Everything in a folder `.git` counts,
    because git's own files are git's to write.
    """
    state: State = ()
    for position, name in enumerate(path.split("/")):
        if _fold(name) == GIT_FOLDER:
            return _table().git
        hit, state = step(state, name, at_root=position == 0)
        if hit is not None:
            return hit
    return None
