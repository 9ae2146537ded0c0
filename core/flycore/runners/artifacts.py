"""The files that a sidecar lists as its artifacts: only those in its two folders are passed on."""

from __future__ import annotations

import os
import stat

from flycore.model.call import Artifact
from flycore.model.json import Json, JsonObject

MAX_ARTIFACTS = 64
_UNKNOWN_TYPE = "application/octet-stream"


def check_artifacts(
    listed: Json, artifact_dir: str, project_dir: str
) -> tuple[tuple[Artifact, ...], tuple[str, ...]]:
    """The regular files of `listed` that lie below one of the two folders, and a warning for each other one.

    Relative paths start at `artifact_dir`, else at `project_dir`. Sizes are the file system's, not the
    sidecar's.
    """
    if not isinstance(listed, list):
        return (), () if listed is None else ("artifacts is not a list and was ignored",)
    folders = tuple(os.path.realpath(folder) for folder in (artifact_dir, project_dir) if folder)
    kept: list[Artifact] = []
    warnings: list[str] = []
    for item in listed[:MAX_ARTIFACTS]:
        path = item.get("path") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(path, str) or "\0" in path:
            warnings.append("an artifact without a path was ignored")
            continue
        found = _find(path, folders)
        if found is None:
            warnings.append(
                f"artifact {path!r} is not a file below artifactDir or projectDir and was ignored"
            )
        else:
            kept.append(Artifact(path=found[0], mime_type=_mime_type(item), bytes=found[1]))
    if len(listed) > MAX_ARTIFACTS:
        warnings.append(
            f"{len(listed) - MAX_ARTIFACTS} artifacts beyond the first {MAX_ARTIFACTS} were ignored"
        )
    return tuple(kept), tuple(warnings)


def _find(path: str, folders: tuple[str, ...]) -> tuple[str, int] | None:
    """The real path and the size of a regular file below one of `folders`; None where it is no such file."""
    for folder in folders:
        try:
            # Links are followed first: a link in the folder may lead to any file of the person's.
            real = os.path.realpath(os.path.join(folder, path))
            about = os.lstat(real)
        except (OSError, UnicodeEncodeError):
            continue
        below = any(os.path.commonpath((real, allowed)) == allowed for allowed in folders)
        if below and stat.S_ISREG(about.st_mode):
            return real, about.st_size
    return None


def _mime_type(item: JsonObject) -> str:
    value = item.get("mimeType")
    return value if isinstance(value, str) and len(value) <= 128 else _UNKNOWN_TYPE
