"""The publisher of a changed policy and a changed catalog: lines of the log, and events for clients."""

from __future__ import annotations

import msgspec

from flycore.audit import events as audit_events
from flycore.kernel.bus import Recorder
from flycore.model.catalog import Catalog
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.sidecar import AppliedBundle
from flycore.policy.evaluate import Policy

MOST_NAMES = 200
"""The most changed names in one event."""


class ChangePublisher(msgspec.Struct, frozen=True):
    """The writer of log lines and events about a changed policy or catalog."""

    recorder: Recorder

    def publish_policy(self, before: Policy, now: Policy) -> None:
        """Publish a changed policy. Call it only when calls are already judged by the new one."""
        if before.version != now.version or before.ok != now.ok:
            files = tuple(layer.file for layer in now.layers)
            fields = audit_events.policy_changed(now.version, files, problems=len(now.diagnostics))
            self.recorder.record(audit_events.POLICY_CHANGED, fields)
            self.recorder.publish(EventClass.APPROVAL, "policy.changed", {"ok": now.ok})

    def record_bundles(self, before: tuple[AppliedBundle, ...], now: tuple[AppliedBundle, ...]) -> None:
        """Record which bundles apply, where others did before. The command that applies one belongs to no
        root, so the log of each root says what applied there, and from when on."""
        if before != now:
            self.recorder.record(audit_events.BUNDLES_CHANGED, audit_events.bundles_changed(now), sync=True)

    def publish_catalog(self, before: Catalog, now: Catalog, changed: tuple[str, ...]) -> None:
        """Publish a changed catalog, or one whose states are the same on new evidence."""
        if not changed:
            if before.sidecars != now.sidecars:
                self.recorder.publish(EventClass.SNAPSHOT, "evidence.changed", {})
            return
        self.recorder.record(audit_events.SNAPSHOT_CHANGED, audit_events.snapshot_changed(now, changed))
        names: JsonObject = {"version": now.version, "names": list(changed[:MOST_NAMES])}
        self.recorder.publish(EventClass.CATALOG, "catalog.changed", names)
