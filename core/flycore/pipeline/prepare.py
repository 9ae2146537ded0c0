"""Steps 1 and 4: find the sidecar that offers a tool, seal its programs, judge the call, bind it to a digest.

`resolve` and `prepare` run again after a person has approved the call and after every wait. Equal subject
digests mean that what was approved is what runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache, partial

import anyio
import anyio.to_thread
import msgspec

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.catalog.builtin import AGENT_ACTIONS, AGENT_ITSELF, EDIT, agent_actions, agent_entry
from flycore.catalog.reasons import secret_remedy
from flycore.model.approval import AgentAccess, Preview, Subject, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller, CallRequest
from flycore.model.catalog import Capability, CapabilityView
from flycore.model.enums import (
    Anchor,
    Code,
    Decision,
    Kind,
    Layer,
    Level,
    PathState,
    ReasonCode,
    Risk,
    SealKind,
    Status,
)
from flycore.model.json import JsonObject, digest
from flycore.model.large_values import is_large, run_aside
from flycore.model.program import ResolvedProgram, Seal, SealedDelegate, first_partial, surroundings_of
from flycore.model.sidecar import Permissions, Registry, SidecarEntry
from flycore.model.stability import PermissionReport, SandboxReport
from flycore.pipeline.agent_access import agent_access
from flycore.pipeline.builtin_tools import (
    builtin_environment,
    entry_of,
    find_builtin_program,
    read_changes,
    why_each_time,
)
from flycore.pipeline.call import Rejection, denied, failed, no_descriptors
from flycore.pipeline.confine import below_minimum_level
from flycore.pipeline.context import JudgeContext, RootEnvironment, RootState
from flycore.pipeline.exec_call import value_refusal
from flycore.pipeline.no_target import CALLABLE, blocked_tool, not_callable, not_found
from flycore.pipeline.targets.file import read_file_target
from flycore.pipeline.targets.window import accepts_unchecked, take_preview
from flycore.pipeline.validate import unsendable
from flycore.policy.evaluate import conditions_are_costly, evaluate
from flycore.registry.resolve import at_url
from flycore.runners.workspace.planned_changes import CHANGING
from flycore.sandbox.call_confinement import CallFolders, named_folder
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.digests import ChangedWhileReadError, UnsealableError
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.levels import builtin_report, report, sandbox_level
from flycore.sandbox.seals import StartConditions, is_kept, seal_address, seal_by_name, seal_program
from flycore.sandbox.secret_masks import Masks


class Target(Value, frozen=True, kw_only=True):
    """The tool that will be called and the entry that offers it."""

    capability: Capability
    entry: SidecarEntry
    notices: tuple[str, ...] = ()
    """What a person who is asked has to know about the tool."""

    @property
    def decided(self) -> bool:
        """Whether the call ends with the decision: an agent's own tool, which flytui does not run."""
        return self.capability.name in AGENT_ACTIONS

    @property
    def builtin(self) -> bool:
        """Whether the kernel runs the tool itself, so that no sidecar does."""
        return self.capability.layer is Layer.BUILTIN and not self.decided

    @property
    def sidecar(self) -> str | None:
        """The id of the sidecar that runs the tool; None for an agent's own tool and for the kernel's."""
        return None if self.decided or self.builtin else self.entry.id


def resolve(root_state: RootState, tool: str, blocks: ToolBlockStore) -> Target | Rejection:
    """Find the target, or give the reason why there is none: not found, blocked, denied by policy, or
    unavailable with its first reason."""
    if tool in AGENT_ACTIONS:
        return _agent_call(tool, blocks)
    view = callable_view(root_state, tool, blocks)
    if isinstance(view, Rejection):
        return view
    entry = entry_of(root_state, view) or root_state.entries.get(view.sidecar or "")
    if entry is None:
        return not_callable(view)
    reasons = view.stability.reasons
    notices = tuple(reason.message for reason in reasons if reason.code is ReasonCode.DIALECT_UNKNOWN)
    return Target(capability=view.capability, entry=entry, notices=notices)


