"""The catalog in a kernel's answer, as the values that a client works with."""

from __future__ import annotations

import gc

import msgspec

from flycore.model.base import Value
from flycore.model.catalog import Capability, CapabilityView, Catalog
from flycore.model.shared_values import SharedValues, share_names, with_shared_values
from flycore.model.stability import Stability


def read_catalog_answer(payload: msgspec.Raw) -> Catalog:
    """Return the catalog in the payload of an answer."""
    # Nothing of what is made here is garbage, and looking for garbage would double the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _catalog_in(payload)
    finally:
        if collects:
            gc.enable()


class _CatalogAnswer(Value, frozen=True, kw_only=True):
    catalog: dict[str, msgspec.Raw]


class _ReadView(Value, frozen=True, kw_only=True):
    """A `CapabilityView` whose snapshot is not read yet."""

    capability: Capability
    sidecar: str | None
    source: str
    stability: msgspec.Raw
    decision: str = ""
    because: str = ""
    hidden: bool = False


_VIEWS = msgspec.json.Decoder(_ReadView)


def _catalog_in(payload: msgspec.Raw) -> Catalog:
    """Return the catalog in an answer. Tools with equal snapshots share one, as they do in the kernel: those
    of a sidecar have the same, and it is the largest part of a tool. So do tools with equal texts and equal
    schemas."""
    parts = msgspec.json.decode(payload, type=_CatalogAnswer).catalog
    snapshots: dict[bytes, Stability] = {}
    shared = SharedValues()
    views: list[CapabilityView] = []
    # One tool at a time: what is not kept of it makes room for the next, instead of for nothing later.
    for written in msgspec.json.decode(parts.pop("capabilities"), type=list[msgspec.Raw]):
        view = _VIEWS.decode(written)
        text = bytes(view.stability)
        if (stability := snapshots.get(text)) is None:
            stability = snapshots[text] = msgspec.json.decode(text, type=Stability)
        views.append(
            CapabilityView(
                capability=with_shared_values(view.capability, shared),
                sidecar=shared.optional(view.sidecar),
                source=shared.text(view.source),
                stability=stability,
                decision=shared.text(view.decision),
                because=shared.text(view.because),
                hidden=view.hidden,
            )
        )
    catalog = msgspec.json.decode(msgspec.json.encode(parts), type=Catalog)
    for sidecar in catalog.sidecars:
        share_names(sidecar.entry, shared)
    return msgspec.structs.replace(catalog, capabilities=tuple(views))
