"""The folders that a program needs besides the system's own: its interpreter's installation and its package.

They are found from files, and nothing is run. Each is mounted read-only. Sources: PEP 405 (`pyvenv.cfg`),
PEP 610 (`direct_url.json` of an editable installation), and the layouts of pyenv, uv, pipx, node and bun as
they are on disk.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from flycore.model.program import ResolvedProgram

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?\Z")
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts")
_TOO_WIDE = 2
"""How many parts a root must have at least, so that `/`, `/home` and `/opt` are never mounted whole."""
_MAX_DISTRIBUTIONS = 2_000
_MAX_FILE = 65_536
_MAX_LISTINGS = 64
_INSTALLED_NS = 60_000_000_000
"""Nanoseconds after which an installer is done with what it began to install."""


class RuntimeUnknown(Exception):
    """The folders of a runtime cannot be worked out; `path` is what would have to be readable."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"what {path} needs to run cannot be worked out")


def runtime_roots(program: ResolvedProgram) -> tuple[str, ...]:
    """Return the files and folders that the program reads as it runs, without what every program has.

    Raises RuntimeUnknown where an installation has no folder that could be mounted without much else.
    """
    started = (program.path, *program.interpreter_argv[:1], program.interpreter, *program.argv[:1])
    found = dict.fromkeys((*_roots_of(*filter(os.path.isabs, started)), *_script_packages(program)))
    roots = [root for root in found if not _below_any(root, _SYSTEM) and os.path.exists(root)]
    for root in roots:
        if root.count("/") < _TOO_WIDE or root == os.path.expanduser("~"):
            raise RuntimeUnknown(root)
    return tuple(_outermost(roots))


def python_roots(interpreter: str) -> tuple[str, ...]:
    """Return the files and folders that a Python needs, given the path of its interpreter."""
    return tuple(_outermost(root for root in _roots_of(interpreter) if not _below_any(root, _SYSTEM)))


def _roots_of(*paths: str) -> Iterator[str]:
    """Each file itself where it was named by a link, its real file, and the installations around them."""
    prefixes: dict[str, None] = {}
    files = dict.fromkeys(file for path in dict.fromkeys(paths) for file in (path, os.path.realpath(path)))
    for file in files:
        if _below_any(file, _SYSTEM):
            continue  # every program has it, and what lies around it
        yield file
        folder, name = os.path.split(file)
        prefix = os.path.dirname(folder)
        if _PYTHON.match(name) or os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
            prefixes[prefix] = None
        elif os.path.basename(folder) == "shims":
            yield prefix  # pyenv, rbenv: a shim looks up the version to run in the whole tree
        elif os.path.basename(folder) == "bin" and _has_library(prefix):
            yield _prefix_root(prefix)
    for prefix in prefixes:
        yield from _python_roots(prefix)


def _prefix_root(prefix: str) -> str:
    """What is mounted of an installation at that prefix: all of it, but of `~/.local` only the libraries. The
    rest of that folder is the person's own: keyrings, histories, what other programs keep there."""
    own = os.path.join(os.path.expanduser("~"), ".local")
    return os.path.join(prefix, "lib") if prefix in (own, os.path.realpath(own)) else prefix


def _has_library(prefix: str) -> bool:
    return any(os.path.isdir(os.path.join(prefix, name)) for name in ("lib", "lib64", "share"))


def _python_roots(prefix: str) -> Iterator[str]:
    """The installation at `prefix`; for a virtual environment also the one it was made from, and the sources
    of packages that are installed as editable."""
    yield _prefix_root(prefix)
    home = _base_of(prefix)
    if home is not None:
        base = os.path.dirname(os.path.realpath(os.path.join(home, "python3")))
        yield from dict.fromkeys(map(_prefix_root, (os.path.dirname(home), os.path.dirname(base))))
    yield from _editable_sources(prefix)


def _base_of(prefix: str) -> str | None:
    """The folder of the Python from which the virtual environment at `prefix` was made."""
    for line in _read(os.path.join(prefix, "pyvenv.cfg")).splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home" and os.path.isabs(value.strip()):
            return value.strip()
    return None


def _editable_sources(prefix: str) -> Iterator[str]:
    library = os.path.join(prefix, "lib")
    for version in _names(library):
        for file in _origin_files(os.path.join(library, version, "site-packages")):
            source = _editable_source(file)
            if source is not None:
                yield source


class _Listing(NamedTuple):
    """The files of a folder of packages in which an installer says where a package came from, and the
    folder's identity and times when they were looked for."""

    look: tuple[int, int, int, int]
    files: tuple[str, ...]


_listings: dict[str, _Listing] = {}


def _origin_files(packages: str) -> tuple[str, ...]:
    """The `direct_url.json` of each package that has one. They are looked for again where the folder of the
    packages changed, as it does when one is installed or removed; what they say is read each time."""
    try:
        status = os.stat(packages)
    except OSError:
        return ()
    look = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    known = _listings.get(packages)
    if known is not None and known.look == look:
        return known.files
    names = (name for name in _names(packages)[:_MAX_DISTRIBUTIONS] if name.endswith(".dist-info"))
    files = (os.path.join(packages, name, "direct_url.json") for name in names)
    listing = _Listing(look, tuple(filter(os.path.isfile, files)))
    # The file comes into its folder some time after that folder into this one.
    if time.time_ns() - max(look[2:]) > _INSTALLED_NS:
        if len(_listings) >= _MAX_LISTINGS:
            _listings.clear()
        _listings[packages] = listing
    return listing.files


def _editable_source(file: str) -> str | None:
    try:
        found = json.loads(_read(file) or "{}")
        url = urlsplit(found.get("url", "")) if found.get("dir_info", {}).get("editable") is True else None
    except (ValueError, AttributeError):
        return None  # it was not written by an installer, and so nothing is mounted for it
    if url is None or url.scheme != "file" or url.netloc not in ("", "localhost"):
        return None
    path = os.path.normpath(unquote(url.path))
    return path if os.path.isabs(path) else None


def _script_packages(program: ResolvedProgram) -> Iterator[str]:
    """The package of each script that a runtime of JavaScript is given: the folder of packages that holds it,
    or the nearest folder with a `package.json`."""
    for argument in (program.path, *program.argv):
        real = os.path.realpath(argument) if os.path.isabs(argument) else ""
        inside, found, _ = real.partition("/node_modules/")
        if found and os.path.isfile(real):
            yield inside + "/node_modules"
        elif real.endswith(_SCRIPTS) and os.path.isfile(real):
            packages = (up for up in _parents(real) if os.path.isfile(os.path.join(up, "package.json")))
            package = next(packages, "")
            yield package if package.count("/") >= _TOO_WIDE else real


def _parents(path: str) -> Iterator[str]:
    while (folder := os.path.dirname(path)) != path:
        yield folder
        path = folder


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    """The paths without those that lie below another."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: (path.count("/"), path)):
        if not _below_any(path, kept):
            kept.append(path)
            yield path


def _below_any(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            return opened.read(_MAX_FILE).decode("utf-8", "replace")
    except OSError:
        return ""
