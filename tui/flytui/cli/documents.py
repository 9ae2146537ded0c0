"""What `--json` prints, command by command. `flytui schema COMMAND` prints the JSON Schema of each.

`call` prints the ToolResult and `catalog` the catalog document; the others are here, each with its name
in `schema`.
"""

from __future__ import annotations

from flycore.model.approval import Ask, Lease, MatchedRule, StandingRule
from flycore.model.audit import ApprovalReport, Metrics, ToolMetrics, Verification
from flycore.model.base import Value
from flycore.model.call import Activity
from flycore.model.catalog import CapabilityView, SidecarView
from flycore.model.described import Described, Import
from flycore.model.diagnostics import Check, Diagnostic
from flycore.model.enums import Decision, Effective, Risk
from flycore.model.json import Json, JsonObject
from flycore.model.question import Block, Question, TrustItem
from flycore.model.stability import Reason, Stability
from flycore.model.status import Status
from flycore.policy.conditions import Match
from flycore.policy.replay import Replayed
from flycore.policy.rules import RuleLayer


class Document(Value, frozen=True, kw_only=True, tag_field="schema", tag=""):
    """Base of the documents: `schema` names the shape and its version."""


class InspectDocument(Document, frozen=True, kw_only=True, tag="flytui.inspect/1"):
    """A tool with its sidecar, or a sidecar with its tools."""

    name: str
    capabilities: tuple[CapabilityView, ...]
    """The tool asked for, or all that the sidecar offers."""
    sidecar: SidecarView | None
    """None where nothing offers the tool."""
    metrics: ToolMetrics | None = None
    """Of a tool, from the log; None where it has no call of it."""
    recent: tuple[Activity, ...] = ()
    """The tool's latest calls, newest first."""
    nearest: tuple[str, ...] = ()
    """Names close to one that nothing has."""
    described: tuple[Described, ...] = ()
    """Kits, skills, plugins or servers of that id, where no tool or sidecar has the name."""


class WhyDocument(Document, frozen=True, kw_only=True, tag="flytui.why/1"):
    """How a tool is, dimension by dimension."""

    tool: str
    sidecar: str | None
    decision: str
    """What policy says before an input is known: `allow`, `ask` or `deny`."""
    because: str = ""
    """The rule that says so, with its place."""
    stability: Stability | None
    """None where there is no tool of that name."""
    changed: tuple[str, ...] = ()
    """Where its entry changed since it was trusted: from the value in force to the one that waits, as lines
    `- /pointer: before` and `+ /pointer: after`."""
    nearest: tuple[str, ...] = ()
    """Names close to that of a tool there is not."""


class DoctorDocument(Document, frozen=True, kw_only=True, tag="flytui.doctor/1"):
    """All checks, in their order."""

    app_root: str
    checks: tuple[Check, ...]


class PreflightTool(Value, frozen=True, kw_only=True):
    """Whether one tool could be called now."""

    tool: str
    known: bool
    """Whether there is a tool of that name at all."""
    effective: Effective
    decision: str = ""
    reasons: tuple[Reason, ...] = ()
    nearest: tuple[str, ...] = ()
    """Names close to that of a tool there is not."""


class PreflightDocument(Document, frozen=True, kw_only=True, tag="flytui.preflight/1"):
    """Every tool asked about."""

    ready: bool
    """Whether all of them are available."""
    tools: tuple[PreflightTool, ...]


class OfferedTool(Value, frozen=True, kw_only=True):
    """A tool as an agent is shown it."""

    name: str
    description: str
    risk: str
    read_only: bool
    effective: Effective
    decision: str
    input_schema: JsonObject
    output_schema: JsonObject


class ToolsDocument(Document, frozen=True, kw_only=True, tag="flytui.tools/1"):
    """What agents are shown: available and degraded tools."""

    tools: tuple[OfferedTool, ...]


class TrustDocument(Document, frozen=True, kw_only=True, tag="flytui.trust/1"):
    """What waits for trust, and what this command did about it."""

    app_root: str
    digest: str
    """Over the whole set that waits; `--digest` accepts exactly this set. Empty where nothing waits."""
    waiting: tuple[TrustItem, ...]
    outcome: str
    """`shown`, `accepted`, `refused`, `revoked`, `nothing-waits` or `at-console`."""
    message: str = ""


