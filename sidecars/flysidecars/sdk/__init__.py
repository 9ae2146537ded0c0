"""A small kit for writing sidecars; standard library and `flysafe` only.

    sidecar = Sidecar("utility.local")

    @sidecar.tool("file.hash")
    def file_hash(call: Call) -> JsonObject:
        return {"path": call.text("path")}

The kit reads the one request on stdin, answers probes, reports progress and turns failures into
answers. Start-up is a cost paid at each call, so nothing here imports `typing`, `dataclasses`,
`argparse` or `subprocess`.
"""

from __future__ import annotations

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import InvalidInput, ToolFailed, Unavailable
from flysidecars.sdk.sidecar import Probe, Sidecar, healthy, unavailable

__all__ = [
    "Call",
    "InvalidInput",
    "JsonObject",
    "Probe",
    "Sidecar",
    "ToolFailed",
    "Unavailable",
    "healthy",
    "unavailable",
]
