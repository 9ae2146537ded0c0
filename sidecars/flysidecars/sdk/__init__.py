"""A small kit for writing sidecars; standard library and `flysafe` only.

    sidecar = Sidecar("utility.local")

    @sidecar.tool("file.hash")
    def file_hash(call: Call) -> JsonObject:
        return {"path": call.text("path")}

The kit reads requests on stdin, one or as long as they come, answers probes and `--schema`, checks the
input of typed functions, reports progress and turns failures into answers. Start-up is a cost paid at
each call, so nothing here imports `typing`, `dataclasses`, `argparse` or `subprocess`, and threads only
a process that stays.
"""

from __future__ import annotations

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import Cancelled, InvalidInput, ToolFailed, Unavailable
from flysidecars.sdk.sidecar import Probe, Sidecar, healthy, unavailable

__all__ = [
    "Call",
    "Cancelled",
    "InvalidInput",
    "JsonObject",
    "Probe",
    "Sidecar",
    "ToolFailed",
    "Unavailable",
    "healthy",
    "unavailable",
]