class ApprovalsDocument(Document, frozen=True, kw_only=True, tag="flytui.approvals/1"):
    """Approval requests of the running kernel: waiting ones first, then recent ones."""

    running: bool
    asks: tuple[Ask, ...]
    questions: tuple[Question, ...] = ()
    """What waits for a person besides, such as a caller that loops."""


class ActivityDocument(Document, frozen=True, kw_only=True, tag="flytui.activity/1"):
    """Calls: those under way first, then those that ended, newest first."""

    running: bool
    """Whether a kernel runs; without one the calls are those that the log knows."""
    calls: tuple[Activity, ...]


class EndedCall(Value, frozen=True, kw_only=True):
    """A call that was under way when everything was stopped."""

    call_id: str
    tool: str
    caller: str


class PanicDocument(Document, frozen=True, kw_only=True, tag="flytui.panic/1"):
    """Everything was stopped: what was there to be stopped, and how it is released."""

    app_root: str
    kernel: bool
    """Whether a kernel did it; else it is kept for the next one."""
    already: bool
    calls: tuple[EndedCall, ...] = ()
    requests: int = 0
    leases: int = 0
    message: str


class GrantsDocument(Document, frozen=True, kw_only=True, tag="flytui.grants/1"):
    """Everything that stands. Leases live in a kernel: where none runs there are none."""

    running: bool
    leases: tuple[Lease, ...]
    rules: tuple[StandingRule, ...]
    blocks: tuple[Block, ...]


class StatusDocument(Document, frozen=True, kw_only=True, tag="flytui.status/1"):
    """The kernel of this root, if one runs."""

    running: bool
    app_root: str
    socket: str
    kernel: Status | None
    waiting_trust: int
    panic: bool = False
    """Whether everything is stopped until a person releases it."""


class DemoCall(Value, frozen=True, kw_only=True):
    """One call that the demo made from outside."""

    tool: str
    exit_code: int
    status: str


class DemoDocument(Document, frozen=True, kw_only=True, tag="flytui.demo/1"):
    """What became of the demo's calls."""

    calls: tuple[DemoCall, ...]


class AuditDocument(Document, frozen=True, kw_only=True, tag="flytui.audit/1"):
    """Lines of the log as they stand in it, or what checking it found."""

    lines: tuple[JsonObject, ...] = ()
    verification: Verification | None = None
    anchor_problem: str = ""
    """Why the running kernel could not leave the last anchor; empty where none runs."""


class PolicyLayer(Value, frozen=True, kw_only=True):
    """One policy file."""

    layer: RuleLayer
    file: str
    present: bool
    """Whether it takes part at all."""
    ok: bool
    rules: int
    """How many of its rules are in force."""


class PolicyCheckDocument(Document, frozen=True, kw_only=True, tag="flytui.policy-check/1"):
    """The policy files, and everything that is wrong with them."""

    version: str
    """Digest over all that decides."""
    layers: tuple[PolicyLayer, ...]
    diagnostics: tuple[Diagnostic, ...]


class ExplainedRule(Value, frozen=True, kw_only=True):
    """A rule about the tool."""

    decision: Decision
    because: str
    where: str
    """`file:line`."""
    tool: str
    counts: Match
    """`yes`, `unknown` (depends on the input or the caller) or `expired`."""
    caller: str = ""
    when: JsonObject | None = None
    expires: float | None = None
    """Unix time, seconds."""


class PolicyExplainDocument(Document, frozen=True, kw_only=True, tag="flytui.policy-explain/1"):
    """What is decided of a call, and why."""

    tool: str
    sidecar: str | None
    """What offers the tool; None where nothing does."""
    risk: Risk | None
    input_known: bool
    """Whether an input was given; without one, rules with `when` cannot be decided."""
    caller: str
    """The program that was named; without one, rules with `caller` cannot be decided."""
    decision: Decision | None
    """None where no rule matches and nothing offers the tool."""
    rules: tuple[ExplainedRule, ...]
    default: MatchedRule | None
    """What holds where no rule matches."""
    default_used: bool
    nearest: tuple[str, ...] = ()
    """Names close to that of a tool there is not."""