def callable_view(root_state: RootState, tool: str, blocks: ToolBlockStore) -> CapabilityView | Rejection:
    """The tool as the catalog has it, or the reason why it cannot be called."""
    view = root_state.index.get(tool)
    if view is None:
        return not_found(root_state, tool)
    # The block store is asked itself: the catalog is rebuilt a moment after a person blocks a tool, and a
    # call in that moment must not run.
    if blocks.block_for(tool) is not None and view.stability.effective in CALLABLE:
        return blocked_tool(tool)
    return view if view.stability.effective in CALLABLE else not_callable(view)


def _agent_call(tool: str, blocks: ToolBlockStore) -> Target | Rejection:
    if blocks.block_for(tool) is not None:
        return blocked_tool(tool)
    return Target(capability=agent_actions()[tool], entry=agent_entry())


# Step 4: the entry's programs are resolved to files, and the files are sealed.


CHANGED = "its program changed since it was trusted"
UNCHECKED = "its schema is not known, so that its input is not checked"


class Sealed(Value, frozen=True, kw_only=True):
    """The programs of an entry, with the seal of each."""

    program: ResolvedProgram
    seal: Seal
    delegates: tuple[SealedDelegate, ...]
    delegate_programs: dict[str, ResolvedProgram]
    """The program of each delegate, by the delegate's name."""
    conditions: StartConditions = StartConditions()
    """How the programs are started, as far as their seals depend on it."""
    changed: bool = False
    """Whether the programs changed since a person last accepted them."""
    each_time: str = ""
    """Why a person is asked about each call, whatever was allowed before; empty if that is not so."""

    @property
    def seals(self) -> tuple[Seal, ...]:
        """The seals of the program and of its delegates."""
        return (self.seal, *(item.seal for item in self.delegates))

    @property
    def weakness(self) -> str:
        """Why no rule may allow a call; empty where one may."""
        partial = first_partial(self.seals)
        if partial:
            return f"the seal is partial: {partial}"
        return self.each_time or (CHANGED if self.changed else "")

    def accepted_digest(self, entry: SidecarEntry) -> str:
        """The digest of everything of it that a person accepts; empty where all of it is flytui's own, or
        where only a name is sealed."""
        own = all(seal.kind is SealKind.BUNDLED and seal.complete for seal in self.seals)
        if own or self.seal.kind is SealKind.NAME:
            return ""
        # A server starts with flytui. If every change in the project counted, a person would be asked about
        # it each time, and would stop reading.
        surroundings = "" if entry.kind is Kind.MCP else surroundings_of(self.seals)
        return _programs_digest(self.seal.digest, tuple(self.delegate_digests().items()), surroundings)

    def delegate_digests(self) -> dict[str, str]:
        """The digest of each delegate that an approval is bound to, by the delegate's name."""
        return {item.name: digest([list(item.argv), item.seal.digest]) for item in self.delegates}


@lru_cache(maxsize=1_024)
def _programs_digest(seal: str, delegates: tuple[tuple[str, str], ...], surroundings: str) -> str:
    return digest([seal, [list(pair) for pair in delegates], surroundings])


async def seal_entry(root: RootEnvironment, root_state: RootState, target: Target) -> Sealed | Rejection:
    """Resolve and seal the entry's command and every delegate that resolves."""
    entry, registry = target.entry, root_state.registry
    if entry.url:
        return _sealed_address(entry)
    program, level = program_and_level(root, registry, entry, root_state.support)
    # The first seal may read a whole folder: in a worker thread, so that the event loop goes on. Later ones
    # look at each file once and read none.
    # One at a time for each entry, in the order of arrival: calls that came together are asked about in that
    # order, and the second one uses what the first has read.
    async with root.seal_order.setdefault(entry.id, anyio.Lock(fast_acquire=True)):
        try:
            quick = is_kept(program, root.conditions(registry, entry, level))
        except OSError:
            quick = False
        if quick:
            return _sealed(root, registry, entry, program, level)
        return await anyio.to_thread.run_sync(_sealed, root, registry, entry, program, level)


