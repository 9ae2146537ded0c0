"""Lines of the log that nothing runs because of, and the events beside them."""

from __future__ import annotations

from dataclasses import dataclass

from flycore.approval.clock import Clock
from flycore.audit.log import AuditLog
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass, Publish
from flycore.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes down and publishes what has happened. A full disk stops only the line: calls are refused by
    lines of their own."""

    clock: Clock
    send: Publish
    audit: AuditLog

    def record(self, event: str, fields: JsonObject, *, sync: bool = False) -> None:
        """Write one line; one that cannot be written is published as `audit.unwritable`."""
        try:
            self.audit.append(event, fields, sync=sync)
        except AuditUnwritable as error:
            self.publish(EventClass.AUDIT, "audit.unwritable", {"cause": error.cause})

    def publish(self, cls: EventClass, kind: str, payload: JsonObject) -> None:
        """Publish one event, stamped with the time."""
        self.send(Event(cls=cls, type=kind, at=self.clock.now(), payload=payload))
