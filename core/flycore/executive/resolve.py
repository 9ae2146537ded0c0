"""Step 1: which sidecar offers the tool, and is it well enough to be called."""

from __future__ import annotations

from flycore.approval.blocks import ToolBlockStore
from flycore.catalog.agent_actions import AGENT_ACTIONS, agent_actions, agent_entry
from flycore.catalog.reasons import blocked
from flycore.executive.stop import Rejection, denied, failed
from flycore.executive.world import RootState
from flycore.model.base import Value
from flycore.model.capability import Capability
from flycore.model.catalog import CapabilityView
from flycore.model.enums import Code, Effective, Kind, ReasonCode, Status
from flycore.model.sidecar import SidecarEntry
from flycore.model.suggest import nearest

CALLABLE = (Effective.AVAILABLE, Effective.DEGRADED)
MOST_NAMED = 20
"""Names of available tools listed with `not-found`."""


class Target(Value, frozen=True, kw_only=True):
    """The tool that will be called and the entry that offers it."""

    capability: Capability
    entry: SidecarEntry

    @property
    def decided(self) -> bool:
        """Whether the call ends with the decision: an agent's own tool, which nothing of ours runs."""
        return self.capability.name in AGENT_ACTIONS

    @property
    def sidecar(self) -> str | None:
        """Id of the sidecar that runs it, None where none does."""
        return None if self.decided else self.entry.id


def resolve(world: RootState, tool: str, blocks: ToolBlockStore) -> Target | Rejection:
    """The target, or why there is none: not found, blocked, denied by policy, or unavailable with its
    first reason. The blocks are asked themselves: the catalog follows them a moment later."""
    if tool in AGENT_ACTIONS:
        return _agent_call(tool, blocks)
    view = callable_view(world, tool, blocks)
    if isinstance(view, Rejection):
        return view
    entry = world.entries.get(view.sidecar or "")
    return _not_callable(view) if entry is None else Target(capability=view.capability, entry=entry)


def callable_view(world: RootState, tool: str, blocks: ToolBlockStore) -> CapabilityView | Rejection:
    """The tool as the catalog has it, or why it cannot be called; see `resolve`."""
    view = world.index.get(tool)
    if view is None:
        return _not_found(world, tool)
    if blocks.block_for(tool) is not None and view.stability.effective in CALLABLE:
        return _blocked(tool)
    return view if view.stability.effective in CALLABLE else _not_callable(view)


def _agent_call(tool: str, blocks: ToolBlockStore) -> Target | Rejection:
    if blocks.block_for(tool) is not None:
        return _blocked(tool)
    return Target(capability=agent_actions()[tool], entry=agent_entry())


def _blocked(tool: str) -> Rejection:
    why = blocked(tool)
    return denied(Code.BLOCKED, why.message, why.remedy)


def _not_found(world: RootState, tool: str) -> Rejection:
    near = nearest(tool, tuple(world.index))
    usable = [name for name, view in world.index.items() if view.stability.effective in CALLABLE]
    hint = _server_problem(world, tool)
    hint = hint or (f"did you mean {' or '.join(near)}?" if near else "flytui catalog lists every tool")
    return failed(
        Code.NOT_FOUND,
        f"no tool is named {tool[:200]}",
        hint,
        nearest=[*near],
        available=[*sorted(usable)[:MOST_NAMED]],
    )


def _server_problem(world: RootState, tool: str) -> str:
    """Why nothing is known of the MCP server that the name points to; empty where it is, or there is none."""
    view = world.catalog.sidecar(tool.rpartition(".")[0])
    if view is None or view.entry.kind is not Kind.MCP or view.entry.tools or not view.stability.reasons:
        return ""
    reason = view.stability.reasons[0]
    return f"the tools of {view.id} are not known: {reason.message}; {reason.remedy}"


def _not_callable(view: CapabilityView) -> Rejection:
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