def seal_programs(
    root: RootEnvironment, registry: Registry, entry: SidecarEntry, support: SandboxSupport
) -> Sealed | Rejection:
    """Resolve and seal the programs of an entry. Reads files, so it is not for the event loop."""
    if entry.url:
        return _sealed_address(entry)
    return _sealed(root, registry, entry, *program_and_level(root, registry, entry, support))


def program_and_level(
    root: RootEnvironment, registry: Registry, entry: SidecarEntry, support: SandboxSupport
) -> tuple[ResolvedProgram, Level]:
    """Resolve the entry's command, and return the level of its calls as well."""
    program = root.resolve(registry, entry, entry.command, entry.args)
    return program, sandbox_level(entry, support, bundled=root.bundled(program))


def _sealed_address(entry: SidecarEntry) -> Sealed:
    return Sealed(program=at_url(entry), seal=seal_address(entry), delegates=(), delegate_programs={})


def _sealed(
    root: RootEnvironment, registry: Registry, entry: SidecarEntry, program: ResolvedProgram, level: Level
) -> Sealed | Rejection:
    """The sealed programs, with whether they changed since a person accepted them."""
    sealed = seal_resolved(root, registry, entry, program, level)
    if isinstance(sealed, Rejection):
        return sealed
    accepted = sealed.accepted_digest(entry)
    changed = bool(accepted) and root.accepted.changed(entry.id, entry.digest, accepted)
    return msgspec.structs.replace(sealed, changed=True) if changed else sealed


def seal_resolved(
    root: RootEnvironment, registry: Registry, entry: SidecarEntry, program: ResolvedProgram, level: Level
) -> Sealed | Rejection:
    """Seal the programs of an entry whose calls have that level, without comparing them with those that a
    person accepted."""
    if program.state is not PathState.RESOLVED:
        return _unresolved(program)
    try:
        conditions = root.conditions(registry, entry, level)
        seal = partial(seal_program, conditions=conditions)
        own = seal_by_name(entry, program, seal(program)) if entry.kind is Kind.MCP else seal(program)
        delegates, programs = [], {}
        for name, delegate in sorted(entry.delegates.items()):
            followed = root.resolve(registry, entry, delegate.command, delegate.args)
            if followed.state is PathState.RESOLVED:
                programs[name] = followed
                delegates.append(SealedDelegate(name=name, argv=followed.argv, seal=seal(followed)))
    except UnsealableError as error:
        hint = 'change that, or set "seal": "in-place" in the entry: then you are asked about every call'
        return failed(Code.SPAWN, f"the program cannot be sealed: {error.filename} {error.strerror}", hint)
    except OSError as error:
        if (rejection := no_descriptors(error)) is not None:
            return rejection
        message = f"the program cannot be read: {error.strerror or error}"
        return failed(Code.SPAWN, message, _remedy(error), path=str(error.filename))
    return Sealed(
        conditions=conditions,
        program=program,
        seal=own,
        delegates=tuple(delegates),
        delegate_programs=programs,
    )


def _asked_each_time(sealed: Sealed, why: str) -> Sealed:
    """The programs of a call that neither a rule nor a lease allows."""
    seal = msgspec.structs.replace(sealed.seal, leasable=False)
    return msgspec.structs.replace(sealed, seal=seal, each_time=why)


def _open_folder(root: RootEnvironment, entry: SidecarEntry, input: JsonObject, sealed: Sealed) -> str:
    """A folder that the input lets a program read that may load what it holds; empty where there is none."""
    if all(seal.complete and not seal.copy for seal in sealed.seals):
        return ""  # flytui's own, or one that loads nothing
    project, home = str(root.places.app_root), root.environ.get("HOME", "")
    folders = CallFolders(app_root=project, cwd=sealed.conditions.cwd, home=home)
    return named_folder(entry.permissions.read, input, folders)


