"""Digests of files and of whole folders, and the files of the package that a program belongs to.

A file is read through a descriptor, and its digest is remembered by the facts that `stat` returns.
"""

from __future__ import annotations

import errno
import hashlib
import marshal
import os
import stat
import time
from collections.abc import Callable, Iterable
from itertools import islice
from operator import attrgetter
from pathlib import Path

import msgspec

from flycore.model.enums import Anchor
from flycore.model.program import ResolvedProgram
from flycore.sandbox.observed_files import LINKS_FOLLOWED, SETTLED_NS, note_content, note_digest, real_path
from flysafe.beneath import open_beneath

Identity = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds."""

_CHUNK = 1 << 20
_MOST_REMEMBERED = 32_768
_remembered: dict[Identity, str] = {}


def identity(about: os.stat_result) -> Identity:
    """The facts that change whenever the content of the file does."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def file_digest(path: str) -> tuple[Identity, str]:
    """The identity and SHA-256 of a regular file; a link at the end of `path` is not followed.

    Raises OSError where the file cannot be read, is not a regular file, or changes while it is read.
    """
    about = os.stat(path, follow_symlinks=False)
    note_content(path, about)
    known = _remembered.get(identity(about))
    if known is not None and stat.S_ISREG(about.st_mode):
        note_digest(path, known)
        return identity(about), known
    descriptor = open_regular(path)
    try:
        found = remember(descriptor, read_through(descriptor, path, lambda _: None))
    finally:
        os.close(descriptor)
    note_digest(path, found[1])
    return found


def open_regular(path: str) -> int:
    """A descriptor for reading a regular file. Raises OSError for a link and for any other kind of file."""
    # O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "is not a regular file", path)
    return descriptor


def read_through(descriptor: int, path: str, take: Callable[[bytes], object]) -> str:
    """The SHA-256 of all bytes, which are also passed to `take`. Raises OSError where the file changes
    meanwhile."""
    before = identity(os.fstat(descriptor))
    sha = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        sha.update(chunk)
        take(chunk)
    if identity(os.fstat(descriptor)) != before:
        raise ChangedWhileReadError(None, "changed while it was read", path)
    return sha.hexdigest()


def known_digest(about: Identity) -> str | None:
    """The digest of the file with that identity; None where it is not remembered."""
    return _remembered.get(about)


def remember(descriptor: int, sha: str) -> tuple[Identity, str]:
    """Remember the digest that was just read through `descriptor`, and return it with the file's identity."""
    now = identity(os.fstat(descriptor))
    if settled(now):
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[now] = sha
    return now, sha


def settled(about: Identity) -> bool:
    """Whether the last change is so long ago that a further one would show in the file's times."""
    # ctime decides: a program can set mtime to any value, but that moves ctime to the present.
    return time.time_ns() - about[4] > SETTLED_NS


# Digests and copies of whole folders: every file, folder and link below a root.
#
# A copy has fixed modes: folders 0500, programs 0500, other files 0400, owned by this user. A digest is over
# these modes, so that the digest of a source and that of its unchanged copy are equal.


MOST_MEMBERS = 50_000
MOST_BYTES = 4 << 30
DEEPEST = 64
CACHE = "__pycache__"
RUNS, READS = 0o500, 0o400
"""The modes in a copy: of folders and executable files, and of all other files."""

_NONE: Identity = (0, 0, 0, 0, 0)
"""The identity of a folder, whose times say nothing about its tree, and of the file in place of a cache."""
_EMPTY = hashlib.sha256().hexdigest()
_MOST_TREES = 256
_tree_digests: dict[tuple[str, bool], tuple[bytes, str]] = {}
"""By root and whether it was read as a source: the fingerprint of the listing, and the digest."""


class ChangedWhileReadError(OSError):
    """The file, or one of the folder's files, changed while it was read."""


class UnsealableError(OSError):
    """The tree has a member that cannot be sealed, such as a link that leads out of it."""


class Member(msgspec.Struct, frozen=True):
    """One file, folder or link. `path` is relative to the root, `.` for the root itself."""

    path: str
    mode: int
    """The mode that `stat` returns, with the type."""
    identity: Identity
    link: str = ""
    """The target of a link, as it is written in the link."""


def tree_digest(root: str) -> str:
    """The digest over paths, modes and contents of a source folder. Where nothing changed, this costs one
    `stat` for each file and reads none.

    Raises UnsealableError for a link that leads out, for a device, pipe or socket, and for a folder above the
    limits; OSError, with the file's name, for a file that cannot be read or changes meanwhile.
    """
    return _digested(root, _cached_list(root), source=True)


def copy_digest(root: str) -> str:
    """The digest over a copy as it is now: equal to the digest of its source as long as nobody changed it."""
    return _digested(root, list_tree(root), source=False)


