"""The catalog as it was last, as far as a list shows it: what a console draws before its kernel has answered.

    first line    version of flytui, digest of the root's files, time, number of rows, digest of the rest
    each line     one tool, or one sidecar that offers none, as a JSON array

The file is a copy for the eye alone. Nothing is decided by it, and whatever is wrong with it, it counts as
absent. Its texts come from outside, as those of the catalog do. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from flycore.model.base import Value
from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.diagnostics import FixKind
from flycore.model.enums import Effective, ReasonCode, Risk
from flycore.model.stability import Stability

_LATEST = 1e11
"""No time of a file is after this one, in Unix seconds. It is a year that no clock shows."""
MAX_KEPT_BYTES = 16 * 1024 * 1024
"""The most bytes of the file. A larger catalog is not kept."""


class KeptReason(Value, frozen=True, kw_only=True, array_like=True):
    """The first reason why a tool or sidecar is not well. Of its fix there are only the words."""

    code: ReasonCode
    message: str
    remedy: str
    fix: FixKind | None = None
    words: str = ""
    further: int = 0
    """The number of further reasons."""


class KeptRow(Value, frozen=True, kw_only=True, array_like=True, gc=False):
    """A tool, or a sidecar that offers none, as it was."""

    tool: str
    """Empty for a sidecar that offers no tool."""
    sidecar: str
    version: str
    """The version of the sidecar's package; empty where it has none."""
    summary: str
    source: str
    risk: Risk | None
    decision: str
    effective: Effective
    offered: bool
    """Whether something offers the tool; True for a sidecar."""
    changed: bool
    """Whether its entry waited for trust again."""
    place: str
    """Where its sidecar is declared, `file:line`; empty where none offers it."""
    reason: KeptReason | None = None


class KeptCatalog(Value, frozen=True, kw_only=True):
    """The rows, and when they were so."""

    at: float
    """Unix time in seconds."""
    rows: tuple[KeptRow, ...]


class _Head(Value, frozen=True, kw_only=True):
    """The first line of the file."""

    version: str
    files: str
    at: float
    rows: int
    digest: str


def encode_kept(catalog: Catalog, version: str, files: str, at: float) -> bytes:
    """Return the contents of the file. `version` is that of flytui, `files` the digest of the files that the
    catalog was built from, and `at` the time in Unix seconds."""
    body, encoder, count = bytearray(), msgspec.json.Encoder(), 0
    for row in _rows(catalog):
        encoder.encode_into(row, body, len(body))
        body += b"\n"
        count += 1
    digest = hashlib.sha256(body).hexdigest()
    head = _Head(version=version, files=files, at=at, rows=count, digest=digest)
    return encoder.encode(head) + b"\n" + body


def decode_kept(data: bytes, version: str, files: str) -> KeptCatalog | None:
    """Return the catalog of the file; None where it is another version's, of other files, or damaged."""
    first, _, body = data.partition(b"\n")
    try:
        head = msgspec.json.decode(first, type=_Head)
        if (head.version, head.files) != (version, files) or not 0 <= head.at < _LATEST:
            return None
        if hashlib.sha256(body).hexdigest() != head.digest:
            return None
        rows = msgspec.json.Decoder(KeptRow).decode_lines(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return KeptCatalog(at=head.at, rows=tuple(rows)) if len(rows) == head.rows else None


def _rows(catalog: Catalog) -> Iterator[KeptRow]:
    """Return the tools by name, then the sidecars without tools."""
    sidecars = {view.id: view for view in catalog.sidecars}
    for view in sorted(catalog.capabilities, key=lambda view: view.capability.name):
        yield _tool_row(view, sidecars.get(view.sidecar or ""))
    offering = {view.sidecar for view in catalog.capabilities}
    for own in catalog.sidecars:
        if own.id not in offering:
            yield _sidecar_row(own)


def _tool_row(view: CapabilityView, by: SidecarView | None) -> KeptRow:
    return KeptRow(
        tool=view.capability.name,
        sidecar=view.sidecar or "",
        version=_version(by),
        summary=view.capability.summary,
        source=view.source,
        risk=view.capability.risk,
        decision=view.decision,
        effective=view.stability.effective,
        offered=view.offered,
        changed=by is not None and bool(by.changed),
        place=_place(by),
        reason=_reason(view.stability),
    )


def _sidecar_row(view: SidecarView) -> KeptRow:
    return KeptRow(
        tool="",
        sidecar=view.id,
        version=_version(view),
        summary="",
        source=f"registry:{view.entry.source.value}",
        risk=None,
        decision="",
        effective=view.stability.effective,
        offered=True,
        changed=bool(view.changed),
        place=_place(view),
        reason=_reason(view.stability),
    )


def _version(by: SidecarView | None) -> str:
    return (by.entry.package_version or "") if by is not None else ""


def _place(by: SidecarView | None) -> str:
    return f"{by.entry.position.file}:{by.entry.position.line}" if by is not None else ""


def _reason(stability: Stability) -> KeptReason | None:
    if not stability.reasons:
        return None
    first = stability.reasons[0]
    return KeptReason(
        code=first.code,
        message=first.message,
        remedy=first.remedy,
        fix=first.fix.kind if first.fix is not None else None,
        words=first.fix.words if first.fix is not None else "",
        further=len(stability.reasons) - 1,
    )
