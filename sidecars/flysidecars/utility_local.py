"""`utility.local`: small work on local files."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Sidecar

sidecar = Sidecar("utility.local")


@sidecar.tool("file.hash")
def file_hash(call: Call) -> JsonObject:
    """Digest of a file below the project."""
    from flysidecars.utility.hashing import file_hash

    return file_hash(call)
