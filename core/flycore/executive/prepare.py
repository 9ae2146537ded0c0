"""Steps 2 to 5: the checked input, the sealed program, the verdict, and the digest over all of it.

`prepare` is asked twice for a call that was approved: before the person is asked and again before
the spawn. Equal subject digests mean that what was approved is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from flycore.approval.policy import evaluate
from flycore.catalog.effects import risk_of
from flycore.executive.preview import accepts_unchecked, take_preview
from flycore.executive.resolve import Target
from flycore.executive.rooms import Rooms
from flycore.executive.sealing import Sealed, seal_entry
from flycore.executive.stop import Stop, refused
from flycore.executive.world import World
from flycore.model.approval import Preview, Subject, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller, CallRequest
from flycore.model.canonical import JsonObject, digest
from flycore.model.enums import Code, Decision, ReasonCode, Risk, SealKind, Status
from flycore.model.program import Seal, SealedDelegate
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import SandboxReport
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
    rooms: Rooms,
    world: World,
    request: CallRequest,
    target: Target,
    input: JsonObject,
    earlier: Preview | None = None,
) -> Prepared | Stop:
    """Seal the programs, ask policy, look at the target; or say what is missing or denied.

    `earlier` is the target as it was seen when the call arrived.
    """
    entry = target.entry
    sealed = await seal_entry(rooms, world, target)
    if isinstance(sealed, Stop):
        return sealed
    program, seal = sealed.program, sealed.seal
    secrets, missing = declared_secrets(entry.permissions, rooms.environ)
    if missing:
        return _secret_missing(missing)
    sandbox = report(entry.permissions, entry.limits, bundled=seal.kind is SealKind.BUNDLED)
    now = rooms.clock.now()
    risk, verdict = judge(world, target, input, seal, sandbox, caller=request.caller, now=now)
    if verdict.decision is Decision.DENY:
        return _denied(rooms, verdict)
    blind = accepts_unchecked(entry, rooms.environ)
    preview = await take_preview(rooms.desktop, rooms.seat(), request.tool, input, earlier, unchecked=blind)
    if isinstance(preview, Stop):
        return preview
    environment = child_environment(
        entry, program, environ=rooms.environ, secrets=secrets, call_id=request.call_id
    )
    subject = Subject(
        caller=request.caller.key,
        tool=request.tool,
        input=input,
        seal=seal.digest,
        delegates=sealed.delegate_digests(),
        entry=entry.digest,
        permissions=_permissions_digest(entry.permissions),
        level=sandbox.level,
        env_names=tuple(sorted(environment)),
        policy=world.policy.version_at(now),
        preview=preview,
    )
    return Prepared(
        target=target,
        input=input,
        sealed=sealed,
        sandbox=sandbox,
        environment=environment,
        secrets=dict(secrets),
        preview=preview,
        risk=risk,
        verdict=verdict,
        subject=subject,
        subject_digest=subject.digest(),
        input_digest=digest(input),
        masks=Masks(secrets),
    )


@lru_cache(maxsize=1024)
def _permissions_digest(permissions: Permissions) -> str:
    return digest(msgspec.to_builtins(permissions))


def judge(
    world: World,
    target: Target,
    input: JsonObject,
    seal: Seal,
    sandbox: SandboxReport,
    *,
    caller: Caller,
    now: float,
) -> tuple[Risk, Verdict]:
    """How risky this call is, and what policy says of it."""
    entry = target.entry
    user_risk = world.settings.risk.get(target.capability.name)
    risk = user_risk or risk_of(target.capability, input)
    verdict = evaluate(
        world.policy,
        target.capability,
        entry,
        risk=risk,
        input=input,
        level=sandbox.level,
        bundled_unmodified=seal.kind is SealKind.BUNDLED,
        has_delegate=bool(entry.delegates),
        permissions=entry.permissions,
        user_risk=user_risk,
        caller=caller,
        now=now,
    )
    return risk, verdict


def _denied(rooms: Rooms, verdict: Verdict) -> Stop:
    rooms.note_rules(verdict.rules)
    because = "; ".join(rule.because for rule in verdict.rules)
    return refused(Code.POLICY, "policy denies this call", because)


def masks_for(entry: SidecarEntry, environ: Mapping[str, str]) -> Masks:
    """Masks over the secrets the entry declares."""
    return Masks(declared_secrets(entry.permissions, environ)[0])


def _secret_missing(missing: dict[str, str]) -> Stop:
    names = ", ".join(f"{name} ({why})" for name, why in missing.items())
    return Stop(
        status=Status.UNAVAILABLE,
        code=ReasonCode.SECRET_MISSING,
        message=f"declared secrets are not there: {names}",
        hint="set them in the environment flytui is started from",
    )