def copy_tree(root: str, target: Path) -> str:
    """Copy a source folder to `target`, which is created, and return the digest of the bytes that were
    copied.

    Raises what `tree_digest` raises, and OSError where the copy cannot be written. The caller has to remove
    an unfinished copy.
    """
    members = _as_copied(root, _cached_list(root))
    os.mkdir(target, 0o700)
    contents: dict[str, str] = {}
    anchor = _open_root(root)
    try:
        for member in members:
            content = _copy_member(anchor, root, member, target / member.path)
            contents.update({member.path: content} if content else {})
    finally:
        os.close(anchor)
    # Folders become read-only last and from the inside out, because files are made in them until then.
    for member in reversed(members):
        if stat.S_ISDIR(member.mode):
            os.chmod(target / member.path, RUNS)
    return _digest(members, lambda member: contents[member.path])


def list_tree(root: str) -> list[Member]:
    """All members below `root`, sorted by path, the root itself first. No link is followed."""
    anchor = _open_root(root)
    try:
        about = os.fstat(anchor)
        note_content(root, about)
        members = [_member(".", about)]
        waiting = ["."]
        while waiting:
            inside = _list_folder(anchor, root, waiting.pop())
            members += inside
            waiting += [member.path for member in inside if stat.S_ISDIR(member.mode)]
            if len(members) > MOST_MEMBERS:
                raise UnsealableError(errno.EFBIG, "holds more files than can be sealed", root)
    finally:
        os.close(anchor)
    if sum(member.identity[2] for member in members) > MOST_BYTES:
        raise UnsealableError(errno.EFBIG, "holds more bytes than can be sealed", root)
    return _sorted(members)


def _open_root(root: str) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _list_folder(anchor: int, root: str, folder: str) -> list[Member]:
    if folder.count("/") >= DEEPEST:
        raise UnsealableError(errno.ENAMETOOLONG, "is deeper than can be sealed", os.path.join(root, folder))
    members = []
    descriptor = open_beneath(anchor, folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            for entry in islice(entries, MOST_MEMBERS + 1):
                about = entry.stat(follow_symlinks=False)
                link = os.readlink(entry.name, dir_fd=descriptor) if stat.S_ISLNK(about.st_mode) else ""
                path = entry.name if folder == "." else f"{folder}/{entry.name}"
                note_content(os.path.join(root, path), about)
                members.append(_member(path, about, link))
    finally:
        os.close(descriptor)
    return members


def _member(path: str, about: os.stat_result, link: str = "") -> Member:
    return Member(path, about.st_mode, _NONE if stat.S_ISDIR(about.st_mode) else identity(about), link)


def _sorted(members: list[Member]) -> list[Member]:
    """The members sorted by path, with the root first: every folder comes before what it holds."""
    return [members[0], *sorted(members[1:], key=attrgetter("path"))]


def _cached_list(root: str) -> list[Member]:
    """The members of a source, without Python's caches."""
    # A cache is run in place of its source. It is not what a person reads, so it is neither sealed nor
    # copied.
    return [member for member in list_tree(root) if CACHE not in member.path.split("/")]


def _as_copied(root: str, listed: list[Member]) -> list[Member]:
    """The members that a copy has, with the modes of a copy. Raises UnsealableError for a link that leads
    out, and for a member of another kind."""
    links = {member.path: member.link for member in listed if stat.S_ISLNK(member.mode)}
    members = []
    for member in listed:
        kind = stat.S_IFMT(member.mode)
        if kind == stat.S_IFLNK:
            if not _stays_inside(member.path, links):
                raise UnsealableError(
                    errno.EXDEV, "is a link that leads out", os.path.join(root, member.path)
                )
            members.append(member)
        elif kind == stat.S_IFDIR or kind == stat.S_IFREG:
            runs = kind == stat.S_IFDIR or member.mode & 0o111
            members.append(Member(member.path, kind | (RUNS if runs else READS), member.identity))
        else:
            raise UnsealableError(errno.EINVAL, "is no file, folder or link", os.path.join(root, member.path))
    # An empty file stands where Python would make its cache folder: a read-only mode alone does not keep
    # root from making one, whose content would then run instead of the sealed source.
    folders = {os.path.dirname(member.path) for member in members if member.path.endswith(".py")}
    members += [Member(os.path.join(folder, CACHE), stat.S_IFREG | READS, _NONE) for folder in folders]
    return _sorted(members)


def _stays_inside(path: str, links: dict[str, str]) -> bool:
    """Whether the link at `path`, followed with every other link on its way, never leaves the tree. Its
    target need not exist."""
    parts: list[str] = []
    followed = 0
    names = path.split("/")[::-1]
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not parts:
                return False
            parts.pop()
            continue
        target = links.get("/".join((*parts, name)))
        if target is None:
            parts.append(name)
            continue
        followed += 1
        if target.startswith("/") or followed > LINKS_FOLLOWED:
            return False
        names += target.split("/")[::-1]
    return True


def _copy_member(anchor: int, root: str, member: Member, target: Path) -> str:
    """Copy one member. Returns the SHA-256 of the bytes copied for a file, and an empty text for a folder or
    link."""
    if stat.S_ISLNK(member.mode):
        os.symlink(member.link, target)
        return ""
    if stat.S_ISDIR(member.mode):
        if member.path != ".":
            os.mkdir(target, 0o700)
        return ""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(target, flags, 0o600), "wb") as writing:
        os.fchmod(writing.fileno(), stat.S_IMODE(member.mode))
        if member.identity == _NONE:
            return _EMPTY
        return _read(anchor, root, member, writing.write)


