"""Step 7: the page or element that a browser tool would act on.

The kernel reads it before a person is asked, through `browser.snapshot` of the same entry, run as it was
sealed.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.catalog.schemas import accepts
from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.call import CallRequest
from flycore.model.enums import Decision, Kind, SealKind, Status
from flycore.model.errors import AuditUnwritable
from flycore.model.json import Json, JsonObject
from flycore.model.large_values import run_aside
from flycore.pipeline.call import Rejection
from flycore.pipeline.confine import Confining, confined
from flycore.pipeline.context import JudgeContext, RunContext
from flycore.pipeline.execute import build_job, confining_of, materialise_programs
from flycore.pipeline.prepare import Prepared, Target, callable_view, judge
from flycore.pipeline.protected_writes import protected_writes
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, call_sidecar
from flycore.runners.persistent import call_alone
from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.seals import SealBrokenError

SNAPSHOT = "browser.snapshot"
ELEMENT_TOOLS = ("browser.click", "browser.type")
"""Tools that act on the element which the input's `target` names."""
PAGE_TOOLS = (*ELEMENT_TOOLS, "browser.navigate", "browser.evaluate")
"""Tools that act on the page that is shown."""
SNAPSHOT_MS = 5000
MAX_ANSWER_BYTES = 128 * 1024
TAB_GONE = "target-changed"
"""The sidecar's error code where the tab that the call named is gone."""


class PageTarget(Value, frozen=True, kw_only=True):
    """The page that was read. Its title is no part of what is approved: pages change theirs by themselves."""

    preview: Preview
    title: str = ""


async def with_page_target(
    context: JudgeContext,
    run: RunContext,
    request: CallRequest,
    prepared: Prepared,
    earlier: Preview | None = None,
) -> Prepared:
    """The call with the page that it would act on, or with the reason why that is not known; unchanged for
    tools that act on no page.

    `earlier` is the page that was read when the call arrived: then that tab is read again, not the one that
    is active now.
    """
    # Reading starts a program. For a call that policy allows or denies no person would see what was read.
    if request.tool not in PAGE_TOOLS or prepared.verdict.decision is not Decision.ASK:
        return prepared
    target = prepared.input.get("target") if request.tool in ELEMENT_TOOLS else None
    asked: JsonObject = {"limit": 1} if target is None else {"target": target, "limit": 1}
    snapshot = _may_look(context, request, prepared, asked)
    if isinstance(snapshot, str):
        seen = _unknown_page(snapshot)
    elif not _record_look(run.audit, request, snapshot.entry.id, prepared.seal.digest):
        seen = _unknown_page("nothing runs while the audit log cannot be written")
    else:
        seen = await _page_target(run, request, prepared, snapshot, asked, earlier.tab if earlier else "")
    subject = msgspec.structs.replace(prepared.subject, preview=seen.preview)
    return msgspec.structs.replace(
        prepared,
        preview=seen.preview,
        page_title=seen.title,
        subject=subject,
        subject_digest=subject.digest(),
    )


def _may_look(
    context: JudgeContext, request: CallRequest, prepared: Prepared, asked: JsonObject
) -> Target | str:
    """The tool that reads the page, or the reason why the page is not read.

    The snapshot runs without a person's approval. So it runs only where policy does not deny it, and either
    allows it or the program belongs to this distribution and has neither secrets nor delegates.
    """
    root_state, entry = context.state.latest, prepared.target.entry
    view = callable_view(root_state, SNAPSHOT, context.blocks)
    if isinstance(view, Rejection):
        return f"{SNAPSHOT} cannot be called: {view.message}"
    snapshot = Target(capability=view.capability, entry=entry)
    if view.sidecar != entry.id or not view.capability.read_only:
        return f"{SNAPSHOT} is offered by another entry"
    if view.capability.dialect:
        return f"programs of the dialect {view.capability.dialect} do not describe pages"
    if entry.permissions.desktop:
        return "its entry has the desktop permission, and runs only for calls that were approved"
    now = context.clock.now()
    _, verdict = judge(
        root_state, snapshot, asked, prepared.sealed, prepared.sandbox, caller=request.caller, now=now
    )
    if verdict.decision is Decision.DENY:
        return f"policy denies {SNAPSHOT}"
    plain = not entry.delegates and not entry.permissions.secrets
    if verdict.decision is Decision.ASK and not (
        prepared.seal.kind is SealKind.BUNDLED and prepared.seal.complete and plain
    ):
        return f"policy does not allow {SNAPSHOT} of this entry without an approval"
    return snapshot