def accept_programs(root: RootEnvironment, entry: SidecarEntry, sealed: Sealed) -> None:
    """Record that a person has accepted the programs of the entry as they are sealed."""
    accepted = sealed.accepted_digest(entry)
    if accepted and not entry.url:
        root.accepted.accept(entry.id, entry.digest, accepted)


def _remedy(error: OSError) -> str:
    """What a person can do about a program that cannot be read."""
    if isinstance(error, ChangedWhileReadError):
        return (
            f"something keeps writing {error.filename}: if the tool does, name it in permissions.fs.write of"
            " its entry; else end what writes it, then call again"
        )
    return "give flytui the right to read it, or correct the entry"


def _unresolved(program: ResolvedProgram) -> Rejection:
    # Where no file can be opened, every program looks as if it were missing.
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if (rejection := no_descriptors(error)) is not None:
            return rejection
    return Rejection(
        status=Status.UNAVAILABLE,
        code=program.reason or ReasonCode.COMMAND_NOT_FOUND,
        message=program.message,
        hint=program.remedy,
    )


# Step 4 for an agent's own tool: the agent runs it itself and asks only whether it may.
#
# Nothing is started, sealed or confined here, and the card says so.


NOT_OURS = "it runs in the agent itself, not sandboxed and not sealed by flytui"
_ANYTHING = PermissionReport(
    name="everything",
    declared="whatever the agent itself may do",
    enforced=False,
    why=f"not enforced: {NOT_OURS}",
)
AGENT_SANDBOX = SandboxReport(level=Level.NONE, mechanism="", permissions=(_ANYTHING,))


def agent_program(entry: SidecarEntry) -> Sealed:
    """The stand-in for a sealed program. Its digest is that of the built-in entry, so that an approval ends
    with the definition that it was given for."""
    program = ResolvedProgram(
        state=PathState.RESOLVED, mode="path", base=Anchor.APP, declared=AGENT_ITSELF, path=AGENT_ITSELF
    )
    seal = Seal(kind=SealKind.NAME, digest=entry.digest, program=AGENT_ITSELF, note=NOT_OURS)
    return Sealed(program=program, seal=seal, delegates=(), delegate_programs={})


async def _builtin_program(
    root: RootEnvironment, root_state: RootState, target: Target, input: JsonObject
) -> Sealed | Rejection:
    """The program that a tool of the kernel starts, or what stands for it."""
    found = await anyio.to_thread.run_sync(
        find_builtin_program, root, root_state, target.entry, target.capability.name, input
    )
    if isinstance(found, Rejection):
        return found
    program, seal = found
    sealed = Sealed(program=program, seal=seal, delegates=(), delegate_programs={})
    why = await why_each_time(root, target.capability.name, input)
    return _asked_each_time(sealed, why) if why else sealed


# Step 4: the validated input, the sealed programs, the verdict, and the digest over all of it.


class Prepared(Value, frozen=True, kw_only=True):
    """Everything that is known about a call before it runs."""

    target: Target
    input: JsonObject
    sealed: Sealed
    sandbox: SandboxReport
    environment: dict[str, str]
    secrets: dict[str, str]
    preview: Preview | None
    page_title: str = ""
    """The title of the page that a browser tool acts on; it is no part of the subject."""
    diff: tuple[str, ...] = ()
    """The change that the call would make to the file that `preview` names, as lines of a diff."""
    risk: Risk
    verdict: Verdict
    subject: Subject
    subject_digest: str
    input_digest: str
    masks: Masks
    """Replaces the secrets that this call injects."""

    @property
    def seal(self) -> Seal:
        """The seal of the program."""
        return self.sealed.seal

    @property
    def delegates(self) -> tuple[SealedDelegate, ...]:
        """The sealed delegates."""
        return self.sealed.delegates


