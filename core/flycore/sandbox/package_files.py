"""The package folder that a program belongs to, and the paths of its files in a copy of that folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from flycore.model.enums import Anchor
from flycore.model.program import ResolvedProgram
from flycore.sandbox.tree_digest import CACHE, UnsealableError

PACKAGES = "tools/packages"
"""The folder below the app root in which each package has a folder of its own."""


def package_of(program: ResolvedProgram, packages: Path) -> str:
    """The real folder of the package that the program belongs to; empty where it belongs to none.

    Raises UnsealableError for a command that names a package and leads, by a link, out of it.
    """
    folder = os.path.realpath(packages)
    if program.base is Anchor.APP:
        package, _, inside = os.path.normpath(program.declared).removeprefix(PACKAGES + "/").partition("/")
        if inside and os.path.normpath(program.declared).startswith(PACKAGES + "/"):
            root = os.path.realpath(os.path.join(folder, package))
            if lies_beneath(program.path, root):
                return root
            raise UnsealableError(errno.EXDEV, "leads out of its package", program.path)
    if not lies_beneath(program.path, folder):
        return ""
    package, _, inside = program.path[len(folder) + 1 :].partition("/")
    return os.path.join(folder, package) if inside else ""


def lies_beneath(path: str, folder: str) -> bool:
    """Whether the path lies below the folder. Both must be real paths, without links."""
    return path.startswith(folder.rstrip("/") + "/")


def is_single_file(path: str) -> bool:
    """Whether the file is the only one in its folder, so that a copy of the folder is complete."""
    folder, name = os.path.split(path)
    with os.scandir(folder) as entries:
        return all(entry.name in (name, CACHE) for entry in entries)


def path_in_copy(path: str, held: Iterable[tuple[str, str]]) -> str:
    """The path in the copy of the folder that it lies below; unchanged where it lies below none. `held` has
    each folder with its copy."""
    for root, copy in held:
        if lies_beneath(path, root):
            return copy + path[len(root) :]
    return path
