"""`file.hash`: the digest of a file, read in pieces."""

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
"""A file larger than this reports progress, each time this many bytes are done."""


def file_hash(call: Call) -> JsonObject:
    """Digest of a file below the project, read in pieces of 1 MiB."""
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
    told = 0
    while chunk := os.read(descriptor, CHUNK_BYTES):
        digest.update(chunk)
        done += len(chunk)
        if total > PROGRESS_BYTES and done - told >= PROGRESS_BYTES:
            call.progress(min(done, total), total, f"{done // 1048576} of {total // 1048576} MiB")
            told = done
    return done
