"""Says whether the own files of a git repository make reading commands start programs or read elsewhere.

`git status` and `git diff` do in a hostile repository: its `config` names programs (core.fsmonitor, textconv,
filters, external diffs, a pager, an SSH command for objects that are fetched when they are missed), it may
include other files, the hook post-index-change runs whenever the index is refreshed, and git starts itself
in each submodule, with that one's settings. A clone brings none of these files, but an unpacked archive does,
and a folder of a clone can look like a repository without a work tree.

So a repository has to be plain: every key of its settings is one of `gitSettings` and `gitNamedSettings`
in `commands.json`, which start nothing and read nothing else. The person's own settings are the person's own,
and not looked at. Sources: git-config(1), githooks(5), gitrepository-layout(5), index-format(5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from flycore.model.base import Value
from flycore.policy.agent_commands.table import command_table

HOOK = "post-index-change"
_GITLINK = 0o160000
_LINK_EXTENSIONS = (b"link", b"sdir")


class RepositoryFiles(Value, frozen=True, kw_only=True):
    """The files of a repository that decide what reading commands do."""

    config: str = ""
    names: frozenset[str] = frozenset()
    """The names in the repository's folder."""
    irregular: frozenset[str] = frozenset()
    """Paths below it of what is neither a file nor a folder: links, pipes, devices."""
    alternates: bool = False
    """Whether it takes objects from another repository."""
    hooks: frozenset[str] = frozenset()
    """The names in its folder of hooks."""
    index: bytes = b""


class RepositoryFacts(Value, frozen=True, kw_only=True):
    """What is found in these files."""

    objection: str = ""
    """Why git may do more than read here; empty where it does not."""
    hooks_path: str = ""
    """The folder that core.hooksPath names."""
    submodules: tuple[str, ...] = ()
    """Paths in the work tree where another repository may be, in which git would start itself."""
    folders: frozenset[str] = frozenset()
    """Folders of the work tree with files of the index in them."""
    has_password: bool = False
    """Whether the settings hold a password in an address."""


def look_at(files: RepositoryFiles) -> RepositoryFacts:
    """Return what the files of a repository mean for commands that read."""
    if files.irregular:
        return RepositoryFacts(objection=f"`.git/{min(files.irregular)}` is a link or a pipe")
    for name in ("commondir", "config.worktree"):
        if name in files.names:
            return RepositoryFacts(objection=f"`.git/{name}` brings further settings")
    if files.alternates:
        return RepositoryFacts(objection="it takes objects from another repository")
    if HOOK in files.hooks:
        return RepositoryFacts(objection=f"its hook {HOOK} runs when the index is refreshed")
    hooks_path, password = "", False
    try:
        for key, value in config_items(files.config):
            if key == "core.repositoryformatversion" and value not in ("0", "1"):
                return RepositoryFacts(objection="git refuses a repository of its version")
            if not is_plain(key):
                return RepositoryFacts(objection=f"its setting {key} may start a program or read other files")
            hooks_path = value if key == "core.hookspath" else hooks_path
            found = address_has_password(key) or address_has_password(value)
            if found and key.startswith("branch."):
                return RepositoryFacts(objection="a branch has an address with a password for its remote")
            password |= found
        submodules, folders = [], set[str]()
        for mode, path in index_entries(files.index):
            if mode & 0o170000 == _GITLINK:
                submodules.append(path)
            while (path := path.rpartition("/")[0]) and path not in folders:
                folders.add(path)
    except ValueError as error:
        return RepositoryFacts(objection=str(error))
    return RepositoryFacts(
        hooks_path=hooks_path,
        submodules=tuple(submodules),
        folders=frozenset(folders),
        has_password=password,
    )


def address_has_password(text: str) -> bool:
    """Return whether an address holds what may be a password: for web addresses also a name alone, which may
    be a token, and a query."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return False
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if scheme.lower().endswith("ssh"):
        return bool(at) and ":" in user
    return bool(at) or "?" in rest


def is_plain(key: str) -> bool:
    """Return whether a key, with section and key in small letters, starts nothing."""
    section, _, rest = key.partition(".")
    table = command_table()
    if "." not in rest:
        return key in table.git_settings
    return rest.rpartition(".")[2] in table.git_named_settings.get(section, ())


def config_items(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration file, as `section.key` or `section.name.key`, with their values.

    Raises ValueError for anything that is not written in the plain way in which git writes it.
    """
    section = ""
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            section = _section(line)
            continue
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        # A backslash joins or escapes, quotes and comments change what the value is.
        if not section or not name.replace("-", "").isalnum() or any(one in value for one in '\\";#'):
            raise ValueError("its settings are written in a way that flytui does not read")
        yield f"{section}.{name.lower()}", value if equals else "true"


def _section(line: str) -> str:
    inside = line[1:-1]
    if not line.endswith("]") or any(one in inside for one in "[]\\"):
        raise ValueError("its settings are written in a way that flytui does not read")
    name, blank, quoted = inside.partition(" ")
    if not name.replace("-", "").isalnum() or not name.isascii():
        raise ValueError("its settings are written in a way that flytui does not read")
    if not blank:
        return name.lower()
    if len(quoted) < 2 or quoted[0] != '"' or quoted[-1] != '"' or '"' in quoted[1:-1]:
        raise ValueError("its settings are written in a way that flytui does not read")
    return f"{name.lower()}.{quoted[1:-1]}"


def index_entries(index: bytes) -> Iterator[tuple[int, str]]:
    """Yield the modes and paths of the index. Raises ValueError for an index that is not read whole."""
    if not index:
        return
    try:
        yield from _index_entries(index)
    except (struct.error, IndexError):
        raise ValueError("its index cannot be read") from None


def _index_entries(index: bytes) -> Iterator[tuple[int, str]]:
    signature, version, count = struct.unpack_from(">4sII", index)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("its index has a form that flytui does not read")
    at, name = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", index, at + 24)
        (flags,) = struct.unpack_from(">H", index, at + 60)
        start = at + 62 + (2 if flags & 0x4000 else 0)
        if version == 4:
            strip, start = _offset(index, start)
            end = _end(index, start)
            name = name[: len(name) - strip] + index[start:end]
            at = end + 1
        else:
            end = _end(index, start)
            name = index[start:end]
            at += (end - at + 8) & ~7
        yield mode, name.decode("utf-8", "surrogateescape")
    while at + 28 <= len(index):
        extension, size = struct.unpack_from(">4sI", index, at)
        if extension in _LINK_EXTENSIONS:
            raise ValueError("its index is split over several files")
        at += 8 + size


def _end(index: bytes, start: int) -> int:
    end = index.find(b"\0", start)
    if end < 0:
        raise IndexError(start)
    return end


def _offset(index: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length, as version 4 of the index has it before each name."""
    byte = index[at]
    value, at = byte & 0x7F, at + 1
    while byte & 0x80:
        byte = index[at]
        value, at = ((value + 1) << 7) | (byte & 0x7F), at + 1
    return value, at
