"""The documents that commands print with `--json`. `flytui schema COMMAND` prints the JSON Schema of each.

`call` prints the ToolResult and `catalog` the catalog. All others are here, each with its name in `schema`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from flycore.model.approval import Ask, Lease, MatchedRule, StandingRule
from flycore.model.audit import ApprovalReport, Metrics, ToolMetrics, Verification
from flycore.model.base import Value
from flycore.model.call import Activity, CallError, ToolResult
from flycore.model.catalog import CapabilityView, SidecarView
from flycore.model.described import Described
from flycore.model.diagnostics import Check, Diagnostic
from flycore.model.enums import Decision, Effective, Level, Risk
from flycore.model.executable import ExecutableTrial
from flycore.model.json import Json, JsonObject
from flycore.model.package import PackageCheck, PackageOutcome, PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.stability import Reason, SandboxExplanation, Stability
from flycore.model.status import Status
from flycore.policy.conditions import Match
from flycore.policy.replay import Replayed
from flycore.policy.rules import RuleLayer
from flytui.cli.bundle_documents import BundleDocument as BundleDocument
from flytui.cli.bundle_documents import BundlesDocument as BundlesDocument
from flytui.cli.credential_documents import ListedSecret as ListedSecret
from flytui.cli.credential_documents import ListedToken as ListedToken
from flytui.cli.credential_documents import ListedUpstream as ListedUpstream
from flytui.cli.credential_documents import SecretsDocument as SecretsDocument
from flytui.cli.credential_documents import TokenDocument as TokenDocument
from flytui.cli.credential_documents import UpstreamDocument as UpstreamDocument
from flytui.cli.document_base import Document as Document
from flytui.cli.setup_documents import ConfigDocument as ConfigDocument
from flytui.cli.setup_documents import ConfigPathDocument as ConfigPathDocument
from flytui.cli.setup_documents import ConnectDocument as ConnectDocument
from flytui.cli.setup_documents import ConnectedFile as ConnectedFile
from flytui.cli.setup_documents import ImportDocument as ImportDocument
from flytui.cli.setup_documents import InitDocument as InitDocument
from flytui.cli.setup_documents import InitSidecar as InitSidecar
from flytui.cli.setup_documents import InitTool as InitTool
from flytui.cli.setup_documents import LintDocument as LintDocument
from flytui.cli.setup_documents import LintedFile as LintedFile
from flytui.cli.setup_documents import ListedSetting as ListedSetting
from flytui.cli.setup_documents import MigrateDocument as MigrateDocument
from flytui.cli.setup_documents import RootPath as RootPath
from flytui.cli.setup_documents import SchemaDocument as SchemaDocument
from flytui.cli.setup_documents import SwitchDocument as SwitchDocument


class InspectDocument(Document, frozen=True, kw_only=True, tag="flytui.inspect/1"):
    """A tool with its sidecar, or a sidecar with its tools."""

    name: str
    capabilities: tuple[CapabilityView, ...]
    """The tool of that name, or all tools that the sidecar offers."""
    sidecar: SidecarView | None
    """None where nothing offers the tool."""
    metrics: ToolMetrics | None = None
    """The metrics of a tool; None where the log has no call of it."""
    recent: tuple[Activity, ...] = ()
    """The tool's latest calls, newest first."""
    nearest: tuple[str, ...] = ()
    """Similar names, where nothing has the name."""
    described: tuple[Described, ...] = ()
    """Kits, skills, plugins or servers of that id, where no tool or sidecar has the name."""


class WhyDocument(Document, frozen=True, kw_only=True, tag="flytui.why/1"):
    """The state of a tool, dimension by dimension."""

    tool: str
    sidecar: str | None
    decision: str
    """The decision of the policy before an input is known: `allow`, `ask` or `deny`."""
    because: str = ""
    """The rule that decides it, with its place."""
    stability: Stability | None
    """None where there is no tool of that name."""
    changed: tuple[str, ...] = ()
    """The changes of the entry since it was trusted, as lines `- /pointer: before` and `+ /pointer:
    after`."""
    nearest: tuple[str, ...] = ()
    """Names close to that of a tool there is not."""


