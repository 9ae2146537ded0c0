"""Why a call leads to no tool: nobody knows the name, or the tool is blocked, denied or not available."""

from __future__ import annotations

from flycore.catalog.reasons import blocked
from flycore.model.catalog import CapabilityView
from flycore.model.diagnostics import nearest
from flycore.model.enums import Code, Effective, Kind, ReasonCode, Status
from flycore.pipeline.call import Rejection, denied, failed
from flycore.pipeline.context import RootState

CALLABLE = (Effective.AVAILABLE, Effective.DEGRADED)
MOST_NAMED = 20
"""How many names of available tools a `not-found` error lists."""


def blocked_tool(tool: str) -> Rejection:
    """Return the rejection of a call of a tool that a person blocked."""
    why = blocked(tool)
    return denied(Code.BLOCKED, why.message, why.remedy)


def not_found(root_state: RootState, tool: str) -> Rejection:
    """Return the rejection of a call of a tool that nobody knows, with similar names."""
    near = nearest(tool, tuple(root_state.index))
    usable = [name for name, view in root_state.index.items() if view.stability.effective in CALLABLE]
    hint = _server_problem(root_state, tool)
    hint = hint or (f"did you mean {' or '.join(near)}?" if near else "flytui catalog lists every tool")
    return failed(
        Code.NOT_FOUND,
        f"no tool is named {tool[:200]}",
        hint,
        nearest=[*near],
        available=[*sorted(usable)[:MOST_NAMED]],
    )


def _server_problem(root_state: RootState, tool: str) -> str:
    """Why the tools of the MCP server that the name points to are not known; empty where they are known, or
    where the name points to no server."""
    view = root_state.catalog.sidecar(tool.rpartition(".")[0])
    if view is None or view.entry.kind is not Kind.MCP or view.entry.tools or not view.stability.reasons:
        return ""
    reason = view.stability.reasons[0]
    return f"the tools of {view.id} are not known: {reason.message}; {reason.remedy}"


def not_callable(view: CapabilityView) -> Rejection:
    """Return the rejection of a call of a tool that does not work or that a rule denies, with its reasons."""
    reasons = view.stability.reasons
    first = reasons[0] if reasons else None
    if first is None:
        return Rejection(
            status=Status.UNAVAILABLE,
            code=ReasonCode.NOT_CONFIGURED,
            message="nothing offers this tool",
            hint="flytui why " + view.capability.name,
        )
    denied = first.code in (ReasonCode.POLICY_DENIED, ReasonCode.BLOCKED)
    return Rejection(
        status=Status.DENIED if denied else Status.UNAVAILABLE,
        code=Code.POLICY if first.code is ReasonCode.POLICY_DENIED else first.code,
        message=first.message,
        hint=first.remedy,
        details={"reasons": [{"code": r.code, "message": r.message, "remedy": r.remedy} for r in reasons]},
    )
