"""Trust in the entries of a root's registry, decided from the command line while no kernel runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from flycore.approval.entry_summary import describe_entry
from flycore.approval.trust_store import TrustStore, set_digest
from flycore.audit.events import TRUST_DECIDED, trust_decided
from flycore.catalog.builtin import KNOWN
from flycore.discovery.scan import scan, search_roots
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.registry_edits import TrustedRegistry
from flycore.model.approval import Outcome
from flycore.model.described import Described, Import
from flycore.model.question import TrustItem
from flycore.model.sidecar import Registry
from flycore.offline.root import HeldRoot
from flycore.registry.load import load_registry
from flycore.registry.paths import RootPaths

CHANGED = "not trusted: what waits is not what that digest stands for; run flytui trust again"


@dataclass(frozen=True, slots=True)
class PendingTrust:
    """What a root's registry would run and nobody has trusted yet, as the files are."""

    registry: Registry
    store: TrustStore
    items: tuple[TrustItem, ...]
    """The entries that wait."""

    @property
    def digest(self) -> str:
        """Over the whole set; empty where nothing waits."""
        return set_digest(self.items) if self.items else ""


def read_pending_trust(places: RootPaths) -> PendingTrust:
    """Read registry and trust. Starts nothing, writes nothing."""
    files = read_files(find_environment(places, dict(os.environ)), None)
    store = TrustStore.load(places.trust_file)
    items = store.pending(files.registry, lambda entry: describe_entry(entry, files.resolutions(entry.id)))
    return PendingTrust(files.registry, store, items)


def accept_trust(root: HeldRoot, digest: str) -> tuple[PendingTrust, Outcome]:
    """Trust what waits, if its digest is that one and nothing else has come to it; what waited is returned
    with the outcome. Raises AuditUnwritable, and then nothing is trusted."""
    pending = read_pending_trust(root.places)
    if not pending.items or pending.digest != digest:
        return pending, Outcome(accepted=False, why_not=CHANGED)
    pairs = tuple((item.sidecar, item.digest) for item in pending.items)
    root.record(TRUST_DECIDED, trust_decided(pairs, by="flytui trust"))
    return pending, pending.store.accept(pairs, pending.registry, time.time())


def revoke_trust(root: HeldRoot) -> Outcome:
    """Trust nothing of the root any longer. Raises AuditUnwritable, and then all trust stays."""
    store = read_pending_trust(root.places).store
    root.record(
        TRUST_DECIDED, trust_decided(store.accepted_entries(), by="flytui trust --revoke", revoked=True)
    )
    return store.revoke()


def import_server(root: HeldRoot, item: Described, shown: Import) -> Outcome:
    """Write a server of another client's file into the registry and trust it, if that file still says what
    the person was shown. Raises AuditUnwritable."""
    places = root.places
    found = scan(search_roots(places, os.environ))
    now = next((one.offer for one in found if (one.key, one.path) == (item.key, item.path)), None)
    if now is None or now.digest != shown.digest:
        return Outcome(accepted=False, why_not="the file says something else by now; run it again")
    trusting = TrustedRegistry(find_environment(places, dict(os.environ)))
    done = trusting.import_server(now, time.time(), "flytui tools import")
    for event, fields in done.lines:
        root.record(event, fields)
    return done.outcome


def trust_new_root(places: RootPaths, environ: Mapping[str, str]) -> Outcome:
    """Trust every entry of a root that this process has just made and that nobody else knows: without its
    lock, and without a line in its log."""
    registry = load_registry(places, known=frozenset(KNOWN), environ=environ)
    pairs = tuple((entry.id, entry.digest) for entry in registry.entries)
    return TrustStore.load(places.trust_file).accept(pairs, registry, time.time())
