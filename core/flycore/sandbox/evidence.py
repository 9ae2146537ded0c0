"""What the notes of an observer mean: which accesses were refused, and the smallest permissions for them.

A program chooses which paths it names, so a note is no reason to grant anything: what may hold secrets, what
lies in the person's home outside the project, and what decides which programs run is named and never
proposed. The system's own files are not even named: every program asks for some of them and goes on without.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

import msgspec

from flycore.model.refusals import Refusals, RefusedPath
from flycore.registry.names import looks_secret
from flysafe.protected_paths import protection_of
from flysafe.text import strict_text

MOST_PATHS = 40
"""Refused paths that are kept."""
MOST_PROPOSED = 8
"""Paths that are proposed at most for reading, and for writing."""
MOST_IN_FOLDER = 3
"""More paths in one folder than this are proposed as the folder."""
LONGEST_SHOWN = 300
_MOST_LOOKED_AT = 10_000
"""Names in a folder that are looked at before the whole folder is proposed."""
_SYSTEM = (
    "/etc",
    "/var",
    "/run",
    "/boot",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/dev",
)
PRIVATE = ("/tmp", "/dev/shm")  # noqa: S108
"""Folders of which a program under bubblewrap has its own."""
_SECRET_NAMES = frozenset(
    (
        *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla", ".netrc"),
        *(".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".env", ".envrc"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
    )
)
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".asc", ".gpg", ".jks")
_RUNS_PROGRAMS = frozenset((".hg", ".svn", "node_modules"))
"""Folders of a project in which a written file is run by other programs, besides the protected paths."""
_HOLDS_SECRETS = "it may hold secrets, so flytui does not propose it"


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """The places of one call by which refused paths are judged: absolute, without links."""

    app_root: str
    home: str = ""
    protected: tuple[str, ...] = ()
    """flytui's own state, settings, rules and registries."""
    program: tuple[str, ...] = ()
    """The files and folders of the sealed program, in which nothing may be written."""
    private_tmp: bool = False
    """Whether the program has its own `PRIVATE` folders."""


class _Notes(msgspec.Struct):
    """The notes by their kind."""

    opened: set[bytes] = msgspec.field(default_factory=set)
    asked: set[bytes] = msgspec.field(default_factory=set)
    changed: set[bytes] = msgspec.field(default_factory=set)
    made: set[bytes] = msgspec.field(default_factory=set)
    listed: set[bytes] = msgspec.field(default_factory=set)
    flags: set[bytes] = msgspec.field(default_factory=set)


def refusals_in(notes: bytes, ground: Ground) -> Refusals:
    """Return what the notes say was refused. Looks at this machine's files: a path that exists nowhere, and
    one that this user could not reach without a sandbox either, was not refused by it."""
    found = _parsed(notes)
    writes = {path for path in found.changed | found.made if _could_write(path, ground)}
    reads = {path for path in found.opened - writes if _could_read(path, ground)}
    if not (reads or writes or b"n" in found.flags):
        # Many programs only look whether a file is there: that counts where nothing else was refused.
        project = (path for path in found.asked if _at_or_below(_text(path), ground.app_root))
        reads = {path for path in project if _could_read(path, ground)}
    judged = [_judged(path, ground, write=False, folder=False) for path in reads]
    judged += [_judged(path, ground, write=True, folder=path in found.made) for path in writes]
    judged.sort(key=lambda item: (not item.grant, item.path, item.write))
    write = _smallest((item.grant for item in judged if item.write and item.grant), ground)
    read = _smallest((item.grant for item in judged if not item.write and item.grant), ground, covered=write)
    return Refusals(
        paths=tuple(judged[:MOST_PATHS]),
        network=b"n" in found.flags,
        unix_sockets=b"x" in found.flags,
        listed=tuple(sorted(_shown(_relative(_text(path), ground)) for path in found.listed)),
        left_out=b"m" in found.flags or len(judged) > MOST_PATHS,
        unreadable=b"u" in found.flags,
        read=read[:MOST_PROPOSED],
        write=write[:MOST_PROPOSED],
    )


def refused_write(path: str, ground: Ground, *, top: str) -> RefusedPath:
    """Return the path of the project, which is not granted and would be written, with what to declare for it:
    its folder, or `top` where that is the project's own."""
    folder = os.path.dirname(path)
    whole = _at_or_below(ground.app_root, folder)
    looked_at = (path,) if whole else (folder, path)
    reasons = (_why_not(os.fsencode(found), found, ground, write=True) for found in looked_at)
    why_not = next(filter(None, reasons), "")
    return RefusedPath(
        path=_shown(_relative(path, ground)),
        write=True,
        grant="" if why_not else top if whole else _relative(folder, ground),
        why_not=why_not,
    )


def _parsed(notes: bytes) -> _Notes:
    found = _Notes()
    kinds = {
        b"r": found.opened,
        b"s": found.asked,
        b"w": found.changed,
        b"d": found.made,
        b"l": found.listed,
    }
    # Behind the last NUL is nothing, or a note that was cut.
    for note in notes.split(b"\0")[:-1]:
        kind, path = note[:1], note[1:]
        if not path:
            found.flags.add(kind)
        elif kind in kinds:
            kinds[kind].add(path)
    return found