class DoctorDocument(Document, frozen=True, kw_only=True, tag="flytui.doctor/1"):
    """The results of all checks, in their order."""

    app_root: str
    checks: tuple[Check, ...]


class PreflightTool(Value, frozen=True, kw_only=True):
    """Whether one tool can be called now."""

    tool: str
    known: bool
    """Whether a tool of that name exists."""
    effective: Effective
    decision: str = ""
    reasons: tuple[Reason, ...] = ()
    nearest: tuple[str, ...] = ()
    """Names close to that of a tool there is not."""


class PreflightDocument(Document, frozen=True, kw_only=True, tag="flytui.preflight/1"):
    """Whether the named tools can be called now."""

    ready: bool
    """Whether all of them are available."""
    tools: tuple[PreflightTool, ...]


class OfferedTool(Value, frozen=True, kw_only=True):
    """A tool as agents see it; or one of an executable, which they see once it is usable."""

    name: str
    description: str
    risk: str
    read_only: bool
    effective: Effective
    decision: str
    input_schema: JsonObject
    output_schema: JsonObject
    type: str = ""
    """`sidecar`, `executable`, `manifest`, `mcp` or `plan`."""
    path: str = ""
    """The file of a manifest, else the program, where it is one of this machine."""
    status: str = ""
    """`ready`, `schema-unknown` or `error`."""
    why: str = ""
    """The first reason why it is not available; empty where it is."""


class ToolsDocument(Document, frozen=True, kw_only=True, tag="flytui.tools/1"):
    """The tools that agents see, which are the available and the degraded ones; and those of executables and
    manifests that are not usable yet."""

    tools: tuple[OfferedTool, ...]


class ExampleState(StrEnum):
    """How an example ended."""

    SAME = "same"
    DIFFERS = "differs"
    RAN = "ran"
    """It ran, and expects nothing."""
    FAILED = "failed"


class ExampleResult(Value, frozen=True, kw_only=True):
    """One example of a tool, run through the kernel."""

    description: str
    params: JsonObject
    state: ExampleState
    expected: Json | msgspec.UnsetType = msgspec.UNSET
    """What the example expects; absent where it says nothing."""
    output: Json = None
    error: CallError | None = None
    warnings: tuple[str, ...] = ()


class ToolExamplesDocument(Document, frozen=True, kw_only=True, tag="flytui.tool-examples/1"):
    """The examples of a tool, with what each gave."""

    tool: str
    examples: tuple[ExampleResult, ...]


class TrustDocument(Document, frozen=True, kw_only=True, tag="flytui.trust/1"):
    """What waits for trust, and what the command did."""

    app_root: str
    digest: str
    """The digest over everything that waits; `--digest` accepts exactly this. Empty where nothing waits."""
    waiting: tuple[TrustItem, ...]
    outcome: str
    """`shown`, `accepted`, `refused`, `revoked`, `nothing-waits` or `at-console`."""
    message: str = ""


class ApprovalsDocument(Document, frozen=True, kw_only=True, tag="flytui.approvals/1"):
    """Approval requests of the running kernel: waiting ones first, then recent ones."""

    running: bool
    asks: tuple[Ask, ...]
    questions: tuple[Question, ...] = ()
    """Other questions that wait for a person, such as a caller that loops."""


class ActivityDocument(Document, frozen=True, kw_only=True, tag="flytui.activity/1"):
    """Calls: the running ones first, then the ended ones, newest first."""

    running: bool
    """Whether a kernel runs; without one the calls come from the log."""
    calls: tuple[Activity, ...]


class EndedCall(Value, frozen=True, kw_only=True):
    """A call that was running when everything was stopped."""

    call_id: str
    tool: str
    caller: str


