"""How the keeping of the world is told: lines of the log, events on the bus."""

from __future__ import annotations

from dataclasses import dataclass

from flycore.audit import events as audit_events
from flycore.kernel.recorder import Recorder
from flycore.model.catalog import Catalog
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.policy.evaluate import Policy

MOST_NAMES = 200
"""Changed names in one event."""


@dataclass(frozen=True, slots=True)
class ChangePublisher:
    """Writes and publishes what another world means for whoever watches the policy or the catalog."""

    recorder: Recorder

    def publish_policy(self, before: Policy, now: Policy) -> None:
        """Another policy holds: said once calls are judged by it, not before."""
        if before.version != now.version or before.ok != now.ok:
            files = tuple(layer.file for layer in now.layers)
            fields = audit_events.policy_changed(now.version, files, problems=len(now.diagnostics))
            self.recorder.record(audit_events.POLICY_CHANGED, fields)
            self.recorder.publish(EventClass.APPROVAL, "policy.changed", {"ok": now.ok})

    def publish_catalog(self, before: Catalog, now: Catalog, changed: tuple[str, ...]) -> None:
        """The catalog shows something else, or the same by another look."""
        if not changed:
            if before.sidecars != now.sidecars:
                self.recorder.publish(EventClass.SNAPSHOT, "evidence.changed", {})
            return
        self.recorder.record(audit_events.SNAPSHOT_CHANGED, audit_events.snapshot_changed(before, changed))
        names: JsonObject = {"version": now.version, "names": list(changed[:MOST_NAMES])}
        self.recorder.publish(EventClass.CATALOG, "catalog.changed", names)