class PolicyReplayDocument(Document, frozen=True, kw_only=True, tag="flytui.policy-replay/1"):
    """Calls of the log, oldest first, and what the rules say of them now."""

    draft: str
    """The file that was tried in place of the user's; empty for the policy in force."""
    calls: tuple[Replayed, ...]
    diagnostics: tuple[Diagnostic, ...]


class ListedSetting(Value, frozen=True, kw_only=True):
    """One setting in force."""

    name: str
    value: Json
    default: bool
    where: str = ""
    """`file:line:column` where the file names it, whether it counts or not."""
    problem: str = ""
    """Why what stands there does not count."""


class ConfigDocument(Document, frozen=True, kw_only=True, tag="flytui.config/1"):
    """The settings in force."""

    file: str
    present: bool
    settings: tuple[ListedSetting, ...]
    diagnostics: tuple[Diagnostic, ...]


class RootPath(Value, frozen=True, kw_only=True):
    """A file or folder of the root."""

    name: str
    path: str
    present: bool


class ConfigPathDocument(Document, frozen=True, kw_only=True, tag="flytui.config-path/1"):
    """Where everything lies."""

    places: tuple[RootPath, ...]


class LintedFile(Value, frozen=True, kw_only=True):
    """A file that was looked at."""

    kind: str
    """`registry`, `policy` or `settings`."""
    file: str
    present: bool


class LintDocument(Document, frozen=True, kw_only=True, tag="flytui.lint/1"):
    """Everything that is wrong in what a person wrote, in the order of the files."""

    files: tuple[LintedFile, ...]
    errors: int
    warnings: int
    diagnostics: tuple[Diagnostic, ...]


class SwitchDocument(Document, frozen=True, kw_only=True, tag="flytui.switch/1"):
    """What `enable` and `disable` did."""

    sidecar: str
    file: str
    enabled: bool
    """As the file has it now; of an entry that was not found, the opposite of what was asked."""
    outcome: str
    """`switched`, `unchanged`, `refused` or `unknown`."""
    message: str
    waits: bool = False
    """Whether what would run now waits for trust."""


class InitDocument(Document, frozen=True, kw_only=True, tag="flytui.init/1"):
    """What `init` did."""

    app_root: str
    file: str
    outcome: str
    """`created`, `printed` or `refused`."""
    text: str
    """The registry, where it was printed."""
    message: str


class ImportDocument(Document, frozen=True, kw_only=True, tag="flytui.import/1"):
    """What `tools import` would write, or did."""

    app_root: str
    name: str
    file: str
    """Of the other client; empty where there is no such server."""
    offer: Import | None
    outcome: str
    """`shown`, `imported`, `refused` or `unknown`."""
    message: str = ""


class SidecarCheckDocument(Document, frozen=True, kw_only=True, tag="flytui.sidecar-check/1"):
    """How a program keeps the contract of a sidecar."""

    command: tuple[str, ...]
    level: str
    """How the program was confined: always `none`."""
    checks: tuple[Check, ...]


class MetricsDocument(Document, frozen=True, kw_only=True, tag="flytui.metrics/1"):
    """What the log says of every tool, and of how much a person was asked."""

    metrics: Metrics
    approvals: ApprovalReport


class ServeDocument(Document, frozen=True, kw_only=True, tag="flytui.serve/1"):
    """A kernel that has begun to listen; printed once, before it serves."""

    app_root: str
    pid: int
    socket: str
    listening: tuple[str, ...] = ()
    """Addresses of the doors on loopback."""


class ListedToken(Value, frozen=True, kw_only=True):
    """A client that may come in over TCP and HTTP."""

    name: str
    created_at: float
    """Unix time, seconds."""
    last_call_at: float | None = None
    """When it last called a tool, as far as the latest calls of the log tell."""


class TokenDocument(Document, frozen=True, kw_only=True, tag="flytui.token/1"):
    """The tokens, and what this command did."""

    tokens: tuple[ListedToken, ...]
    outcome: str
    """`listed`, `made`, `revoked` or `refused`."""
    token: str = ""
    """The one that was made: it cannot be shown again."""
    message: str = ""


DOCUMENTS: dict[str, type[Document]] = {
    str(kind.__struct_config__.tag).removeprefix("flytui.").partition("/")[0]: kind
    for kind in Document.__subclasses__()
}
DOCUMENTS |= {"enable": SwitchDocument, "disable": SwitchDocument}
"""Command to the document it prints, by the name in its `schema`."""
