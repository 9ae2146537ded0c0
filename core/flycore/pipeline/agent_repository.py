"""Finds the git repository that git itself would use in a folder, and looks at what its files make git do.

git walks upwards and takes the first folder that has a valid `.git`, or that is a repository itself; whatever
is not valid it passes over (gitrepository-layout(5), `setup.c` of git). A clone or an unpacked archive can
bring either. So everything on the way that git could take, or that it would pass over, is objected to.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from flycore.policy.agent_commands.git_repository import (
    HOOK,
    RepositoryFacts,
    RepositoryFiles,
    address_has_password,
    look_at,
)
from flycore.policy.agent_commands.options import Objection
from flycore.policy.agent_commands.table import Effect
from flysafe.beneath import read_beneath
from flysafe.protected_paths import GIT_FOLDER

MOST_CONFIG_BYTES = 256 * 1024
MOST_INDEX_BYTES = 64 * 1024 * 1024
MOST_LOG_BYTES = 4 * 1024 * 1024
MOST_REPOSITORY_ENTRIES = 50_000
"""Files of a repository that are looked at for links; git packs loose objects when there are 6,700."""

_HEAD = re.compile(rb"(ref: refs/[^\s]+|[0-9a-f]{40}|[0-9a-f]{64})\n?")
_NOT_READ = frozenset(("hooks", "modules", "lfs", "annex"))
"""Folders of a repository in which reading commands open nothing. Of the hooks, the names are looked at."""


def repository_of(folder: str, root: str) -> str:
    """Return the folder whose `.git` git uses in `folder`, which lies in `root`; both are without links.

    Raises Objection where git could use another repository, or one that leads elsewhere.
    """
    while True:
        place = os.path.join(folder, GIT_FOLDER)
        if os.path.lexists(place):
            _check_valid(place)
            return folder
        if os.path.lexists(os.path.join(folder, "HEAD")):
            # With a file HEAD the folder may be a repository itself, whose objects and settings may also lie
            # where its `commondir` says. A clone can bring one.
            raise Objection(f"{folder!r} looks like a git repository without a work tree", Effect.STARTS)
        if folder == root:
            raise Objection("the git repository leaves the project folder", Effect.LEAVES)
        folder = os.path.dirname(folder)


def _check_valid(place: str) -> None:
    """Raise Objection where git would pass over this `.git`, or is led elsewhere by it."""
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        raise Objection("`.git` is no folder: the repository lies elsewhere", Effect.LEAVES)
    valid = bool(_HEAD.fullmatch(_bytes(Path(place), "HEAD", MOST_CONFIG_BYTES))) and all(
        os.path.isdir(os.path.join(place, name)) and os.access(os.path.join(place, name), os.X_OK)
        for name in ("objects", "refs")
    )
    if not valid:
        raise Objection(f"{place!r} is no valid repository, so that git may use another", Effect.STARTS)


def check_repository(folder: str, root: str) -> None:
    """Raise Objection where git may do more than read in this repository."""
    facts = repository_facts(os.path.join(folder, GIT_FOLDER))
    if facts.objection:
        raise Objection(f"git may do more than read here: {facts.objection}", Effect.STARTS)
    if facts.hooks_path:
        hooks = os.path.realpath(os.path.join(folder, facts.hooks_path))
        inside = hooks == root or hooks.startswith(root.rstrip("/") + "/")
        if not inside or facts.hooks_path.startswith("~") or HOOK in _names(hooks):
            raise Objection("git may do more than read here: its hooks lie elsewhere", Effect.STARTS)
    for path in facts.submodules:
        if os.path.lexists(os.path.join(folder, path, GIT_FOLDER)):
            raise Objection(f"git would start itself in the submodule {path!r}", Effect.STARTS)
    _check_work_tree(folder, root, facts.folders)


def _check_work_tree(folder: str, root: str, tracked: frozenset[str]) -> None:
    """Raise Objection where files that git reads by themselves lead outside, or would keep it waiting."""
    for path in ("", *sorted(tracked)):
        place = os.path.join(folder, path)
        # `git grep` opens what the index names, also behind a folder that has become a link.
        if os.path.islink(place) and not os.path.realpath(place).startswith(root.rstrip("/") + "/"):
            raise Objection(f"the tracked folder {path!r} is a link that leaves the project", Effect.LEAVES)
        names = (".gitignore", ".gitattributes", *(() if path else (".gitmodules", ".mailmap")))
        for name in names:
            check_read_by_itself(os.path.join(place, name), root)


def check_read_by_itself(place: str, root: str) -> None:
    """Raise Objection where a file that programs read without being told to, such as `.gitignore`, leads out
    of the project or would keep them waiting."""
    if not os.path.lexists(place):
        return
    real = os.path.realpath(place)
    if not real.startswith(root.rstrip("/") + "/"):
        raise Objection(f"{place!r}, which would be read, is a link that leaves the project", Effect.LEAVES)
    if never_ends(real):
        raise Objection(f"{place!r}, which would be read, is a pipe or a device", Effect.WAITS)


def never_ends(place: str) -> bool:
    """Return whether it is there and is neither a file nor a folder."""
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def repository_facts(place: str) -> RepositoryFacts:
    """Return what the files in the folder `place` of a repository make git do. Raises OSError, Objection."""
    hooks = os.path.join(place, "hooks")
    return look_at(
        RepositoryFiles(
            config=_text(place, "config"),
            names=frozenset(os.listdir(place)),
            irregular=_irregular(place),
            alternates=os.path.lexists(os.path.join(place, "objects/info/alternates")),
            hooks=frozenset(_names(hooks)),
            index=_bytes(Path(place), "index", MOST_INDEX_BYTES),
        )
    )


def shows_password(folder: str) -> bool:
    """Return whether a command that shows addresses of the repository in `folder` may show a password."""
    place = os.path.join(folder, GIT_FOLDER)
    # Older ways to name remotes, which are not read here; a new repository has an empty folder `branches`.
    if repository_facts(place).has_password or any(
        _names(os.path.join(place, name)) for name in ("remotes", "branches")
    ):
        return True
    # A `pull` with an address leaves it in the log of HEAD; the person's own settings may rewrite addresses.
    home = os.path.expanduser("~")
    further = (
        (place, "logs/HEAD"),
        (home, ".gitconfig"),
        (os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git/config"),
        ("/etc", "gitconfig"),
    )
    return any(_may_hold_password(where, name) for where, name in further)


def _may_hold_password(folder: str, name: str) -> bool:
    try:
        text = read_beneath(Path(folder), name, MOST_LOG_BYTES, links=True)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return any(address_has_password(word) for word in re.split(r"[\s\"'=]+", text.decode("utf-8", "replace")))


def _irregular(place: str) -> frozenset[str]:
    """The first link, pipe or device below the folder of a repository. git opens its files by their names, so
    a link would make it read, and show, what lies elsewhere."""
    waiting, count = [""], 0
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(place, below)) as entries:
            for entry in entries:
                count += 1
                if count > MOST_REPOSITORY_ENTRIES:
                    raise Objection(f"the repository has more than {MOST_REPOSITORY_ENTRIES:,} files")
                path = os.path.join(below, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if path not in _NOT_READ:
                        waiting.append(path)
                elif not entry.is_file(follow_symlinks=False) and not _is_socket(entry):
                    return frozenset((path,))
    return frozenset()


def _is_socket(entry: os.DirEntry[str]) -> bool:
    """Whether it is a socket, such as that of git's own file monitor, which no program opens as a file."""
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _text(folder: str, name: str) -> str:
    return _bytes(Path(folder), name, MOST_CONFIG_BYTES).decode("utf-8", "surrogateescape")


def _bytes(folder: Path, name: str, limit: int) -> bytes:
    try:
        return read_beneath(folder, name, limit)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return b""
        raise
