"""How the kernel's own tools are held: by the kernel itself, or as a program in the sandbox."""

from __future__ import annotations

from flycore.model.enums import Level
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import PermissionReport, SandboxReport
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.levels import report

_BELOW_DESCRIPTOR = "flytui opens each path below the descriptor of the project folder"


def builtin_report(support: SandboxSupport, entry: SidecarEntry, *, own: bool) -> SandboxReport:
    """Return how a call is held. With `own` the kernel carries it out itself."""
    return own_report(entry) if own else report(entry, support, bundled=False)


def own_report(entry: SidecarEntry) -> SandboxReport:
    """Return how the kernel holds itself to what a tool declares."""
    declared = {"files read": entry.permissions.read, "files write": entry.permissions.write}
    rows = [PermissionReport(name="network", declared="none", enforced=True, why=_BELOW_DESCRIPTOR)]
    rows += [
        PermissionReport(name=name, declared=", ".join(paths) or "none", enforced=True, why=_BELOW_DESCRIPTOR)
        for name, paths in declared.items()
    ]
    rows.append(PermissionReport(name="secrets", declared="none", enforced=True, why=_BELOW_DESCRIPTOR))
    return SandboxReport(
        level=Level.NONE, mechanism=f"no program runs: {_BELOW_DESCRIPTOR}", permissions=tuple(rows)
    )
