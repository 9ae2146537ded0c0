"""The table of all requests to a kernel, and its two interfaces `Client` and `Approver`.

Consoles, the command line and the servers use these interfaces. Each method is declared once, with the
message that carries it over a connection, the message that answers it, and who may send it. The proxies
(`proxies.py`, `flycore.client`), the dispatch of the server, the schemas and the table in docs/protocol.md
are made from these rows.

To add a read or a decision: declare it here, add its payloads to `messages.py` or, for a decision, to
`console_messages.py`, and give `Kernel` (for a decision `KernelApprover`) a method of the same name and
parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from flycore.model.approval import Answer, Ask, Lease, Outcome, StandingRule
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Picture, Progress, ToolResult, UndoResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import PackageAction, PackageScope, RootPermission
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.package import PackageCheck, PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.starter import StarterOffer, StarterPlan
from flycore.model.status import Status
from flycore.rpc import console_messages as c
from flycore.rpc import messages as m
from flycore.rpc.flyflor import EMPTY_READS
from flycore.rpc.method_row import (
    EVERYTHING,
    WIRE_METHODS,
    Kind,
    Method,
    UnimplementedError,
    Who,
    always,
    decision,
    releases_panic,
    wire_method,
)

OnProgress = Callable[[Progress], None]


class Client(Protocol):
    """What every client can do: read, call tools, stop calls. All methods raise ConnectionLost."""

    @wire_method("gateway.status.get", "gateway.status.snapshot", m.GatewayStatus, agents_see=EVERYTHING)
    async def status(self) -> Status:
        """Return the state of the kernel."""
        raise UnimplementedError

    @wire_method(
        "capability.catalog.get",
        "capability.catalog.snapshot",
        m.CatalogDetail,
        payload=m.CatalogGet,
    )
    async def catalog(self, outline: bool = False) -> Catalog:
        """Return the catalog in its current state. An outline is without what the entries of sidecars that
        offer tools say as they are written: `raw`, `text`, and the `spec` of each tool."""
        raise UnimplementedError

    @wire_method("tool.call", "tool.result", ToolResult, payload=m.ToolCall, kind=Kind.ACT)
    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        purpose: str = "",
        inline_wait_ms: int | None = None,
        observe: bool = False,
        samples: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool through the whole pipeline and return how it ended.

        Where a person is needed, the call waits for at most `inline_wait_ms` (None: as the settings say) and
        then ends `pending`; the same call, made again, resumes it. With `observe` the result says what the
        sandbox refused to the program, also where the call succeeds. With `samples` the caller answers what
        an MCP server asks of its model, by `answer_sampling`. Cancelling the task that waits cancels the
        call, its process tree and its approval request.
        """
        ...

    @wire_method(
        "tool.create",
        "ack",
        m.Ack,
        key="outcome",
        payload=m.ToolCreate,
        kind=Kind.ACT,
        for_agents="a viewer cannot make tools",
    )
    async def create_tool(self, name: str, definition: JsonObject | str) -> Outcome:
        """Keep a tool that this client made, a manifest, for a person's review. It runs no sooner.

        Its permissions stay within a limit, and each call of it is asked about. A definition of the same name
        replaces the earlier one, and is reviewed again.
        """
        raise UnimplementedError

    @wire_method(
        "sampling.answer",
        "ack",
        m.Ack,
        key="outcome",
        payload=m.SamplingAnswer,
        kind=Kind.ACT,
        for_agents="a viewer makes no calls, so it has no model that is asked",
    )
    async def answer_sampling(self, sampling_id: str, result: JsonObject | None) -> Outcome:
        """Answer what an MCP server asked of this client's model during a call of its own; None refuses.

        The outcome says whether the server still waited for it.
        """
        raise UnimplementedError

    @wire_method(
        "tool.cancel",
        "ack",
        m.Ack,
        key="cancelled",
        payload=m.ToolCancel,
        kind=Kind.ACT,
        agents_see=EVERYTHING,
    )
    async def cancel(self, call_id: str) -> bool:
        """End a running or waiting call. Return False where there is none of that id.

        A client that is not a viewer can only end calls of its own connection.
        """
        raise UnimplementedError

    @wire_method("history.list", "history.snapshot", m.HistorySnapshot, key="calls", payload=m.HistoryList)
    async def activity(self) -> tuple[Activity, ...]:
        """Return the calls, running ones first, then ended ones from the newest, also of earlier kernels."""
        raise UnimplementedError

    @wire_method(
        "call.picture.get",
        "call.picture.snapshot",
        m.PictureSnapshot,
        key="picture",
        payload=m.PictureGet,
    )
    async def picture(self, call_id: str, index: int) -> Picture | None:
        """Return a scaled-down image that a call made: the artifact of that index, from 0.

        Returns None where the artifact is not a PNG, JPEG, GIF or WebP image, no longer exists, is damaged
        or too large, or where the client may not see it.
        """
        raise UnimplementedError

    @wire_method("tool.metrics.get", "tool.metrics.snapshot", m.MetricsSnapshot, key="metrics")
    async def metrics(self) -> Metrics:
        """Return for each tool the number, the outcomes and the durations of calls.

        An agent gets those of its own calls.
        """
        raise UnimplementedError

    @wire_method("ask.list", "ask.snapshot", m.AskSnapshot, key="asks")
    async def asks(self) -> tuple[Ask, ...]:
        """Return the approval requests: waiting ones in order of arrival, then recent ones."""
        raise UnimplementedError

    @wire_method("lease.list", "lease.snapshot", m.LeaseSnapshot, key="leases", agents_see="caller.key")
    async def leases(self) -> tuple[Lease, ...]:
        """Return the leases that are in force."""
        raise UnimplementedError

    @wire_method("block.list", "block.snapshot", m.BlockSnapshot, key="blocks", agents_see=EVERYTHING)
    async def blocks(self) -> tuple[Block, ...]:
        """Return the tools that a person blocked."""
        raise UnimplementedError

    @wire_method("rule.list", "rule.snapshot", m.RuleSnapshot, key="rules")
    async def rules(self) -> tuple[StandingRule, ...]:
        """Return the rules that the person's own policy file has now. Agents get none."""
        raise UnimplementedError

    @wire_method(
        "question.list", "question.snapshot", m.QuestionSnapshot, key="questions", agents_see="about"
    )
    async def questions(self) -> tuple[Question, ...]:
        """Return the waiting questions that are not about one call, in order of arrival.

        An agent gets the questions about itself.
        """
        raise UnimplementedError

    @wire_method("panic", "ack", m.Ack, key="stopped", payload=m.EmptyPayload, kind=Kind.ACT)
    async def panic(self) -> bool:
        """Stop everything: end all leases and calls, and refuse new calls until a person releases the stop.

        Every client may do this. Returns False where everything was stopped already.
        """
        raise UnimplementedError

    @wire_method("trust.list", "trust.snapshot", m.TrustSnapshot, key="items")
    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """Return the registry entries that wait for trust. Only a viewer sees what is trusted in other
        folders."""
        raise UnimplementedError

    @wire_method("sidecar.probe", "ack", m.Ack, payload=m.SidecarProbe, kind=Kind.ACT, agents_see=EVERYTHING)
    async def probe(self, sidecar: str) -> None:
        """Start a new check whether a sidecar works. A `catalog.changed` event reports the result."""
        raise UnimplementedError

    @wire_method(
        "root.refresh",
        "ack",
        m.Ack,
        payload=m.RootRefresh,
        who=Who.VIEWER,
        agents_see=EVERYTHING,
        refusal="only a viewer may have the files of the root read again",
    )
    async def refresh(self, probes: bool = False) -> None:
        """Have the files of the root read again, so that the next answers show what they say now.

        With `probes`, wait for the sidecars that are being probed as well, for a bounded time. Only viewers
        may.
        """
        raise UnimplementedError

    @wire_method(
        "doctor.get",
        "doctor.snapshot",
        m.DoctorSnapshot,
        key="checks",
        payload=m.EmptyPayload,
        who=Who.VIEWER,
        agents_see=EVERYTHING,
        refusal="only a viewer may read the checks of the root",
    )
    async def checks(self) -> tuple[Check, ...]:
        """Check everything that the root needs: files, programs, audit log, display. Only viewers may."""
        raise UnimplementedError

    @wire_method(
        "starter.get",
        "starter.snapshot",
        m.StarterSnapshot,
        key="starter",
        payload=m.EmptyPayload,
        who=Who.VIEWER,
        agents_see=EVERYTHING,
        refusal="only a viewer may read the starter registry",
    )
    async def starter(self) -> StarterOffer:
        """Ask the bundled sidecars what works on this machine, and return the entries for them.

        Only viewers may. A recent answer of a sidecar is not asked for again.
        """
        raise UnimplementedError

    @wire_method(
        "starter.plan.get",
        "starter.plan.snapshot",
        m.StarterPlanSnapshot,
        key="plan",
        payload=c.StarterPlanGet,
        who=Who.VIEWER,
        agents_see=EVERYTHING,
        refusal="only a viewer may read the starter registry",
    )
    async def plan_starter(self, sidecars: tuple[str, ...]) -> StarterPlan:
        """Return the change that `write_starter` would make for these entries. Only viewers may."""
        raise UnimplementedError

    @wire_method(
        "root.nested", "ack", m.Ack, key="permission", payload=m.NestedRoot, who=Who.PROGRAM, kind=Kind.ACT
    )
    async def nested_root(self, root: str) -> RootPermission:
        """Return whether programs may work on a root that lies within this kernel's, by its real path.

        A person is asked once for each such root. A program that a kernel started gets the answer and asks
        nobody.
        """
        raise UnimplementedError

    @wire_method(
        "call.undo",
        "call.undone",
        m.CallUndone,
        key="undone",
        payload=m.CallUndo,
        who=Who.VIEWER,
        kind=Kind.ACT,
        refusal="only a viewer may undo a change",
    )
    async def undo_call(self, call_id: str, look: bool) -> UndoResult:
        """Undo the change that a call of the kernel's own tools made to files. Only viewers may.

        It is refused where a file is not what the call left. With `look` nothing is changed.
        """
        raise UnimplementedError

    @wire_method("package.list", "package.snapshot", m.PackageSnapshot, key="packages")
    async def packages(self) -> tuple[PackageView, ...]:
        """Return the packages, with what each staged version would change. Agents get none."""
        raise UnimplementedError

    @wire_method(
        "package.verify",
        "package.checks",
        m.PackageChecks,
        key="checks",
        payload=m.EmptyPayload,
        who=Who.VIEWER,
        agents_see=EVERYTHING,
        refusal="only a viewer may verify the packages of the root",
    )
    async def verify_packages(self) -> tuple[PackageCheck, ...]:
        """Compare the files of each installed package with those that were installed. Only viewers may."""
        raise UnimplementedError

    @wire_method(
        "package.ask",
        "ack",
        m.Ack,
        key="outcome",
        payload=c.PackageAsk,
        who=Who.VIEWER,
        kind=Kind.ACT,
        refusal="only a viewer may ask for a change of a package",
    )
    async def ask_package(self, action: PackageAction, package: str, scope: PackageScope) -> Outcome:
        """Put a change of a package before a person, as a question in the console. Nothing changes by it."""
        raise UnimplementedError

    @wire_method("event.subscribe", "ack", m.Ack, payload=m.Subscribe, kind=Kind.CONNECTION)
    def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe to events of these classes, or of all. A slow listener loses events."""
        ...


class Approver(Protocol):
    """The decisions of a person. Each paired console has one."""

    @decision("ask.decide", c.AskDecide)
    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """Answer a request. Has no effect where `subject_digest`, of the card that was shown, is outdated."""
        raise UnimplementedError

    @decision("ask.edit", c.AskEdit)
    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Replace the input of a waiting request. This decides nothing.

        The new input is validated, prepared and evaluated by policy again. The request then has a new card
        with a new digest, and waits as before.
        """
        raise UnimplementedError

    @decision("ask.hold", c.AskHold)
    async def hold(self, request_id: str, held: bool) -> bool:
        """Stop the time limit of a waiting request, or let it run again. False where there is no request."""
        raise UnimplementedError

    @decision("lease.revoke", c.LeaseRevoke)
    async def revoke(self, lease_id: str) -> bool:
        """End a lease. Return False where it was not in force any more."""
        raise UnimplementedError

    @decision("rule.remove", c.RuleRemove, always)
    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """Remove a rule from the person's own policy file.

        `where` is its place as shown (`file:line`), and `digest` the digest of the rule that was shown, so
        that an outdated list removes no other rule.
        """
        raise UnimplementedError

    @decision("block.remove", c.BlockRemove, always)
    async def unblock(self, tool: str) -> bool:
        """Allow calls of a blocked tool again. Return False where it was not blocked."""
        raise UnimplementedError

    @decision("approver.undo")
    async def undo(self) -> Outcome:
        """Undo the last `revoke`, `remove_rule` or `unblock` of this session."""
        raise UnimplementedError

    @decision("question.answer", c.QuestionAnswer, releases_panic)
    async def answer(
        self, question_id: str, option: str, text: str = "", content: JsonObject | None = None
    ) -> Outcome:
        """Answer a question that is not about one call; `content` has the values for its form."""
        raise UnimplementedError

    @decision("trust.accept", c.TrustAccept, always)
    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """Trust entries, each as (sidecar id, digest shown). An entry that has changed is not trusted."""
        raise UnimplementedError

    @decision("sidecar.enable", c.SidecarEnable)
    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """Enable or disable an entry by an edit of its registry file that changes nothing else.

        The entry keeps its trust, because the person made the change. Running calls continue. The file keeps
        `reason` for an entry that is disabled.
        """
        raise UnimplementedError

    @decision("sidecar.permit", c.SidecarPermit, always)
    async def permit(self, sidecar: str, digest: str) -> Outcome:
        """Add the permissions that a call of the sidecar lacked to its entry, as a fix in the catalog shows.

        `digest` is that of the fix. The changed entry waits for trust.
        """
        raise UnimplementedError

    @decision("server.import", c.ServerImport, always)
    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """Import an MCP server from the file of another client into the project's registry, and trust it.

        `path` and `name` are as the catalog shows them, `digest` is that of the entry that the person was
        shown. Where the file gives another entry now, nothing is written. Existing entries stay as they are.
        """
        raise UnimplementedError

    @decision("package.stage", c.PackageStage, always)
    async def stage_package(self, source: str, scope: PackageScope) -> Outcome:
        """Stage the version in a folder or an archive of the kernel's machine. What runs does not change."""
        raise UnimplementedError

    @decision("package.change", c.PackageChange, always)
    async def change_package(
        self, action: PackageAction, package: str, scope: PackageScope, digest: str, agreed: bool = True
    ) -> Outcome:
        """Apply, roll back or remove a package, and trust its entry, because the person was shown it.

        Without a person who `agreed`, the entry waits for trust.

        `digest` is that of the review, for an apply; another one is refused. Running calls of the sidecar are
        waited for, and then ended. An outcome that was accepted has in `why_not` what the person should know:
        that it may not outlive a loss of power, or that the version does not answer its probe.
        """
        raise UnimplementedError

    @decision("package.discard", c.PackageDiscard, always)
    async def discard_package(self, package: str, scope: PackageScope) -> Outcome:
        """Discard the staged version of a package. What is installed stays."""
        raise UnimplementedError

    @decision("console.refuse", c.RefusePairing)
    async def refuse_pairing(self, pid: int) -> bool:
        """Make the pairing codes of that process invalid. Return False where it had none."""
        raise UnimplementedError

    @decision("starter.write", c.StarterWrite)
    async def write_starter(self, sidecars: tuple[str, ...], digest: str) -> Outcome:
        """Write these entries of the starter registry into the project's registry, and trust them.

        `digest` is that of the change that the person was shown. A file that changed since is not edited.
        """
        raise UnimplementedError