class PanicDocument(Document, frozen=True, kw_only=True, tag="flytui.panic/1"):
    """What was stopped, and how it is released."""

    app_root: str
    kernel: bool
    """Whether a running kernel stopped everything; otherwise the next kernel starts stopped."""
    already: bool
    stopped: bool = True
    """Whether nothing runs any more."""
    ended_pid: int | None = None
    """The kernel that did not answer and was ended."""
    calls: tuple[EndedCall, ...] = ()
    requests: int = 0
    leases: int = 0
    message: str


class UndoDocument(Document, frozen=True, kw_only=True, tag="flytui.undo/1"):
    """The undo of a call's change to files."""

    call_id: str
    outcome: str
    """`undone`, `possible` where nothing was to be changed, or `refused`."""
    files: tuple[str, ...] = ()
    """The files that get back what they were, relative to the project."""
    message: str = ""
    """Why it is refused."""


class GrantsDocument(Document, frozen=True, kw_only=True, tag="flytui.grants/1"):
    """Leases, rules and blocks."""

    leases: tuple[Lease, ...]
    rules: tuple[StandingRule, ...]
    blocks: tuple[Block, ...]


class StatusDocument(Document, frozen=True, kw_only=True, tag="flytui.status/1"):
    """The kernel of this root, if one runs."""

    running: bool
    app_root: str
    socket: str
    kernel: Status | None
    waiting_trust: int | None
    """Entries that wait for trust; None if no kernel runs, which would know."""
    panic: bool = False
    """Whether everything is stopped until a person releases it."""
    held_by: int | None = None
    """The process that holds the root and does not answer; None where there is none."""


class DemoCall(Value, frozen=True, kw_only=True):
    """One call that the demo made from outside."""

    tool: str
    exit_code: int
    status: str


class DemoDocument(Document, frozen=True, kw_only=True, tag="flytui.demo/1"):
    """The results of the demo's calls."""

    calls: tuple[DemoCall, ...]


class AuditDocument(Document, frozen=True, kw_only=True, tag="flytui.audit/1"):
    """Lines of the log as they are, or the result of checking the log."""

    lines: tuple[JsonObject, ...] = ()
    verification: Verification | None = None
    anchor_problem: str = ""
    """Why the running kernel could not write the last anchor; empty where it could, or where none runs."""


class PolicyLayer(Value, frozen=True, kw_only=True):
    """One policy file."""

    layer: RuleLayer
    file: str
    present: bool
    """Whether the file exists and is used."""
    ok: bool
    rules: int
    """The number of its rules that are in force."""


class PolicyCheckDocument(Document, frozen=True, kw_only=True, tag="flytui.policy-check/1"):
    """The policy files, and everything that is wrong with them."""

    version: str
    """The digest over everything that the decision depends on."""
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
    """`yes`, `unknown` (it depends on the input or the caller) or `expired`."""
    caller: str = ""
    entry: str = ""
    """The origin of the entry that an allow is bound to."""
    when: JsonObject | None = None
    expires: float | None = None
    """Unix time, seconds."""


class PolicyExplainDocument(Document, frozen=True, kw_only=True, tag="flytui.policy-explain/1"):
    """How the policy decides a call, and why."""

    tool: str
    sidecar: str | None
    """The sidecar that offers the tool; None where none does."""
    risk: Risk | None
    input_known: bool
    """Whether an input was given; without one, rules with `when` cannot be decided."""
    caller: str
    """The program that was named; without one, rules with `caller` cannot be decided."""
    decision: Decision | None
    """None where no rule matches and nothing offers the tool."""
    rules: tuple[ExplainedRule, ...]
    default: MatchedRule | None
    """The decision where no rule matches."""
    default_used: bool
    nearest: tuple[str, ...] = ()
    """Names close to that of a tool there is not."""