async def prepare(
    context: JudgeContext,
    request: CallRequest,
    target: Target,
    input: JsonObject,
    earlier: Preview | None = None,
) -> Prepared | Rejection:
    """Seal, ask policy, read the target, which was `earlier` when the call arrived; or say why it ends."""
    # Read once: another state may replace this one while the function waits, and its parts belong together.
    root_state, entry = context.state.latest, target.entry
    sealed = await _seal_target(context.root, root_state, target, input)
    if isinstance(sealed, Rejection):
        return sealed
    secrets, missing = declared_secrets(entry.permissions, context.root.secret_values)
    stop = _secret_missing(missing) if missing else _input_refusal(target, input, secrets)
    sandbox = stop or _report(root_state, target, sealed.seal)
    if isinstance(sandbox, Rejection):
        return sandbox
    now = context.clock.now()
    # After the seal, which rules look at, and before the screen, which a denied call has no use for.
    access = await agent_access(context.root, root_state, request.tool, input)
    judging = partial(judge, root_state, target, input, sealed, sandbox, access=access, now=now)
    aside = is_large(input) or conditions_are_costly(root_state.files.policy, target.capability, input)
    risk, verdict = await run_aside(aside, partial(judging, caller=request.caller))
    if verdict.decision is Decision.DENY:
        return _denied(context, verdict)
    seen = await _read_target(context, target, input, earlier, verdict)
    if isinstance(seen, Rejection):
        return seen
    environment = _child_environment(context.root, request, target, sealed.program, secrets)
    subject = Subject(
        caller=request.caller.key,
        tool=request.tool,
        input=input,
        seal=sealed.seal.digest,
        delegates=sealed.delegate_digests(),
        entry=_entry_digest(target),
        permissions=_permissions_digest(entry.permissions),
        level=sandbox.level,
        env_names=tuple(sorted(environment)),
        policy=root_state.files.policy.version_at(now),
        preview=seen.preview,
    )
    return Prepared(
        target=target,
        input=input,
        sealed=sealed,
        sandbox=sandbox,
        environment=environment,
        secrets=dict(secrets),
        preview=seen.preview,
        diff=seen.diff,
        risk=risk,
        verdict=verdict,
        subject=subject,
        subject_digest=await run_aside(aside, subject.digest),
        input_digest=await run_aside(aside, digest, input),
        masks=root_state.masks_with({**secrets, **context.root.login_tokens.get(entry.id, {})}),
    )


def _input_refusal(target: Target, input: JsonObject, secrets: Mapping[str, str]) -> Rejection | None:
    """Why the program cannot be told this input, which fits the tool's schema; None where it can."""
    refusal = value_refusal(target.entry, input, secrets)
    return refusal or unsendable(target.capability, input, target.entry.config)


async def _seal_target(
    root: RootEnvironment, root_state: RootState, target: Target, input: JsonObject
) -> Sealed | Rejection:
    """The programs that the call starts, sealed; for an agent's own tool what stands for them."""
    if target.decided:
        return agent_program(target.entry)
    if target.builtin:
        return await _builtin_program(root, root_state, target, input)
    entry, sealed = target.entry, await seal_entry(root, root_state, target)
    if isinstance(sealed, Rejection):
        return sealed
    if entry.kind is Kind.EXECUTABLE and not target.capability.definition:
        return _asked_each_time(sealed, UNCHECKED)
    folder = _open_folder(root, entry, input, sealed)
    return _asked_each_time(sealed, f"its input lets it load files of {folder}") if folder else sealed


