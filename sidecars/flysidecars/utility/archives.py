"""The tools `archive.create` and `archive.extract`: zip, tar and tar.gz files below the project."""

from __future__ import annotations

import os

from flysafe.archives import ArchiveRefused, Format, create, extract, format_of
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.paths import (
    in_project,
    open_project,
    open_project_file,
    open_project_folder,
    require_write,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROGRESS_BYTES = 16 * 1024 * 1024
"""Bytes between two progress events."""
MIME = {Format.ZIP: "application/zip", Format.TAR: "application/x-tar", Format.TAR_GZ: "application/gzip"}
_SKIPPED_NAMED = 20


def archive_create(call: Call) -> JsonObject:
    """Pack `paths` into the new file `output`.

    Raises `InvalidInput`, and `ToolFailed` with the codes of `flysafe.archives` or `open_project_folder`.
    """
    output = call.text("output")
    kind = _format(call, "output")
    paths = [in_project(call, path) for path in call.texts("paths")]
    folder_path, name = os.path.split(output)
    anchor = open_project(call)
    try:
        folder = open_project_folder(call, folder_path or ".", make=True)
        try:
            require_write(call, folder, name)
            made = create(anchor, paths, kind, folder, name, on_progress=_progress(call, "packed"))
            whole = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        finally:
            os.close(folder)
    except ArchiveRefused as refused:
        raise _failed(refused) from refused
    finally:
        os.close(anchor)
    answer: JsonObject = {
        "output": output,
        "entries": made.files + made.folders,
        "bytes": made.archive_bytes,
        "artifacts": [{"path": whole, "mimeType": MIME[kind], "bytes": made.archive_bytes}],
    }
    if made.skipped:
        answer["skipped"] = list(made.skipped[:_SKIPPED_NAMED])
        answer["skippedCount"] = len(made.skipped)
    return answer


def archive_extract(call: Call) -> JsonObject:
    """Unpack `archive` into `outputDir`, completely or not at all. No existing file is replaced.

    Raises `InvalidInput`, and `ToolFailed` with the codes of `flysafe.archives` or `open_project_file`.
    """
    output = call.text("outputDir")
    kind = _format(call, "archive")
    parts = [part for part in in_project(call, output).split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise InvalidInput("outputDir", "a folder below the project is needed")
    descriptor, _ = open_project_file(call, call.text("archive"))
    with os.fdopen(descriptor, "rb") as source:
        parent = open_project_folder(call, "/".join(parts[:-1]) or ".", make=True)
        try:
            require_write(call, parent, parts[-1])
            done = extract(source, kind, parent, parts[-1], on_progress=_progress(call, "unpacked"))
        except ArchiveRefused as refused:
            raise _failed(refused) from refused
        finally:
            os.close(parent)
    return {"outputDir": output, "entries": done.files + done.folders, "bytes": done.bytes}


def _format(call: Call, key: str) -> Format:
    kind = format_of(call.text(key))
    if kind is None:
        raise InvalidInput(key, "a name that ends with .zip, .tar, .tar.gz or .tgz is needed")
    return kind


def _failed(refused: ArchiveRefused) -> ToolFailed:
    return ToolFailed(refused.code, str(refused), entry=refused.entry)


def _progress(call: Call, word: str) -> Callable[[int, int], None]:
    reported = 0

    def report(entries: int, done: int) -> None:
        nonlocal reported
        if done - reported >= PROGRESS_BYTES:
            reported = done
            call.progress(done, message=f"{entries} entries, {done // 1048576} MiB {word}")

    return report