class PolicyReplayDocument(Document, frozen=True, kw_only=True, tag="flytui.policy-replay/1"):
    """Calls of the log, oldest first, and how the rules decide them now."""

    draft: str
    """The file that was tried in place of the user's; empty for the policy in force."""
    calls: tuple[Replayed, ...]
    diagnostics: tuple[Diagnostic, ...]


class ToolTestDocument(Document, frozen=True, kw_only=True, tag="flytui.tools-test/1"):
    """What an executable says of itself, and how a call of it ended."""

    trial: ExecutableTrial


class ToolsRefreshDocument(Document, frozen=True, kw_only=True, tag="flytui.tools-refresh/1"):
    """The executables that were asked again."""

    sidecars: tuple[str, ...]


class SidecarCheckDocument(Document, frozen=True, kw_only=True, tag="flytui.sidecar-check/1"):
    """Whether a program fulfils the contract of a sidecar."""

    command: tuple[str, ...]
    level: str
    """How the program was confined: always `none`."""
    checks: tuple[Check, ...]


class TriedLevel(Value, frozen=True, kw_only=True):
    """One level with which the escape probes were run."""

    level: Level
    network: bool
    """Whether the program was granted network."""
    results: dict[str, str]
    """Each probe with `open`, `shut` or `missing` (this machine lacks what it tries)."""
    newly_open: tuple[str, ...] = ()
    """Probes that differ from what flytui says of the level."""
    failed: str = ""
    """Why nothing could be run at this level."""


class SandboxProbeDocument(Document, frozen=True, kw_only=True, tag="flytui.sandbox-probe/1"):
    """What a program could reach at each sandbox level of this machine."""

    levels: tuple[TriedLevel, ...]
    unavailable: dict[str, str]
    """Levels that this machine does not have, with what to do."""


class SandboxExplainDocument(Document, frozen=True, kw_only=True, tag="flytui.sandbox-explain/1"):
    """The limits that a call of a tool would run under."""

    explanation: SandboxExplanation


class SandboxLearnDocument(Document, frozen=True, kw_only=True, tag="flytui.sandbox-learn/1"):
    """What a call of a tool was refused, and the smallest permissions that would grant it."""

    tool: str
    result: ToolResult
    """The result of the call; `refusals` in it is null where what was refused is not known."""
    sidecar: str = ""
    file: str = ""
    """The file of the entry."""
    permissions: JsonObject | None = None
    """The whole `permissions` of the entry with what is proposed."""
    difference: tuple[str, ...] = ()
    """The change of the entry, as lines `+ /pointer: after`; empty where nothing is proposed."""
    applied: bool = False
    message: str = ""


class MetricsDocument(Document, frozen=True, kw_only=True, tag="flytui.metrics/1"):
    """The metrics of every tool in the log, and how much a person was asked."""

    metrics: Metrics
    approvals: ApprovalReport


class PackagesDocument(Document, frozen=True, kw_only=True, tag="flytui.packages/1"):
    """The packages of the project and of the user, and how the command ended."""

    app_root: str
    packages: tuple[PackageView, ...]
    outcome: PackageOutcome | None = None
    """How a change ended; None where nothing was to be changed."""
    checks: tuple[PackageCheck, ...] = ()
    """Of `verify`: whether the files are those that were installed."""
    message: str = ""


class ServeDocument(Document, frozen=True, kw_only=True, tag="flytui.serve/1"):
    """A kernel that has started to listen. It is printed once, before the kernel serves."""

    app_root: str
    pid: int
    socket: str
    listening: tuple[str, ...] = ()
    """The addresses on loopback at which the kernel listens."""


DOCUMENTS: dict[str, type[Document]] = {
    str(kind.__struct_config__.tag).removeprefix("flytui.").partition("/")[0]: kind
    for kind in Document.__subclasses__()
}
DOCUMENTS |= {"enable": SwitchDocument, "disable": SwitchDocument}
"""Each command with the document that it prints, by the name in its `schema`."""
