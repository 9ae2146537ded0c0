"""Calls that end with the decision: the agent has a tool of its own, and asks only whether it may use it.

Nothing is started, sealed or confined here, and the card says so. The answer names the input it is for.
"""

from __future__ import annotations

from flycore.catalog.agent_actions import AGENT_ITSELF
from flycore.executive.sealing import Sealed
from flycore.model.enums import Anchor, Level, PathState, SealKind, Status
from flycore.model.json import JsonObject, digest
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import PermissionReport, SandboxReport
from flycore.runners.process_json import RunOutcome

NOT_OURS = "it runs in the agent itself, not sandboxed and not sealed by flytui"
AGENT_SANDBOX = SandboxReport(
    level=Level.NONE,
    mechanism="",
    permissions=(
        PermissionReport(
            name="everything",
            declared="whatever the agent itself may do",
            enforced=False,
            why=f"not enforced: {NOT_OURS}",
        ),
    ),
)


def agent_program(entry: SidecarEntry) -> Sealed:
    """What stands in the place of a sealed program: the definition of the capabilities, and who runs them."""
    program = ResolvedProgram(
        state=PathState.RESOLVED, mode="path", base=Anchor.APP, declared=AGENT_ITSELF, path=AGENT_ITSELF
    )
    seal = Seal(kind=SealKind.NAME, digest=entry.digest, program=AGENT_ITSELF, note=NOT_OURS)
    return Sealed(program=program, seal=seal, delegates=(), delegate_programs={})


def allowed_outcome(input: JsonObject) -> RunOutcome:
    """The answer: the only one there is, bound to that input."""
    return RunOutcome(status=Status.SUCCESS, output={"decision": "allow", "input": digest(input)})
