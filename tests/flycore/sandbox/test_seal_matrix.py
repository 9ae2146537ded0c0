"""Suite S17: each form of an entry, each moment of a change, each file that decides what runs.

Changed content never runs unasked. After approve-once it runs only where the card said that the seal is
partial. `docs/security.md` has the result as a table, which is compared with what the test sees.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, ReasonCode, RequestState
from kits.kernel import PATIENCE, Root, a_caller, approver_of, kernel_of, request, until
from kits.seal_forms import FORMS, MOMENTS, Form, evil_mark

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

FULL = os.environ.get("FLYTUI_SUITES") == "full"
QUICK = (
    "a lone script, empty working folder",
    "a lone script, nothing to read",
    "a lone script that sources a file it may read",
    "a lone script of the desktop that sources a file",
    "a package that sources a file of the working folder",
    "`python3 ./tools/x/x.py` with a sibling",
    "`timeout ./run`",
    "`git` with an alias",
    "`make`",
    "a delegate `python3 x.py`",
)
"""The forms that are tried at quick size: one of each kind."""
TRIED = tuple(
    pytest.param(form, thing, id=f"{form.name} {thing}")
    for form in FORMS
    if FULL or form.name in QUICK
    for thing in form.things
)
TABLE = Path(__file__).parents[3] / "docs" / "security.md"
ASKED, SAID, NO_RULE, NO_LEASE, NOT_PROBED = (
    "asked again",
    "partial, and the card says so",
    "asked each time",
    "no lease",
    "not probed",
)


class Person:
    """Answers one request after the other, and keeps what was shown."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.seen: list[Ask] = []

    def waiting(self) -> Ask | None:
        """The request that waits and was not answered yet."""
        known = {ask.request.id for ask in self.seen}
        found = [ask for ask in self.kernel.asks() if ask.state is RequestState.WAITING]
        return next((ask for ask in found if ask.request.id not in known), None)

    async def answer(self, ask: Ask, answer: Answer) -> None:
        """Answer a request as it was shown."""
        self.seen.append(ask)
        # Nobody approves while a tool may still press keys.
        await until(lambda: not self.kernel.status().hands_on)
        outcome = await approver_of(self.kernel).decide(ask.request.id, ask.request.subject_digest, answer)
        assert outcome.accepted, outcome.why_not


class Call:
    """One call under way."""

    def __init__(self, person: Person, tool: str) -> None:
        self.person, self.tool = person, tool
        self.result: ToolResult | None = None

    async def run(self) -> None:
        """Make the call. Each tool has a caller of its own, so that no denial pauses another one."""
        caller = a_caller(self.tool, 5000 + MOMENTS.index(self.tool))
        self.result = await self.person.kernel.call(
            request(self.person.kernel, f"{self.tool}.do", caller=caller)
        )

    async def asked(self) -> Ask | None:
        """The request of the call; None where it ended without one."""
        await until(lambda: self.result is not None or self.person.waiting() is not None)
        return self.person.waiting()


ONCE, DENY = Answer(choice=Choice.APPROVE_ONCE), Answer(choice=Choice.DENY)
LEASE = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=20))


@contextmanager
def nothing_evil(root: Root, when: str) -> Iterator[None]:
    """Check that no changed content ran in the block."""
    yield
    assert not evil_mark(root).exists(), f"changed content ran: {when}"


async def answered(person: Person, tool: str, answer: Answer) -> bool:
    """Make a call and answer its request, if it has one. Returns whether it had one."""
    async with anyio.create_task_group() as group:
        call = Call(person, tool)
        group.start_soon(call.run)
        ask = await call.asked()
        if ask is not None:
            offered = answer if answer.choice is not Choice.LEASE or _may_lease(ask) else ONCE
            await person.answer(ask, offered)
    return ask is not None


def _may_lease(ask: Ask) -> bool:
    return all(seal.leasable for seal in ask.request.seals)


async def after_approval(person: Person, root: Root, form: Form, thing: str) -> str:
    """Approve a call whose program changes while its card is open."""
    async with anyio.create_task_group() as group:
        call = Call(person, "once")
        group.start_soon(call.run)
        ask = await call.asked()
        assert ask is not None
        form.change(root, thing)
        await person.answer(ask, ONCE)
        again = await call.asked()
        if again is not None:
            await person.answer(again, DENY)
    if not evil_mark(root).exists():
        return ASKED
    assert ask.request.partial, "changed content ran, and the card called the seal complete"
    evil_mark(root).unlink()
    return SAID


async def try_form(root: Root, form: Form, thing: str) -> dict[str, str]:
    """Change one file of a form, and return what happens at each moment."""
    root.policy({"tool": "ruled.do", "decision": "allow", "because": "test"})
    form.write(root)
    async with kernel_of(root) as kernel:
        person = Person(kernel)
        await until(lambda: probed(kernel) is not None)
        await answered(person, "leased", LEASE)
        leased = bool(kernel.leases())
        by_rule = not await answered(person, "ruled", ONCE)
        found = {"once": await after_approval(person, root, form, thing)}
        with nothing_evil(root, "under a lease"):
            assert await answered(person, "leased", DENY)
        found["leased"] = ASKED if leased else NO_LEASE
        with nothing_evil(root, "by a rule"):
            assert await answered(person, "ruled", DENY)
        found["ruled"] = ASKED if by_rule else NO_RULE
        with nothing_evil(root, "by a probe"), anyio.fail_after(PATIENCE):
            kernel.probe("probed")
            await until(lambda: probed(kernel) is ReasonCode.PROGRAM_CHANGED or evil_mark(root).exists())
        found["probed"] = NOT_PROBED
        # The control: approved as it is now, the changed content does run.
        await answered(person, "once", ONCE)
        assert evil_mark(root).exists(), "the changed content does not run, so the form shows nothing"
    return found


def probed(kernel: Kernel) -> ReasonCode | str | None:
    """The first reason of the probed entry; an empty text where it is well, None before its probe."""
    view = kernel.catalog().sidecar("probed")
    if view is None or view.stability.evidence.probe is None:
        return None
    return next((reason.code for reason in view.stability.reasons), "")


def row(form: Form, thing: str, found: dict[str, str]) -> str:
    """The row of the table in the documentation."""
    return f"| {form.name} | `{thing}` | {' | '.join(found[moment] for moment in MOMENTS)} |"


@pytest.mark.parametrize(("form", "thing"), TRIED)
async def test_changed_content_never_runs_unasked(tmp_path: Path, form: Form, thing: str) -> None:
    if form.missing:
        pytest.skip(f"{form.missing} is not installed")
    found = await try_form(Root(tmp_path), form, thing)
    assert row(form, thing, found) in TABLE.read_text(encoding="utf-8").splitlines()


def test_the_documentation_has_a_row_for_each_file_of_each_form() -> None:
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for form in FORMS:
        for thing in form.things:
            assert sum(line.startswith(f"| {form.name} | `{thing}` |") for line in rows) == 1, (
                form.name,
                thing,
            )


def test_there_are_at_least_41_forms() -> None:
    assert len(FORMS) >= 41