def _record_look(audit: AuditLog, request: CallRequest, sidecar: str, seal: str) -> bool:
    fields = audit_events.preview_read(request, look=SNAPSHOT, sidecar=sidecar, seal=seal)
    try:
        audit.append(audit_events.KERNEL_LOOKED, fields)
    except AuditUnwritable:
        return False
    return True


async def _page_target(
    run: RunContext, request: CallRequest, prepared: Prepared, snapshot: Target, asked: JsonObject, tab: str
) -> PageTarget:
    # No artifact folder: a snapshot makes no files, and nothing it wrote would be handed on.
    try:
        runs = await materialise_programs(run, prepared)
    except SealBrokenError as error:
        return _unknown_page(f"the program could not be copied as it was sealed: {error}")
    job = replace(
        build_job(run, request, prepared, runs, ""),
        tool=SNAPSHOT,
        input=asked,
        timeout_ms=min(SNAPSHOT_MS, snapshot.entry.timeout_ms),
        max_output_bytes=min(MAX_ANSWER_BYTES, snapshot.entry.max_output_bytes),
        extra={"target": {"tab": tab}} if tab else {},
    )
    entry, level = snapshot.entry, prepared.sandbox.level
    writing = protected_writes(run.root, level, entry.effective_permissions, asked, request.call_id)
    try:
        async with writing as writes:
            confining = confining_of(run, prepared, runs, writes.files)
            outcome = await _run_snapshot(job, entry.kind, confining)
            # The tab was closed since the call arrived: the active one is read instead, so that the
            # comparison of step 11 shows the person which page the call would act on now.
            if tab and outcome.details.get("code") == TAB_GONE:
                outcome = await _run_snapshot(replace(job, extra={}), entry.kind, confining)
    except NotPermitted as error:
        return _unknown_page(f"{error}")
    outcome = writes.judged(outcome)
    if outcome.status is not Status.SUCCESS:
        return _unknown_page(prepared.masks.text(outcome.message))
    schema, output = snapshot.capability.output_schema, outcome.output
    if not await run_aside(True, accepts, schema, output):
        return _unknown_page(f"the answer of {SNAPSHOT} does not fit its schema")
    seen = read_page(prepared.masks.json(outcome.output), element="target" in asked)
    return seen if isinstance(seen, PageTarget) else _unknown_page(seen)


async def _run_snapshot(job: ProcessJsonJob, kind: Kind, confining: Confining | None) -> RunOutcome:
    job = confined(confining, job)
    return await (call_alone(job) if kind is Kind.PERSISTENT else call_sidecar(job))


def read_page(answer: Json, *, element: bool) -> PageTarget | str:
    """The element, or the page alone, that a snapshot describes; else the reason why the answer is of no
    use."""
    if not isinstance(answer, dict):
        return f"the answer of {SNAPSHOT} is not an object"
    url, tab, title = _text(answer, "url"), _text(answer, "tab"), _text(answer, "title")
    if not url or not tab:
        return f"{SNAPSHOT} names no tab with an address"
    if not element:
        return PageTarget(preview=Preview(tab=tab, url=url), title=title)
    nodes = answer.get("nodes")
    first = nodes[0] if isinstance(nodes, list) and nodes else None
    if not isinstance(first, dict) or not _text(first, "target"):
        return f"{SNAPSHOT} does not list the element"
    found = Preview(
        tab=tab, url=url, ref=_text(first, "target"), role=_text(first, "role"), name=_text(first, "name")
    )
    return PageTarget(preview=found, title=title)


def _text(holder: JsonObject, key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def _unknown_page(why: str) -> PageTarget:
    return PageTarget(preview=Preview(unseen=why or "no reason was given"))