def _is_of_the_system(path: str) -> bool:
    return _below_any(path, _SYSTEM) and not _below_any(path, PRIVATE)


def _could_read(path: bytes, ground: Ground) -> bool:
    """Whether this user could read it without a sandbox, and it is none of the system's own files."""
    text = _text(path)
    own = _at_or_below(text, ground.app_root) or not _is_of_the_system(text)
    return own and os.access(path, os.R_OK)


def _could_write(path: bytes, ground: Ground) -> bool:
    """Whether this user could write there without a sandbox."""
    text, above = _text(path), os.path.dirname(path)
    if ground.private_tmp and _below_any(text, PRIVATE) and not _at_or_below(text, ground.app_root):
        return False  # it was written, into a memory file system of the program's own
    if os.path.lexists(path):
        return os.access(path, os.W_OK)
    return os.path.isdir(above) and os.access(above, os.W_OK)


def _judged(path: bytes, ground: Ground, *, write: bool, folder: bool) -> RefusedPath:
    text = _text(path)
    grant = path
    if write and not folder and not os.path.lexists(path):
        # What is declared and missing is made as a folder, so a new file needs the folder that it comes into.
        grant = os.path.dirname(path)
    # A link is granted as what it leads to.
    leads_to = {grant, path, os.path.realpath(grant)}
    reasons = (_why_not(found, _text(found), ground, write=write) for found in sorted(leads_to))
    why_not = next(filter(None, reasons), "")
    return RefusedPath(
        path=_shown(_relative(text, ground)),
        write=write,
        grant="" if why_not else _relative(_text(grant), ground),
        why_not=why_not,
    )


def _why_not(path: bytes, text: str, ground: Ground, *, write: bool) -> str:
    """Why that path is not proposed; empty where it is."""
    if strict_text(text) != text or not _is_utf8(path) or "${" in text:
        return "its name holds characters that a registry cannot show"
    if _at_or_below(ground.app_root, text):
        return "the whole project is not proposed; name the folders that it needs"
    if _may_hold_secrets(_relative(text, ground)) or _holds_secrets(path):
        return _HOLDS_SECRETS
    if _below_any(text, ground.protected) or any(_at_or_below(kept, text) for kept in ground.protected):
        return "it decides what flytui runs and allows, or holds its records"
    if write and _below_any(text, ground.program):
        return "it belongs to the sealed program, in which nothing may be written"
    protected = write and protection_of(_relative(text, ground)) is not None
    if protected or (write and not _RUNS_PROGRAMS.isdisjoint(text.split("/"))):
        return "other programs run what is written there"
    if _at_or_below(text, ground.app_root):
        return ""
    if ground.home and _at_or_below(text, ground.home):
        return "it lies in your home folder and outside the project"
    return "it belongs to the system" if _is_of_the_system(text) else ""


def _may_hold_secrets(path: str) -> bool:
    parts = path.split("/")
    name = parts[-1].lower()
    return (
        not _SECRET_NAMES.isdisjoint(part.lower() for part in parts)
        or name.startswith(".env.")
        or name.endswith(_SECRET_ENDINGS)
        or looks_secret(name)
    )


def _smallest(grants: Iterable[str], ground: Ground, *, covered: Iterable[str] = ()) -> tuple[str, ...]:
    """The fewest paths that grant all of these, sorted, without what `covered` grants already."""
    wanted = {path for path in grants if not any(_at_or_below(path, above) for above in covered)}
    for folder in sorted({os.path.dirname(path) for path in wanted}):
        inside = {path for path in wanted if os.path.dirname(path) == folder}
        if len(inside) > MOST_IN_FOLDER and folder and _may_be_granted(folder, ground):
            wanted = wanted - inside | {folder}
    return tuple(
        path
        for path in sorted(wanted)
        if not any(path != above and _at_or_below(path, above) for above in wanted)
    )


def _may_be_granted(folder: str, ground: Ground) -> bool:
    """Whether the whole folder may be proposed: for what lies in it, too."""
    path = os.fsencode(os.path.join(ground.app_root, folder))
    return not _why_not(path, _text(path), ground, write=True)


def _holds_secrets(folder: bytes) -> bool:
    """Whether a name below the folder looks like a secret's. In doubt one does: also where there are too many
    to look at."""
    names = (name for _, folders, files in os.walk(folder) for name in (*folders, *files))
    some = list(itertools.islice(names, _MOST_LOOKED_AT + 1))
    return len(some) > _MOST_LOOKED_AT or any(_may_hold_secrets(_text(name)) for name in some)


def _relative(path: str, ground: Ground) -> str:
    if not _at_or_below(path, ground.app_root):
        return path
    return os.path.relpath(path, ground.app_root)


def _shown(path: str) -> str:
    return path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}…"


def _text(path: bytes) -> str:
    """The path as text that is always UTF-8."""
    return path.decode("utf-8", "backslashreplace")


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _below_any(path: str, folders: Iterable[str]) -> bool:
    return any(_at_or_below(path, folder) for folder in folders)


def _at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
