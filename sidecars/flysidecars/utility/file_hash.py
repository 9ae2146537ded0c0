"""The tool `file.hash`: computes the digest of a file below the project."""

from __future__ import annotations

import hashlib
import os

from flysidecars.sdk import Call, JsonObject
from flysidecars.sdk.paths import open_project_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import _Hash

ALGORITHMS = ("sha256", "sha512", "sha1", "md5", "blake2b")
CHUNK_BYTES = 1024 * 1024
PROGRESS_BYTES = 64 * 1024 * 1024
"""Bytes between two progress events; a smaller file reports none."""


def file_hash(call: Call) -> JsonObject:
    """Compute the digest of a file, which is read in pieces of `CHUNK_BYTES`. Raises `ToolFailed` as
    `open_project_file` does."""
    path = call.text("path")
    algorithm = call.choice("algorithm", ALGORITHMS, "sha256")
    descriptor, status = open_project_file(call, path)
    try:
        digest = hashlib.new(algorithm, usedforsecurity=False)
        size = _feed(call, descriptor, status.st_size, digest)
    finally:
        os.close(descriptor)
    return {"path": path, "algorithm": algorithm, "digest": digest.hexdigest(), "bytes": size}


def _feed(call: Call, descriptor: int, total: int, digest: _Hash) -> int:
    done = 0
    reported = 0
    while chunk := os.read(descriptor, CHUNK_BYTES):
        digest.update(chunk)
        done += len(chunk)
        if total > PROGRESS_BYTES and done - reported >= PROGRESS_BYTES:
            # The file may grow while it is read.
            call.progress(min(done, total), total, f"{done // 1048576} of {total // 1048576} MiB")
            reported = done
    return done
