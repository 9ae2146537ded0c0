"""The default decision, over every combination of what it rests on."""

from __future__ import annotations

from itertools import product

import pytest

from flycore.model.enums import Decision, Level, Risk, Source
from flycore.model.sidecar import Delegate, Permissions
from flycore.policy.default_decision import DEFAULT
from flycore.policy.evaluate import Policy, evaluate, evaluate_general
from flycore.policy.files import PolicyFile
from flycore.policy.overview import policy_overview
from flycore.policy.rules import Rule, RuleLayer

BOOLS = (False, True)


def test_every_combination_against_the_words_of_the_spec(make_capability, make_entry) -> None:
    entries = {
        (source, network, write, secret, delegate): make_entry(
            source=source,
            permissions=Permissions(network=network, write=("out",) * write, secrets=("KEY_NAME",) * secret),
            delegates={"lsp": Delegate(command="pylsp")} if delegate else {},
        )
        for source, network, write, secret, delegate in product(Source, BOOLS, BOOLS, BOOLS, BOOLS)
    }
    seen = {Decision.ALLOW: 0, Decision.ASK: 0}
    for known, read_only, source, risk, user_risk in product(BOOLS, BOOLS, Source, Risk, (None, *Risk)):
        capability = make_capability(known=known, read_only=read_only, risk=risk)
        effective_risk = user_risk or risk
        for network, write, secret, level, bundled, delegate in product(
            BOOLS, BOOLS, BOOLS, Level, BOOLS, BOOLS
        ):
            verdict = evaluate(
                Policy(),
                capability,
                entries[source, network, write, secret, delegate],
                input={},
                level=level,
                bundled_unmodified=bundled,
                user_risk=user_risk,
            ).verdict
            harmless = read_only and (known or source is Source.USER)
            low = effective_risk is Risk.LOW and (known or user_risk is Risk.LOW)
            reach = not (network or write or secret)
            held = level is Level.ENFORCED or (bundled and not delegate)
            expected = Decision.ALLOW if harmless and low and reach and held else Decision.ASK
            assert verdict.decision is expected
            assert [rule.where for rule in verdict.rules] == [DEFAULT]
            seen[expected] += 1
    assert seen[Decision.ALLOW] > 50
    assert seen[Decision.ASK] > seen[Decision.ALLOW]


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        (("allow",), "allow"),
        (("allow", "ask"), "ask"),
        (("deny", "allow"), "deny"),
        (("ask", "deny", "allow"), "deny"),
    ],
)
def test_the_strictest_rule_wins_and_all_are_shown(make_capability, make_entry, decisions, expected) -> None:
    rules = tuple(
        Rule(tool="file.*", decision=Decision(word), because=word, file="p", line=number)
        for number, word in enumerate(decisions)
    )
    policy = Policy(layers=(PolicyFile(source=RuleLayer.USER, file="p", rules=rules),))
    verdict = evaluate_general(policy, make_capability(), make_entry())
    assert verdict.decision == expected
    assert [rule.where for rule in verdict.rules] == [f"p:{number}" for number in range(len(rules))]


def test_the_catalog_s_word_counts_declared_delegates(make_capability, make_entry) -> None:
    capability = make_capability()
    plain, delegating = make_entry(), make_entry(delegates={"lsp": Delegate(command="pylsp")})
    assert evaluate_general(Policy(), capability, plain, bundled_unmodified=True).decision == "allow"
    assert evaluate_general(Policy(), capability, plain).decision == "ask"
    verdict = evaluate_general(Policy(), capability, delegating, bundled_unmodified=True)
    assert verdict.decision == "ask"
    assert "delegate" in verdict.rules[0].because


def test_a_partial_seal_asks_in_the_sandbox_too_and_is_the_reason_that_is_said(
    make_capability, make_entry
) -> None:
    partial = "the seal is partial: it reads its folder"

    def judged(unsealed: str, *, bundled: bool) -> tuple[Decision, str]:
        verdict = evaluate(
            Policy(),
            make_capability(),
            make_entry(),
            input={},
            level=Level.ENFORCED,
            bundled_unmodified=bundled,
            unsealed=unsealed,
        ).verdict
        return verdict.decision, verdict.rules[0].because

    for bundled in BOOLS:
        assert judged("", bundled=bundled)[0] is Decision.ALLOW
        assert judged(partial, bundled=bundled) == (Decision.ASK, f"no rule matches, and {partial}")


def test_judged_together_tools_get_what_each_would_get_alone(make_capability, make_entry) -> None:
    """Whatever the default looks at, and rules about some of the tools."""
    rules = (Rule(tool="web.*", decision=Decision.DENY, because="no web", file="p", line=1),)
    policy = Policy(layers=(PolicyFile(source=RuleLayer.USER, file="p", rules=rules),))
    risks = {"file.raised": Risk.HIGH, "file.lowered": Risk.LOW}
    entries = (
        make_entry("one"),
        make_entry("user", source=Source.USER),
        make_entry("net", permissions=Permissions(network=True)),
        make_entry("env", env={"PATH": "/x"}),
        make_entry("lsp", delegates={"lsp": Delegate(command="pylsp")}),
    )
    levels = {"user": Level.ENFORCED, "env": Level.DEGRADED}
    capabilities = [
        make_capability(name, known=known, read_only=read_only, risk=risk)
        for name in ("file.plain", "file.raised", "file.lowered", "web.fetch")
        for known, read_only, risk in product((True, False), (True, False), (Risk.LOW, Risk.HIGH))
    ]
    for rated in (policy, Policy()):
        view = policy_overview(rated, bundled={"one", "lsp"}, levels=levels, risks=risks, now=5.0)
        for entry, capability in product(entries, capabilities):
            alone = evaluate_general(
                rated,
                capability,
                entry,
                level=levels.get(entry.id, Level.NONE),
                bundled_unmodified=entry.id in ("one", "lsp"),
                user_risk=risks.get(capability.name),
                now=5.0,
            )
            decision, because = view(capability, entry)
            assert decision == alone.decision
            assert because == "; ".join(f"{rule.because} ({rule.where})" for rule in alone.rules)


@pytest.mark.parametrize(("known", "expected"), [(True, "allow"), (False, "ask")])
def test_a_condition_on_the_kernel_s_fields_allows_nothing_that_has_other_fields(
    make_capability, make_entry, known: bool, expected: str
) -> None:
    """An entry that describes a known tool itself would else get past a condition without its field."""
    rule = Rule(
        tool="file.hash",
        decision=Decision.ALLOW,
        because="only the notes",
        when={"properties": {"path": {"pattern": "^notes/"}}},
        file="p",
        line=1,
    )
    policy = Policy(layers=(PolicyFile(source=RuleLayer.USER, file="p", rules=(rule,)),))
    verdict = evaluate(
        policy,
        make_capability("file.hash", known=known),
        make_entry(),
        input={"imagePath": "/etc/passwd"},
        level=Level.NONE,
        bundled_unmodified=False,
    ).verdict
    assert verdict.decision == expected