def _read(anchor: int, root: str, member: Member, take: Callable[[bytes], object]) -> str:
    """The SHA-256 of the file that was listed. Raises OSError where another file has taken its place."""
    name = os.path.join(root, member.path)
    descriptor = open_beneath(anchor, member.path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if identity(os.fstat(descriptor)) != member.identity:
            raise ChangedWhileReadError(None, "changed while it was read", name)
        return remember(descriptor, read_through(descriptor, name, take))[1]
    finally:
        os.close(descriptor)


def _digested(root: str, members: list[Member], *, source: bool) -> str:
    """The digest of the members; a remembered one where they are those that it was made of."""
    facts = [(member.path, member.mode, member.identity, member.link) for member in members]
    fingerprint = hashlib.sha256(marshal.dumps(facts, 2)).digest()
    known = _tree_digests.get((root, source))
    if known is not None and known[0] == fingerprint:
        return known[1]
    shaped = _as_copied(root, members) if source else members
    anchor = _open_root(root)
    try:
        digest = _digest(shaped, lambda member: _content(anchor, root, member))
    finally:
        os.close(anchor)
    # A file that changed a moment ago could change again without a new time: such a tree is not remembered.
    if all(settled(member.identity) for member in members):
        if len(_tree_digests) >= _MOST_TREES:
            _tree_digests.clear()
        _tree_digests[root, source] = fingerprint, digest
    return digest


def _content(anchor: int, root: str, member: Member) -> str:
    if member.identity == _NONE:
        return _EMPTY
    return known_digest(member.identity) or _read(anchor, root, member, lambda _: None)


def _digest(members: list[Member], content: Callable[[Member], str]) -> str:
    """The SHA-256 over kind, mode, path and content of every member."""
    # Each part has its length before it, so that no two trees give the same bytes.
    sha = hashlib.sha256(b"flytui tree 1\0")
    for member in members:
        link = stat.S_ISLNK(member.mode)
        what = member.link if link else content(member) if stat.S_ISREG(member.mode) else ""
        mode = stat.S_IFLNK if link else member.mode
        for part in (b"%o" % mode, os.fsencode(member.path), os.fsencode(what)):
            sha.update(b"%d:" % len(part))
            sha.update(part)
    return sha.hexdigest()


# The package folder that a program belongs to, and the paths of its files in a copy of that folder.


PACKAGES = "tools/packages"
"""The folder below the app root in which each package has a folder of its own."""


def package_of(program: ResolvedProgram, packages: Path) -> str:
    """The real folder of the package that the program belongs to; empty where it belongs to none.

    Raises UnsealableError for a command that names a package and leads, by a link, out of it.
    """
    folder = real_path(str(packages)) or os.path.realpath(packages)
    if program.base is Anchor.APP:
        package, _, inside = os.path.normpath(program.declared).removeprefix(PACKAGES + "/").partition("/")
        if inside and os.path.normpath(program.declared).startswith(PACKAGES + "/"):
            root = os.path.realpath(os.path.join(folder, package))
            if lies_beneath(program.path, root):
                return root
            raise UnsealableError(errno.EXDEV, "leads out of its package", program.path)
    if not lies_beneath(program.path, folder):
        if program.base is Anchor.DATA:
            raise UnsealableError(errno.EXDEV, "leads out of its package", program.path)
        return ""
    package, _, inside = program.path[len(folder) + 1 :].partition("/")
    return os.path.join(folder, package) if inside else ""


def lies_beneath(path: str, folder: str) -> bool:
    """Whether the path lies below the folder. Both must be real paths, without links."""
    return path.startswith(folder.rstrip("/") + "/")


def is_single_file(path: str) -> bool:
    """Whether the file is the only one in its folder, so that a copy of the folder is complete."""
    folder, name = os.path.split(path)
    note_content(folder, os.lstat(folder))
    with os.scandir(folder) as entries:
        return all(entry.name in (name, CACHE) for entry in entries)


def path_in_copy(path: str, held: Iterable[tuple[str, str]]) -> str:
    """The path in the copy of the folder that it lies below; unchanged where it lies below none. `held` has
    each folder with its copy."""
    for root, copy in held:
        if lies_beneath(path, root):
            return copy + path[len(root) :]
    return path
