"""One line in the audit log, written by a command while no kernel runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flycore.model.canonical import JsonObject
    from flycore.registry.places import Places


def record(places: Places, event: str, fields: JsonObject) -> None:
    """Write what happens before it counts. The root's lock has to be held. Raises AuditUnwritable."""
    from flycore.audit.log import AuditLog

    anchors = places.anchors_file
    log = AuditLog.open(places.audit_dir, anchors, clock=time.time, monotonic=time.monotonic)
    try:
        log.append(event, fields, sync=True)
    finally:
        log.close()
