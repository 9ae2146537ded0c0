"""How the keeping of the world is told: lines of the log, events on the bus."""

from __future__ import annotations

from dataclasses import dataclass

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.executive.rooms import Clock
from flycore.model.canonical import JsonObject
from flycore.model.catalog import Catalog
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass, Publish
from flycore.policy.evaluate import Policy

NAMES_TOLD = 200
"""Changed names in one event."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Nothing runs because of what is told here, so a full disk stops only the line; calls are refused by
    their own."""

    clock: Clock
    publish: Publish
    audit: AuditLog

    def record(self, event: str, fields: JsonObject) -> None:
        """Write what happened."""
        try:
            self.audit.append(event, fields)
        except AuditUnwritable as error:
            self.tell(EventClass.AUDIT, "audit.unwritable", {"cause": error.cause})

    def tell(self, cls: EventClass, kind: str, payload: JsonObject) -> None:
        """Publish what happened."""
        self.publish(Event(cls=cls, type=kind, at=self.clock.now(), payload=payload))

    def policy(self, before: Policy, now: Policy) -> None:
        """Another policy holds: said once calls are judged by it, not before."""
        if before.version != now.version or before.ok != now.ok:
            files = tuple(layer.file for layer in now.layers)
            fields = audit_events.policy_changed(now.version, files, problems=len(now.diagnostics))
            self.record(audit_events.POLICY_CHANGED, fields)
            self.tell(EventClass.APPROVAL, "policy.changed", {"ok": now.ok})

    def catalog(self, before: Catalog, now: Catalog, changed: tuple[str, ...]) -> None:
        """The catalog shows something else, or the same by another look."""
        if not changed:
            if before.sidecars != now.sidecars:
                self.tell(EventClass.SNAPSHOT, "evidence.changed", {})
            return
        self.record(audit_events.SNAPSHOT_CHANGED, audit_events.snapshot_changed(before, changed))
        names: JsonObject = {"version": now.version, "names": list(changed[:NAMES_TOLD])}
        self.tell(EventClass.CATALOG, "catalog.changed", names)
