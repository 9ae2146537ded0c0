"""What a confined program asked for and was refused, and which permissions would grant it."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.json import Json, JsonObject

MOST_NAMED = 4
"""Refused paths that a message names."""


class RefusedPath(Value, frozen=True, kw_only=True):
    """A file or folder that exists on this machine, or could be made there, and was not granted."""

    path: str
    """Relative to the project where it lies in it, else absolute. Bytes that are no UTF-8 are written out."""
    write: bool = False
    grant: str = ""
    """What to declare for it; empty where that is left to the person."""
    why_not: str = ""
    """Why nothing is proposed for it."""


class Refusals(Value, frozen=True, kw_only=True):
    """What one call was refused, by an observer of its system calls, never by the program's own words."""

    paths: tuple[RefusedPath, ...] = ()
    """Sorted; those for which something is proposed come first."""
    network: bool = False
    """Whether it asked for a network socket."""
    unix_sockets: bool = False
    """Whether it asked for a Unix socket, which no permission grants."""
    listed: tuple[str, ...] = ()
    """Folders that look empty to it, and that it listed."""
    left_out: bool = False
    """Whether there was more than is noted."""
    unreadable: bool = False
    """Whether the paths of some calls could not be read."""
    read: tuple[str, ...] = ()
    """The smallest addition to `permissions.fs.read`."""
    write: tuple[str, ...] = ()
    """The smallest addition to `permissions.fs.write`."""

    @property
    def explains_failure(self) -> bool:
        """Whether something was refused for which a permission exists."""
        return bool(self.paths) or self.network

    @property
    def grantable(self) -> bool:
        """Whether there is something to add to the entry."""
        return bool(self.read or self.write) or self.network


def with_granted(declared: JsonObject, refusals: Refusals) -> JsonObject:
    """Return the `permissions` of an entry with what was refused added. `declared` are those in its file."""
    permissions: JsonObject = dict(declared)
    if refusals.network:
        permissions["network"] = True
    written = permissions.get("fs")
    folders: JsonObject = dict(written) if isinstance(written, dict) else {}
    for key, more in (("read", refusals.read), ("write", refusals.write)):
        before = folders.get(key)
        paths: list[Json] = [*(before if isinstance(before, list) else ())]
        paths += [path for path in more if path not in paths]
        if paths:
            folders[key] = paths
    if folders:
        permissions["fs"] = folders
    return permissions


def refusal_sentences(refusals: Refusals, tool: str) -> tuple[str, ...]:
    """Return what was refused in words, bounded."""
    found = [
        f"{item.path} lies outside what {tool} may {'write' if item.write else 'read'}"
        + (f" ({item.why_not})" if item.why_not else "")
        for item in refusals.paths[:MOST_NAMED]
    ]
    if len(refusals.paths) > MOST_NAMED:
        found.append(f"{len(refusals.paths) - MOST_NAMED} further paths were refused")
    if refusals.network:
        found.append(f"{tool} has no network")
    return tuple(found)