def _child_environment(
    root: RootEnvironment,
    request: CallRequest,
    target: Target,
    program: ResolvedProgram,
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """The environment of the child process; empty where none is started."""
    if target.decided:
        return {}
    made = child_environment(
        target.entry, program, environ=root.environ, secrets=secrets, call_id=request.call_id
    )
    return builtin_environment(request.tool, root.environ, made) if target.builtin else made


def _report(root_state: RootState, target: Target, seal: Seal) -> SandboxReport | Rejection:
    """How the call is confined, or why it must not run at the level that is possible here."""
    if target.decided:
        return AGENT_SANDBOX
    own = seal.kind is SealKind.BUNDLED
    if target.builtin:
        found = builtin_report(root_state.support, target.entry, own=own)
    else:
        found = report(target.entry, root_state.support, bundled=own)
    tool = target.capability.name
    return below_minimum_level(root_state, tool, target.entry, found.level, bundled=own) or found


class _TargetView(Value, frozen=True, kw_only=True):
    """The window or file that the call would act on."""

    preview: Preview | None = None
    diff: tuple[str, ...] = ()


async def _read_target(
    context: JudgeContext, target: Target, input: JsonObject, earlier: Preview | None, verdict: Verdict
) -> _TargetView | Rejection:
    """Read the window that the call would act on, or the files that it, or an agent itself, would change. The
    files are read only where a person is asked."""
    tool = target.capability.name
    # The path is the agent's choice and may lie on a file system that answers slowly: the event loop does not
    # wait for it.
    if tool in CHANGING and verdict.decision is Decision.ASK:
        change = await read_changes(context.root, tool, input)
        if isinstance(change, Rejection):
            return change
        return _TargetView(preview=change[0], diff=change[1])
    if tool == EDIT and verdict.decision is Decision.ASK:
        seen = await anyio.to_thread.run_sync(read_file_target, input, context.root.places.app_root)
        return _TargetView(preview=seen.preview, diff=seen.diff)
    blind = accepts_unchecked(target.entry, context.root.environ)
    protected = context.protected_windows().on_display(context.root.environ.get("DISPLAY", ""))
    preview = await take_preview(context.desktop, protected, tool, input, earlier, unchecked=blind)
    return preview if isinstance(preview, Rejection) else _TargetView(preview=preview)


def _entry_digest(target: Target) -> str:
    """The digest of the entry together with the MCP server's definition of the tool, and with the dialect
    that the program is sent the input in: an approval ends when one of them changes."""
    definition, dialect = target.capability.definition, target.capability.dialect
    more = [part for part in (definition, dialect) if part]
    return digest([target.entry.digest, *more]) if more else target.entry.digest


@lru_cache(maxsize=1024)
def _permissions_digest(permissions: Permissions) -> str:
    return digest(msgspec.to_builtins(permissions))


def judge(
    root_state: RootState,
    target: Target,
    input: JsonObject,
    sealed: Sealed,
    sandbox: SandboxReport,
    *,
    caller: Caller,
    now: float,
    access: AgentAccess | None = None,
) -> tuple[Risk, Verdict]:
    """The risk of this call, and the verdict of policy."""
    found = evaluate(
        root_state.files.policy,
        target.capability,
        target.entry,
        input=input,
        level=sandbox.level,
        bundled_unmodified=sealed.seal.kind is SealKind.BUNDLED,
        unsealed=sealed.weakness,
        user_risk=root_state.files.settings.risk.get(target.capability.name),
        caller=caller,
        now=now,
        access=access,
    )
    return found.risk, found.verdict


def _denied(context: JudgeContext, verdict: Verdict) -> Rejection:
    context.note_rules(verdict.rules)
    because = "; ".join(rule.because for rule in verdict.rules)
    return denied(Code.POLICY, "policy denies this call", because)


def masks_for(root_state: RootState, entry: SidecarEntry | None, root: RootEnvironment) -> Masks:
    """Masks over the secrets of the root, over those that the entry declares, and over the tokens of the
    login at its server."""
    if entry is None:
        return root_state.masks
    declared, _ = declared_secrets(entry.permissions, root.secret_values)
    return root_state.masks_with({**declared, **root.login_tokens.get(entry.id, {})})


def _secret_missing(missing: dict[str, str]) -> Rejection:
    names = ", ".join(f"{name} ({why})" for name, why in missing.items())
    return Rejection(
        status=Status.UNAVAILABLE,
        code=ReasonCode.SECRET_MISSING,
        message=f"declared secrets are not there: {names}",
        hint=secret_remedy(missing),
    )
