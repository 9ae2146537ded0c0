"""Trust in the entries of a root's registry, given and revoked by commands while no kernel runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec

from flycore.approval.trust_store import TrustStore, set_digest
from flycore.audit.events import TRUST_DECIDED, trust_decided
from flycore.catalog.builtin import KNOWN
from flycore.discovery.scan import scan, search_roots
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.registry_edits import TrustedRegistry, accept_trusted
from flycore.kernel.replaced_entries import summarize_entry, with_facts
from flycore.kernel.trusted_elsewhere import TrustElsewhere, place_of
from flycore.model.approval import Outcome
from flycore.model.described import Described, Import
from flycore.model.question import TrustItem
from flycore.model.sidecar import Registry
from flycore.offline.root import HeldRoot
from flycore.registry.load import load_registry
from flycore.registry.paths import RootPaths

CHANGED = "not trusted: the waiting entries have another digest now; run flytui trust again"


class PendingTrust(msgspec.Struct, frozen=True):
    """The entries of a root's registry that nobody has trusted yet, as the files are now."""

    registry: Registry
    store: TrustStore
    items: tuple[TrustItem, ...]
    """The entries that wait for trust."""

    @property
    def digest(self) -> str:
        """The digest of all waiting entries together; empty if none waits."""
        return set_digest(self.items) if self.items else ""


def read_pending_trust(places: RootPaths) -> PendingTrust:
    """Read the registry and the trust store. Starts no process and writes nothing."""
    environment = find_environment(places, dict(os.environ))
    files = read_files(environment, None)
    store = TrustStore(places.trust_file)
    items = store.pending(files.registry, lambda entry: summarize_entry(entry, files))
    items = TrustElsewhere(environment).add_to(items, files.registry)
    return PendingTrust(files.registry, store, with_facts(items, files, environment.bundled))


def accept_trust(root: HeldRoot, digest: str) -> tuple[PendingTrust, Outcome]:
    """Trust the waiting entries, if `digest` is that of exactly these; return them with the outcome.

    Raises AuditUnwritable; then nothing is trusted.
    """
    pending = read_pending_trust(root.places)
    if not pending.items or pending.digest != digest:
        return pending, Outcome(accepted=False, why_not=CHANGED)
    # Logged first: trust that the log does not have must not come into force.
    pairs = tuple((item.sidecar, item.digest) for item in pending.items)
    root.record(TRUST_DECIDED, trust_decided(pairs, by="flytui trust"))
    environment = find_environment(root.places, dict(os.environ))
    here = place_of(environment, pending.registry)
    outcome = pending.store.accept(pairs, pending.registry, time.time(), here)
    if outcome.accepted:
        accept_trusted(environment, pending.registry, tuple(sidecar for sidecar, _ in pairs))
    return pending, outcome


def revoke_trust(root: HeldRoot) -> Outcome:
    """Revoke all trust in the root's entries. Raises AuditUnwritable; then all trust stays."""
    store = read_pending_trust(root.places).store
    root.record(
        TRUST_DECIDED, trust_decided(store.accepted_entries(), by="flytui trust --revoke", revoked=True)
    )
    return store.revoke()


def import_server(root: HeldRoot, item: Described, shown: Import) -> Outcome:
    """Add a server of another client's file to the registry and trust it, if that file still has what the
    person was shown. Raises AuditUnwritable."""
    places = root.places
    found = scan(search_roots(places, os.environ))
    now = next((one.offer for one in found if (one.key, one.path) == (item.key, item.path)), None)
    if now is None or now.digest != shown.digest:
        return Outcome(accepted=False, why_not="the file has changed since; run the command again")
    registry = TrustedRegistry(find_environment(places, dict(os.environ)))
    edited = registry.import_server(now, time.time(), "flytui tools import")
    for event, fields in edited.lines:
        root.record(event, fields)
    return edited.outcome


def trust_new_root(places: RootPaths, environ: Mapping[str, str]) -> Outcome:
    """Trust every entry of a root that this process has just created, without the root's lock and log.

    No other process knows of such a root, so neither is needed.
    """
    registry = load_registry(places, known=frozenset(KNOWN), environ=environ)
    pairs = tuple((entry.id, entry.digest) for entry in registry.entries)
    here = place_of(find_environment(places, environ), registry)
    return TrustStore(places.trust_file).accept(pairs, registry, time.time(), here)
