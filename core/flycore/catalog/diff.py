"""Finds what changed between two catalogs. Ages, durations and a program's output are not compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.described import Described, SourceKind
from flycore.model.stability import ProbeEvidence, RuntimeEvidence, Stability

View = TypeVar("View", CapabilityView, SidecarView)

DIAGNOSTICS = "diagnostics"
SIDECAR_PREFIX = "sidecar:"
SOURCE_PREFIXES = tuple(f"{kind.value}:" for kind in SourceKind)


def difference(old: Catalog, new: Catalog) -> tuple[str, ...]:
    """Return the names of the tools that were added, removed or changed; then `sidecar:ID` for sidecars,
    `kit:ID` and the like for kits, skills, plugins and servers, and `diagnostics`."""
    tools = _changed(
        {view.capability.name: view for view in old.capabilities},
        {view.capability.name: view for view in new.capabilities},
    )
    sidecars = _changed({view.id: view for view in old.sidecars}, {view.id: view for view in new.sidecars})
    described = _sources(old.described, new.described)
    files = (DIAGNOSTICS,) if old.diagnostics != new.diagnostics else ()
    return (*tools, *(SIDECAR_PREFIX + name for name in sidecars), *described, *files)


def identity(stability: Stability) -> Stability:
    """Return the snapshot without what may differ between two snapshots of the same state."""
    evidence = stability.evidence
    if evidence.probe is None and evidence.runtime is None:
        return stability
    probe = evidence.probe and ProbeEvidence(tools=evidence.probe.tools)
    runtime = evidence.runtime and RuntimeEvidence(code=evidence.runtime.code)
    return msgspec.structs.replace(
        stability, evidence=msgspec.structs.replace(evidence, probe=probe, runtime=runtime)
    )


def _changed(old: Mapping[str, View], new: Mapping[str, View]) -> tuple[str, ...]:
    gone = [name for name in old if name not in new]
    other = [name for name in new if name not in old or not _same(old[name], new[name])]
    return tuple(sorted(gone + other))


def _sources(old: tuple[Described, ...], new: tuple[Described, ...]) -> tuple[str, ...]:
    """Return `kind:id` of each source that differs. Several files may describe the same one."""
    if old == new:
        return ()
    before, after = _by_key(old), _by_key(new)
    return tuple(sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)))


def _by_key(described: tuple[Described, ...]) -> dict[str, list[Described]]:
    found: dict[str, list[Described]] = {}
    for item in described:
        found.setdefault(item.key, []).append(item)
    return found


def _same(old: View, new: View) -> bool:
    if old is new or old == new:
        return True
    return _bare(old) == _bare(new)


def _bare(view: View) -> View:
    return msgspec.structs.replace(view, stability=identity(view.stability))
