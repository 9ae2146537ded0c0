"""What the second card says changed: all of it, in lines, with secrets masked and nothing for agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.pipeline.subject_diff import SubjectDiff, diff_subjects
from flycore.server.queries import redacted_ask
from flysafe.text import strict_text
from flytui.text.card import render_card
from kits.kernel import Root, answered_call, approve, approver_of, kernel_of, tool, until, waiting_ask

pytestmark = pytest.mark.anyio

SAY = "#!/bin/sh\nread -r request\nprintf '{\"ok\": true}\\n'\n"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.environ["TEST_API_KEY"] = "s3cret-value-1234"
    made.sidecar("echo", SAY)
    return made


async def second_card(root: Root, kernel: Kernel, change: Any) -> Ask:
    """The card that follows when something changed while the first was open."""
    cards: list[Ask] = []

    async def change_then_approve(ask: Ask) -> None:
        await change(kernel)
        await approve(kernel, ask)
        again = await waiting_ask(kernel)
        cards.append(again)
        await approve(kernel, again)

    await answered_call(kernel, change_then_approve, "echo.do", {"message": "hi"})
    return cards[0]


async def trusted_anew(root: Root, kernel: Kernel, **changed: Any) -> None:
    """The entry is another, and a person trusted that while the card was open."""
    root.sidecars["echo"].update(changed)
    root.write()
    await until(kernel.pending_trust)
    await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in kernel.pending_trust()))


async def test_every_part_of_a_grown_entry_is_on_the_card(root: Root) -> None:
    async def grow(kernel: Kernel) -> None:
        await trusted_anew(
            root,
            kernel,
            permissions={"network": True, "secrets": ["TEST_API_KEY"]},
            delegates={"more": {"command": "true"}},
            args=["\u202e--evil"],
            tools=[tool("echo.do", risk="high")],
        )

    async with kernel_of(root) as kernel:
        card = await second_card(root, kernel, grow)
    lines = card.request.difference
    assert "+ /entry/permissions/network: true" in lines
    assert '+ /entry/delegates/more/command: "true"' in lines
    assert any(line.startswith("+ /delegates/more/sha256: ") for line in lines)
    assert '+ /entry/args/0: "\u202e--evil"' in lines
    assert any(line.startswith("+ /environment/") and "TEST_API_KEY" in line for line in lines)
    assert tuple(line for line in lines if "/risk: " in line)[-2:] == ('- /risk: "medium"', '+ /risk: "high"')
    drawn = "".join(line.text for line in render_card(card.request, 60))
    assert all(strict_text(line) in drawn for line in lines)
    assert "\u202e" not in drawn


async def test_another_program_and_another_policy_are_named(root: Root) -> None:
    program = root.folder / "tools" / "bin-echo" / "run"

    async def other(kernel: Kernel) -> None:
        program.write_text(SAY + "# other\n")
        root.policy({"tool": "echo.*", "decision": "ask", "because": "only for my eyes"})
        await until(lambda: any(line["event"] == "POLICY_CHANGED" for line in root.audit()))

    async with kernel_of(root) as kernel:
        card = await second_card(root, kernel, other)
    lines = card.request.difference
    assert [line[:18] for line in lines if "/program/sha256" in line] == [
        "- /program/sha256:",
        "+ /program/sha256:",
    ]
    assert '+ /policy/rules/0/because: "only for my eyes"' in lines
    assert redacted_ask(card, viewer=True).request.difference == lines
    assert redacted_ask(card, viewer=False).request.difference == ()
    (stale,) = [line for line in root.audit() if line["event"] == "APPROVAL_STALE"]
    assert stale["changes"] == ["program", "policy"]
    assert stale["difference"] == list(lines)


async def test_a_secret_in_what_changed_is_masked_and_still_counts_as_a_change(root: Root) -> None:
    secret = root.environ["TEST_API_KEY"]
    root.sidecars["echo"]["permissions"] = {"secrets": ["TEST_API_KEY"]}
    root.sidecars["echo"]["args"] = [secret]
    root.write()

    async def other_spelling(kernel: Kernel) -> None:
        await trusted_anew(root, kernel, args=[secret[::-1]])

    async with kernel_of(root) as kernel:
        card = await second_card(root, kernel, other_spelling)
    lines = card.request.difference
    entry = [line.split(" (")[0] for line in lines if "/entry" in line]
    assert entry == ['- /entry: "•••', '+ /entry: "•••']
    said = json.dumps(lines)
    assert secret not in said
    assert secret[::-1] not in said


async def test_nothing_changed_is_nothing_to_say(root: Root) -> None:
    from flycore.pipeline import pipeline

    seen: list[Any] = []
    original = pipeline._covers

    def covers(approved: Any, now: Any) -> bool:
        seen.append((approved, now))
        return original(approved, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_covers", covers)
        async with kernel_of(root) as kernel:
            await answered_call(kernel, lambda ask: approve(kernel, ask), "echo.do")
    ((before, after),) = seen
    assert diff_subjects(before, after) == SubjectDiff()
