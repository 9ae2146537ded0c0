"""A small kit for writing sidecars. It imports only the standard library and `flysafe`.

    sidecar = Sidecar("utility.local")

    @sidecar.tool("file.hash")
    def file_hash(call: Call) -> JsonObject:
        return {"path": call.text("path")}

The kit reads requests from stdin (one, or one a line in a persistent process), answers probes and
`--schema`, checks the input of typed functions, reports progress and turns failures into answers.

A one-shot sidecar starts anew for each call. To keep the start fast, no module here imports `typing`,
`dataclasses`, `argparse` or `subprocess`, and only `persistent` imports `threading`.
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
