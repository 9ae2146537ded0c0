"""A team bundle under a running kernel: stricter at once, looser only by a person, entries only by trust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.audit.events import BUNDLES_CHANGED
from flycore.kernel.kernel import Kernel
from flycore.kernel.questions import ACCEPT
from flycore.model.enums import Decision, QuestionKind, Source, Status
from flycore.registry.bundles import Bundle, applied_document, read_applied
from flycore.registry.paths import BUNDLES_FILE
from kits.kernel import ECHO, Root, approver_of, kernel_of, request, tool, until

pytestmark = pytest.mark.anyio
DENY = {"tool": "echo.do", "decision": "deny", "because": "the team says no"}
ALLOW = {"tool": "echo.*", "decision": "allow", "because": "planted"}
ENTRY = {"command": "flytui-sidecar", "args": ["mock.echo"], "tools": [tool("team.do")]}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.do"))
    return root


def apply(root: Root, *rules: Any, **entries: Any) -> None:
    """Write the applied bundles as `flytui bundle apply` does, whose signature nobody looks at any more."""
    payload: dict[str, Any] = {"name": "acme", "number": 1}
    payload["policy"] = {"schemaVersion": 1, "rules": list(rules)}
    payload["registry"] = {"schemaVersion": 2, "sidecars": entries}
    bundle = Bundle(payload=payload, key="0" * 64, signature="0" * 128)
    file = root.places.config_dir / BUNDLES_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(applied_document((bundle,))))


def decision(kernel: Kernel, name: str = "echo.do") -> Decision:
    view = kernel.catalog().capability(name)
    assert view is not None
    return view.decision


async def test_a_bundle_tightens_at_once_and_its_removal_waits_for_a_person(root: Root) -> None:
    async with kernel_of(root) as kernel:
        assert decision(kernel) is Decision.ASK
        apply(root, DENY, ALLOW)
        await until(lambda: decision(kernel) is Decision.DENY)
        (root.places.config_dir / BUNDLES_FILE).unlink()

        def asked() -> Any:
            return next((it for it in kernel.questions() if it.kind is QuestionKind.POLICY), None)

        question = await until(asked)
        assert "the team says no" in str(question.lines)
        assert decision(kernel) is Decision.DENY
        assert (await approver_of(kernel).answer(question.id, ACCEPT)).accepted
        await until(lambda: decision(kernel) is Decision.ASK)


async def test_the_log_says_which_bundles_apply_from_when_on(root: Root) -> None:
    file = root.places.config_dir / BUNDLES_FILE

    def logged() -> list[Any]:
        return [[(one["name"], one["number"], one["key"]) for one in line["bundles"]] for line in written()]

    def written() -> list[Any]:
        return [line for line in root.audit() if line["event"] == BUNDLES_CHANGED]

    async with kernel_of(root) as kernel:
        assert logged() == []
        apply(root, DENY)
        await until(lambda: logged() == [[("acme", 1, "0" * 64)]])
        assert written()[0]["bundles"][0]["digest"] == read_applied(root.places.config_dir).bundles[0].digest
        # A file that cannot be used changes nothing of what applies.
        file.write_text("{")
        await until(lambda: not kernel.status().policy_ok)
        assert len(logged()) == 1
        apply(root, ALLOW)
        await until(lambda: len(logged()) == 2)
    async with kernel_of(root):
        await until(lambda: len(logged()) == 3)
        file.unlink()
        await until(lambda: logged()[3:] == [[]])
    async with kernel_of(root):
        assert len(logged()) == 4


async def test_an_allow_in_a_bundle_has_no_effect(root: Root) -> None:
    apply(root, ALLOW)
    async with kernel_of(root) as kernel:
        assert decision(kernel) is Decision.ASK


async def test_an_entry_waits_for_trust_and_stays_below_the_users_own(root: Root) -> None:
    apply(root, own=ENTRY, echo=ENTRY, team={**ENTRY, "tools": [tool("team.more")]})
    folder = root.places.config_dir / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    mine = {**ENTRY, "tools": [tool("own.do")]}
    (folder / "external.tools.jsonc").write_text(json.dumps({"schemaVersion": 2, "sidecars": {"own": mine}}))
    async with kernel_of(root, trusted=False) as kernel:
        sources = {view.id: view.entry.source for view in kernel.catalog().sidecars}
        assert (sources["own"], sources["echo"], sources["team"]) == (
            Source.USER,
            Source.PROJECT,
            Source.BUNDLE,
        )
        # What is left out is said, wherever faults of files are.
        left_out = {
            message.partition(" is left out")[0].rpartition(" ")[2]
            for check in await kernel.checks()
            if " is left out" in (message := check.message)
        }
        assert left_out == {"own", "echo"}
        assert {item.sidecar for item in kernel.pending_trust()} == {"echo", "team"}
        assert (await kernel.call(request(kernel, "team.more"))).status is Status.UNAVAILABLE
        items = tuple((item.sidecar, item.digest) for item in kernel.pending_trust())
        assert (await approver_of(kernel).trust(items)).accepted
        await until(lambda: all(view.trusted for view in kernel.catalog().sidecars))
        sources = {view.id: view.entry.source for view in kernel.catalog().sidecars}
        assert sources["team"] is Source.BUNDLE
        refused = await approver_of(kernel).enable("team", False, "not now")
        assert not refused.accepted
        assert "signed" in refused.why_not


@pytest.mark.parametrize("text", ["{", '{"bundles": [{}]}', "[]", '{"bundles": 5}', "\0"])
async def test_a_broken_file_keeps_the_last_rules_and_asks_where_there_were_none(
    root: Root, text: str
) -> None:
    apply(root, DENY, team=ENTRY)
    file = root.places.config_dir / BUNDLES_FILE
    async with kernel_of(root) as kernel:
        assert decision(kernel) is Decision.DENY
        file.write_text(text)
        await until(lambda: not kernel.status().policy_ok)
        assert decision(kernel) is Decision.DENY
        assert any(view.id == "team" for view in kernel.catalog().sidecars)
    async with kernel_of(root, trusted=False) as kernel:
        assert not kernel.status().policy_ok
        assert decision(kernel) is Decision.ASK
