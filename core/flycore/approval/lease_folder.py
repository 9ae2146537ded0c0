"""The folder that a lease may hold for: where the paths of a call's input lie.

A call is covered only where every path that it names, links resolved, lies below the folder, and where it
names the same fields as the approved call: a tool may take a whole project for a field that is missing.
Whether a link is changed between this check and the tool's own look at the path cannot be known here.
"""

from __future__ import annotations

import os
from pathlib import Path

from flycore.approval.attention import PATH_FIELDS, InputText, input_texts, paths_of
from flycore.model.json import JsonObject

_FOLDER_FIELDS = frozenset({"folder", "dir", "directory", "cwd"})
MOST_PATHS = 64
"""A call that names more paths is asked about."""


def input_folder(input: JsonObject, app_root: str) -> str:
    """Return the absolute folder, links resolved, that holds every path of the input; empty where there is no
    path, or where a command line could name others."""
    texts = list(input_texts(input))
    if any(one.command for one in texts) or not path_fields(input):
        return ""
    folders = [_folder_of(one, path, app_root) for one in texts for path in paths_of(one)][: MOST_PATHS + 1]
    if not folders or len(folders) > MOST_PATHS:
        return ""
    common = os.path.commonpath(folders)
    return "" if common == "/" else common


def path_fields(input: JsonObject) -> tuple[str, ...]:
    """Return the names of the input's fields that hold a path."""
    return tuple(sorted(name for name in input if name.lower() in PATH_FIELDS))


def lies_within(input: JsonObject, folder: str, app_root: str) -> bool:
    """Return whether every path that the input names lies below the folder."""
    texts = list(input_texts(input))
    if any(one.command for one in texts):
        return False
    paths = [path for one in texts for path in paths_of(one)][: MOST_PATHS + 1]
    if not paths or len(paths) > MOST_PATHS:
        return False
    return all(Path(_real(path, app_root)).is_relative_to(folder) for path in paths)


def _folder_of(one: InputText, path: str, app_root: str) -> str:
    real = _real(path, app_root)
    return real if one.where.rpartition(".")[2].lower() in _FOLDER_FIELDS else os.path.dirname(real)


def _real(path: str, app_root: str) -> str:
    return os.path.realpath(os.path.join(app_root, os.path.expanduser(path)))
