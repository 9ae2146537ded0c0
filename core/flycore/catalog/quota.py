"""The catalog as a caller sees it that has used up its quota: everything is there, and degraded for now."""

from __future__ import annotations

import msgspec

from flycore.catalog.effective import effective
from flycore.catalog.reasons import quota_limited
from flycore.model.catalog import Catalog
from flycore.model.enums import SandboxState
from flycore.model.stability import Stability

_LET_RUN = (SandboxState.ALLOWED, SandboxState.APPROVAL_REQUIRED)


def over_quota(catalog: Catalog, why: str) -> Catalog:
    """Each snapshot that would let the caller call says `quota-limited`, with `why` as the message of its
    last reason. Quota is per caller, so this is one caller's view and not the catalog's own state."""
    sidecars = tuple(
        msgspec.structs.replace(view, stability=_limited_view(view.stability, why))
        for view in catalog.sidecars
    )
    capabilities = tuple(
        msgspec.structs.replace(view, stability=_limited_view(view.stability, why))
        for view in catalog.capabilities
    )
    return msgspec.structs.replace(catalog, sidecars=sidecars, capabilities=capabilities)


def _limited_view(stability: Stability, why: str) -> Stability:
    if stability.sandbox not in _LET_RUN:
        return stability
    limited = msgspec.structs.replace(
        stability,
        sandbox=SandboxState.QUOTA_LIMITED,
        reasons=(*stability.reasons, quota_limited(why)),
    )
    return msgspec.structs.replace(limited, effective=effective(limited))
