"""Steps 2 to 5: the checked input, the sealed program, the verdict, and the digest over all of it.

`prepare` is asked twice for a call that was approved: before the person is asked and again before
the spawn. Equal subject digests mean that what was approved is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import anyio.to_thread
import msgspec

from flycore.catalog.agent_actions import EDIT
from flycore.executive.decided import AGENT_SANDBOX, agent_program
from flycore.executive.file_look import read_file_target
from flycore.executive.preview import accepts_unchecked, take_preview
from flycore.executive.resolve import Target
from flycore.executive.rooms import JudgeContext
from flycore.executive.sealing import Sealed, seal_entry
from flycore.executive.stop import Rejection, denied
from flycore.executive.world import RootEnvironment, RootState
from flycore.model.approval import Preview, Subject, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller, CallRequest
from flycore.model.enums import Code, Decision, ReasonCode, Risk, SealKind, Status
from flycore.model.json import JsonObject, digest
from flycore.model.program import ResolvedProgram, Seal, SealedDelegate
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import SandboxReport
from flycore.policy.evaluate import evaluate
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.levels import report
from flycore.sandbox.masks import Masks


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
    """Of the page that a browser tool acts on; no part of the subject."""
    diff: tuple[str, ...] = ()
    """What the change would make of the file that `preview` names."""
    risk: Risk
    verdict: Verdict
    subject: Subject
    subject_digest: str
    input_digest: str
    masks: Masks
    """Replaces the secrets this call injects."""

    @property
    def seal(self) -> Seal:
        """What was sealed of the program."""
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
    """Seal the programs, ask policy, look at the target; or say what is missing or denied.

    `earlier` is the target as it was seen when the call arrived.
    """
    world, entry = context.state.world, target.entry
    sealed = agent_program(entry) if target.decided else await seal_entry(context.ground, world, target)
    if isinstance(sealed, Rejection):
        return sealed
    program, seal = sealed.program, sealed.seal
    secrets, missing = declared_secrets(entry.permissions, context.ground.environ)
    if missing:
        return _secret_missing(missing)
    sandbox = _report(target, seal)
    now = context.clock.now()
    risk, verdict = judge(world, target, input, seal, sandbox, caller=request.caller, now=now)
    if verdict.decision is Decision.DENY:
        return _denied(context, verdict)
    seen = await _read_target(context, target, input, earlier, verdict)
    if isinstance(seen, Rejection):
        return seen
    environment = _child_environment(context.ground, request, target, program, secrets)
    subject = Subject(
        caller=request.caller.key,
        tool=request.tool,
        input=input,
        seal=seal.digest,
        delegates=sealed.delegate_digests(),
        entry=_entry_digest(target),
        permissions=_permissions_digest(entry.permissions),
        level=sandbox.level,
        env_names=tuple(sorted(environment)),
        policy=world.policy.version_at(now),
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
        subject_digest=subject.digest(),
        input_digest=digest(input),
        masks=Masks(secrets),
    )


def _child_environment(
    ground: RootEnvironment,
    request: CallRequest,
    target: Target,
    program: ResolvedProgram,
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """The child's; none where nothing is started."""
    if target.decided:
        return {}
    return child_environment(
        target.entry, program, environ=ground.environ, secrets=secrets, call_id=request.call_id
    )


def _report(target: Target, seal: Seal) -> SandboxReport:
    if target.decided:
        return AGENT_SANDBOX
    own = seal.kind is SealKind.BUNDLED
    return report(target.entry.permissions, target.entry.limits, bundled=own)


class _TargetView(Value, frozen=True, kw_only=True):
    """What the call would act on."""

    preview: Preview | None = None
    diff: tuple[str, ...] = ()


async def _read_target(
    context: JudgeContext, target: Target, input: JsonObject, earlier: Preview | None, verdict: Verdict
) -> _TargetView | Rejection:
    """Look at the window, or at the file that an agent would change itself; not where nobody judges it."""
    tool = target.capability.name
    if tool == EDIT and verdict.decision is Decision.ASK:
        seen = await anyio.to_thread.run_sync(read_file_target, input, context.ground.places.app_root)
        return _TargetView(preview=seen.preview, diff=seen.diff)
    blind = accepts_unchecked(target.entry, context.ground.environ)
    preview = await take_preview(context.desktop, context.seat(), tool, input, earlier, unchecked=blind)
    return preview if isinstance(preview, Rejection) else _TargetView(preview=preview)


def _entry_digest(target: Target) -> str:
    """The entry, with what its MCP server says of the tool: a yes holds for both or for neither."""
    definition = target.capability.definition
    return digest([target.entry.digest, definition]) if definition else target.entry.digest


@lru_cache(maxsize=1024)
def _permissions_digest(permissions: Permissions) -> str:
    return digest(msgspec.to_builtins(permissions))


def judge(
    world: RootState,
    target: Target,
    input: JsonObject,
    seal: Seal,
    sandbox: SandboxReport,
    *,
    caller: Caller,
    now: float,
) -> tuple[Risk, Verdict]:
    """How risky this call is, and what policy says of it."""
    found = evaluate(
        world.policy,
        target.capability,
        target.entry,
        input=input,
        level=sandbox.level,
        bundled_unmodified=seal.kind is SealKind.BUNDLED,
        user_risk=world.settings.risk.get(target.capability.name),
        caller=caller,
        now=now,
    )
    return found.risk, found.verdict


def _denied(context: JudgeContext, verdict: Verdict) -> Rejection:
    context.note_rules(verdict.rules)
    because = "; ".join(rule.because for rule in verdict.rules)
    return denied(Code.POLICY, "policy denies this call", because)


def masks_for(entry: SidecarEntry, environ: Mapping[str, str]) -> Masks:
    """Masks over the secrets the entry declares."""
    return Masks(declared_secrets(entry.permissions, environ)[0])


def _secret_missing(missing: dict[str, str]) -> Rejection:
    names = ", ".join(f"{name} ({why})" for name, why in missing.items())
    return Rejection(
        status=Status.UNAVAILABLE,
        code=ReasonCode.SECRET_MISSING,
        message=f"declared secrets are not there: {names}",
        hint="set them in the environment flytui is started from",
    )
