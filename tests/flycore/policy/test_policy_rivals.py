"""What other products got wrong about rules, each as a test. Real kernels where a call is made."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.enums import Code, Decision, RequestState, Status
from flycore.model.json import JsonObject
from flycore.policy.evaluate import load_policy
from flycore.policy.rule_file import append_rule
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    answered_call,
    approve,
    approved_call,
    kernel_of,
    request,
    until,
    waiting_ask,
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO)
    made.places.config_dir.mkdir(parents=True, exist_ok=True)
    return made


RULE: JsonObject = {"tool": "echo.do", "decision": "allow", "because": "harmless"}


@pytest.mark.anyio
async def test_a_remembered_rule_matches_the_call_it_was_made_for(root: Root) -> None:
    """Rival: *remember* saves a rule that never matches."""
    given: JsonObject = {"path": "docs/a b.md", "depth": 1}
    when: JsonObject = {"properties": {"path": {"const": "docs/a b.md"}}, "required": ["path"]}
    rule = {**RULE, "caller": "/usr/bin/agent", "when": when}
    rule["match"] = [{"tool": "echo.do", "input": given, "caller": "/usr/bin/agent"}]
    path = root.places.config_dir / "policy.jsonc"
    assert append_rule(path, rule).written
    async with kernel_of(root, role="on-demand") as kernel:
        same = await kernel.call(request(kernel, "echo.do", given))
        other = await kernel.call(request(kernel, "echo.do", {"path": "docs/b.md"}))
        stranger = await kernel.call(request(kernel, "echo.do", given, caller=a_caller("stranger")))
    assert same.status is Status.SUCCESS
    assert [result.error.code for result in (other, stranger) if result.error] == [Code.NO_APPROVER] * 2


@pytest.mark.parametrize("caller", ["/usr/bin/Agent", "/usr/bin/agen_", "agent "])
def test_a_rule_that_would_never_match_its_call_is_not_saved(root: Root, caller: str) -> None:
    path = root.places.config_dir / "policy.jsonc"
    rule = {**RULE, "caller": caller, "match": [{"tool": "echo.do", "input": {}, "caller": "/usr/bin/agent"}]}
    done = append_rule(path, rule)
    assert "does not match this example" in done.why_not
    assert not path.exists()


@pytest.mark.anyio
@pytest.mark.parametrize("written", ["echo_do", "Echo.do", "ECHO.DO", "echo.d"])
async def test_case_or_underscore_breaks_no_rule_silently(root: Root, written: str) -> None:
    """Rival: a rule whose name is spelt a little otherwise is taken, and never matches."""
    root.policy({**RULE, "tool": written, "decision": "deny"})
    async with kernel_of(root, role="on-demand") as kernel:
        told = [item for item in kernel.catalog().diagnostics if item.rule == "policy-rule"]
    assert [item.remedy for item in told] == ["did you mean 'echo.do'?"]
    assert told[0].position is not None


@pytest.mark.parametrize("special", ["_", ".", "?", "[a]", "%", "\\"])
def test_only_the_star_is_special(root: Root, special: str) -> None:
    root.policy({**RULE, "tool": f"a{special}b"})
    [rule] = load_policy(root.places, None).rules
    from flycore.policy.conditions import Match, PolicyCall

    assert rule.match(PolicyCall(tool=f"a{special}b")) is Match.YES
    assert rule.match(PolicyCall(tool="axb")) is Match.NO
    assert rule.match(PolicyCall(tool="aab")) is Match.NO


@pytest.mark.anyio
async def test_one_bad_rule_does_not_discard_the_policy(root: Root) -> None:
    """Rival: a single rule with a mistake, and none of the file is in force."""
    root.sidecar("other", ECHO)
    root.policy(
        {**RULE, "decision": "deny", "because": "never"},
        {"tool": "other.do", "decision": "deny", "becuase": "typo"},
        {"tool": "*", "decision": "alow", "because": "typo"},
    )
    async with kernel_of(root, role="on-demand") as kernel:
        assert kernel.status().policy_ok
        denied = await kernel.call(request(kernel, "echo.do"))
        asked = await kernel.call(request(kernel, "other.do"))
    assert denied.error is not None
    assert (denied.error.code, asked.error and asked.error.code) == (Code.POLICY, Code.NO_APPROVER)


@pytest.mark.anyio
async def test_an_allowed_call_does_not_wait_behind_a_card(root: Root) -> None:
    """Rival: a call that a rule allows is stuck behind another one's prompt."""
    root.policy({**RULE, "when": {"properties": {"quick": {"const": True}}, "required": ["quick"]}})
    async with kernel_of(root) as kernel:

        async def call_others(ask: Ask) -> None:
            for _ in range(3):
                result = await kernel.call(request(kernel, "echo.do", {"quick": True}))
                assert result.status is Status.SUCCESS
            assert [item.state for item in kernel.asks()] == [RequestState.WAITING]
            await approve(kernel, ask)

        slow = await answered_call(kernel, call_others, "echo.do", {"quick": False})
    assert slow.status is Status.SUCCESS


