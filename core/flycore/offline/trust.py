"""Trust, as far as a command needs it beside its kernel: the digest of what was shown, and a root that was
just created."""

from __future__ import annotations

import time
from collections.abc import Mapping

from flycore.approval.trust_store import TrustStore
from flycore.approval.trust_store import set_digest as set_digest
from flycore.catalog.builtin import KNOWN
from flycore.kernel.load_state import find_environment
from flycore.kernel.trusted_elsewhere import place_of
from flycore.model.approval import Outcome
from flycore.registry.load import load_registry
from flycore.registry.paths import RootPaths


def trust_new_root(places: RootPaths, environ: Mapping[str, str]) -> Outcome:
    """Trust every entry of a root that this process has just created, without the root's lock and log.

    No other process knows of such a root, so neither is needed.
    """
    registry = load_registry(places, known=frozenset(KNOWN), environ=environ)
    pairs = tuple((entry.id, entry.digest) for entry in registry.entries)
    here = place_of(find_environment(places, environ), registry)
    return TrustStore(places.trust_file).accept(pairs, registry, time.time(), here)
