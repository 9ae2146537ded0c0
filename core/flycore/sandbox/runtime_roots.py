"""The folders that a program needs besides the system's own: its interpreter's installation and its package.

They are found from files, and nothing is run. Each is mounted read-only. Sources: PEP 405 (`pyvenv.cfg`),
PEP 610 (`direct_url.json` of an editable installation), and the layouts of pyenv, uv, pipx, node and bun as
they are on disk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from flycore.model.program import ResolvedProgram

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?\Z")
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts")
_TOO_WIDE = 2
"""How many parts a root must have at least, so that `/`, `/home` and `/opt` are never mounted whole."""
_MAX_DISTRIBUTIONS = 2_000
_MAX_FILE = 65_536


class RuntimeUnknown(Exception):
    """The folders of a runtime cannot be worked out; `path` is what would have to be readable."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"what {path} needs to run cannot be worked out")


def runtime_roots(program: ResolvedProgram) -> tuple[str, ...]:
    """Return the files and folders that the program reads as it runs, without what every program has.

    Raises RuntimeUnknown where an installation has no folder that could be mounted without much else.
    """
    roots: list[str] = []
    for path in (program.path, *program.interpreter_argv[:1], program.interpreter, *program.argv[:1]):
        if os.path.isabs(path):
            roots += _roots_of(path)
    roots += _script_packages(program)
    roots = [root for root in roots if not _below_any(root, _SYSTEM) and os.path.exists(root)]
    for root in roots:
        if root.count("/") < _TOO_WIDE or root == os.path.expanduser("~"):
            raise RuntimeUnknown(root)
    return tuple(_outermost(roots))


def python_roots(interpreter: str) -> tuple[str, ...]:
    """Return the files and folders that a Python needs, given the path of its interpreter."""
    return tuple(_outermost(root for root in _roots_of(interpreter) if not _below_any(root, _SYSTEM)))


def _roots_of(path: str) -> Iterator[str]:
    """The file itself where it was named by a link, its real file, and the installation around each."""
    real = os.path.realpath(path)
    for file in dict.fromkeys((path, real)):
        if _below_any(file, _SYSTEM):
            continue  # every program has it, and what lies around it
        yield file
        folder = os.path.dirname(file)
        name = os.path.basename(file)
        if _PYTHON.match(name) or os.path.isfile(os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
            yield from _python_roots(os.path.dirname(folder))
        elif os.path.basename(folder) == "shims":
            yield os.path.dirname(
                folder
            )  # pyenv, rbenv: a shim looks up the version to run in the whole tree
        elif os.path.basename(folder) == "bin" and _has_library(os.path.dirname(folder)):
            yield _prefix_root(os.path.dirname(folder))


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
        packages = os.path.join(library, version, "site-packages")
        for name in _names(packages)[:_MAX_DISTRIBUTIONS]:
            if name.endswith(".dist-info"):
                source = _editable_source(os.path.join(packages, name, "direct_url.json"))
                if source is not None:
                    yield source


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