_NOT_A_VIEWER = "a console must be a viewer: send client.hello with viewer before the first call"
_NO_TOKENS = "only a viewer may make or revoke tokens"


def _row(message: str, answer: str, shape: type[msgspec.Struct], **more: Any) -> Method:
    return Method(message, answer, shape, **{"kind": Kind.CONNECTION, **more})


def _query(message: str, answer: str, shape: type[msgspec.Struct], **more: Any) -> Method:
    """Return the row of a read that neither interface has and a method of `Queries` answers.

    The fields of its payload are the parameters of that method.
    """
    parameters = [
        inspect.Parameter(field, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for field in more["payload"].__struct_fields__
    ]
    return Method(message, answer, shape, signature=inspect.Signature(parameters), **more)


METHODS: tuple[Method, ...] = (
    *WIRE_METHODS,
    _query("ask.detail.get", "ask.snapshot", m.AskSnapshot, key="asks", payload=m.AskGet, name="one_ask"),
    _query(
        "history.detail.get",
        "history.snapshot",
        m.HistorySnapshot,
        key="calls",
        payload=m.CallGet,
        name="one_call",
    ),
    _query(
        "confirm.list",
        "confirm.snapshot",
        m.DataSnapshot,
        key="data",
        payload=m.ConfirmList,
        name="confirms",
    ),
    *(Method(message, answer, m.DataSnapshot, data=data) for message, (answer, data) in EMPTY_READS.items()),
    _query("tool.schema.get", "tool.schema.snapshot", m.ToolSchema, payload=m.SchemaGet, name="tool_schema"),
    _row("client.hello", "ack", m.Ack, payload=m.Hello),
    _row("ping", "pong", m.Pong),
    _row("event.unsubscribe", "ack", m.Ack, payload=m.Subscribe),
    _row(
        "console.attach",
        "console.pairing",
        m.EmptyPayload,
        payload=c.Attach,
        who=Who.VIEWER,
        refusal=_NOT_A_VIEWER,
    ),
    _row("console.pair", "ack", m.Ack, payload=c.Pair, who=Who.VIEWER, refusal=_NOT_A_VIEWER),
    _row(
        "terminal.prove",
        "terminal.proof",
        m.TerminalProof,
        payload=m.EmptyPayload,
        who=Who.VIEWER,
        refusal="only a viewer may decide at a terminal",
    ),
    _row("kernel.yield", "ack", m.Ack, payload=m.EmptyPayload, who=Who.PROGRAM, kind=Kind.ACT),
    _row(
        "trust.revoke",
        "ack",
        m.Ack,
        payload=m.EmptyPayload,
        who=Who.VIEWER,
        kind=Kind.ACT,
        refusal="only a viewer may revoke trust",
    ),
    _row("token.add", "ack", m.Ack, payload=m.TokenAdd, who=Who.VIEWER, kind=Kind.ACT, refusal=_NO_TOKENS),
    _row(
        "login.change",
        "ack",
        m.Ack,
        payload=m.LoginChange,
        who=Who.VIEWER,
        kind=Kind.ACT,
        refusal="only a viewer may log in or out at a server",
    ),
    _row(
        "token.revoke", "ack", m.Ack, payload=m.TokenRevoke, who=Who.VIEWER, kind=Kind.ACT, refusal=_NO_TOKENS
    ),
)
"""Every message that a client may send."""
BY_MESSAGE: Mapping[str, Method] = {method.message: method for method in METHODS}
ANSWERS: Mapping[str, type[msgspec.Struct]] = {
    "server.hello": m.ServerHello,
    "error": m.ErrorAnswer,
    "tool.progress": Progress,
    **{method.answer: method.shape for method in METHODS},
}
"""The payload of every type of message that the kernel sends, except events. Without `detail`, the payload of
`capability.catalog.snapshot` is the document that `flytui schema catalog` describes."""


def methods_of(interface: type) -> tuple[Method, ...]:
    """Return the rows of `Client` or of `Approver`."""
    return tuple(method for method in METHODS if method.interface == interface.__name__)