@pytest.mark.anyio
async def test_a_deny_written_while_the_card_is_open_counts(root: Root) -> None:
    """Rival: the verdict is the one of the moment the card appeared."""
    async with kernel_of(root) as kernel:

        async def deny_then_approve(ask: Ask) -> None:
            root.policy({**RULE, "decision": "deny", "when": {"properties": {"n": {"const": 1}}}})
            await until(lambda: any(line["event"] == "POLICY_CHANGED" for line in root.audit()))
            await approve(kernel, ask)

        result = await answered_call(kernel, deny_then_approve, "echo.do", {"n": 1})
    assert result.error is not None
    assert result.error.code == Code.POLICY


@pytest.mark.anyio
async def test_the_card_names_every_rule_that_matched(root: Root) -> None:
    root.policy({**RULE}, {**RULE, "decision": "ask", "because": "not agents", "caller": "agent"})
    root.policy({**RULE, "decision": "ask", "because": "this project is delicate"}, project=True)
    async with kernel_of(root) as kernel:
        seen: list[Ask] = []

        async def look(ask: Ask) -> None:
            seen.append(ask)
            await approve(kernel, await waiting_ask(kernel))

        await answered_call(kernel, look, "echo.do")
    whys = [(rule.decision, rule.because) for rule in seen[0].request.why]
    assert whys == [
        (Decision.ALLOW, "harmless"),
        (Decision.ASK, "not agents"),
        (Decision.ASK, "this project is delicate"),
    ]
    assert [Path(rule.where.rpartition(":")[0]).name for rule in seen[0].request.why] == ["policy.jsonc"] * 3


def test_a_rule_in_a_clone_never_loosens_by_its_conditions(root: Root) -> None:
    root.policy({**RULE, "caller": "*", "when": {}, "expires": "2999-01-01T00:00Z"}, project=True)
    policy = load_policy(root.places, None)
    assert policy.rules == ()
    assert [item.severity for item in policy.diagnostics] == ["warning"]


def _decision(kernel: Kernel) -> str:
    view = kernel.catalog().capability("echo.do")
    return view.decision if view is not None else ""


@pytest.mark.anyio
async def test_the_catalog_follows_a_rule_that_expires(root: Root) -> None:
    """Nothing changes on disk, and nobody calls: time alone makes the tool callable again."""
    async with kernel_of(root) as kernel:
        for seconds in (1.5, 12.0):  # the longer one for a machine that took the shorter to notice the file
            end = datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()
            root.policy({**RULE, "decision": "deny", "expires": end})
            with suppress(TimeoutError):
                await until(lambda: _decision(kernel) == "deny", seconds)
                break
        assert _decision(kernel) == "deny"
        await until(lambda: _decision(kernel) == "ask")
        assert (await approved_call(kernel, "echo.do")).status is Status.SUCCESS
