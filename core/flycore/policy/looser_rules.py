"""The changes of policy files that let more calls through than the policy in force.

Any program of the user can write these files, so such a change does not count because it is there. What makes
the policy stricter counts at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from flycore.model.enums import Decision
from flycore.model.json import Json, canonical_json, digest
from flycore.policy.rules import Rule, RuleLayer, RuleSource, parse_rules

MOST_TEXT = 600
"""The most characters of a condition in the text of a rule."""

MOST_COMPARED = 1_000
"""The most rules that are compared one by one. Among more, each change that may let more through counts as
one that does."""

KeyedRules = Mapping[str, Rule]
"""Rules by their keys."""


def rule_key(rule: Rule) -> str:
    """Return a digest over everything of the rule that counts; its place in the file does not."""
    return digest(rule.digest_value())


def keyed(rules: Collection[Rule]) -> dict[str, Rule]:
    """Return the rules by their keys."""
    return {rule_key(rule): rule for rule in rules}


def written_rule_key(value: Json) -> str:
    """Return the key of a rule as it stands in the file; empty for an allow that has no effect."""
    origin = RuleSource(file="", layer=RuleLayer.USER, locate=lambda _: None)
    rules, _ = parse_rules([value], origin)
    return rule_key(rules[0]) if rules else ""


def rule_text(rule: Rule) -> str:
    """Return the rule in one line: decision, tool, conditions and reason."""
    when = canonical_json(rule.when) if rule.when is not None else ""
    when = f"{when[:MOST_TEXT]}…" if len(when) > MOST_TEXT else when
    parts = (
        f"{rule.decision.value} {rule.tool}",
        f"caller {rule.caller}" if rule.caller else "",
        f"entry {rule.entry}" if rule.entry else "",
        f"when {when}" if when else "",
        "until it expires" if rule.expires is not None else "",
        f"“{rule.because}”",
    )
    return " · ".join(part for part in parts if part)


class LooserRules(msgspec.Struct, frozen=True):
    """The changes of a policy that let more calls through."""

    added: tuple[Rule, ...] = ()
    """Allow rules that are new."""
    removed: tuple[Rule, ...] = ()
    """Ask and deny rules that are gone, and that no other rule replaces."""

    @property
    def count(self) -> int:
        """The number of changes."""
        return len(self.added) + len(self.removed)

    @property
    def key(self) -> str:
        """A digest over the changes; empty where there are none."""
        if not self.count:
            return ""
        return digest([sorted(keyed(self.added)), sorted(keyed(self.removed))])


def find_looser_rules(before: KeyedRules, now: Collection[Rule]) -> LooserRules:
    """Return what lets more calls through in the rules `now` than in those `before`."""
    # Compared by key first: only rules that differ are compared with each other.
    present = keyed(now)
    compared = len(before) + len(present) <= MOST_COMPARED
    new = [rule for key, rule in present.items() if key not in before]
    old_allows = [
        rule for key, rule in before.items() if key not in present and rule.decision is Decision.ALLOW
    ]
    return LooserRules(
        added=tuple(
            rule
            for rule in new
            if rule.decision is Decision.ALLOW
            and not (compared and any(_covers(old, rule) for old in old_allows))
        ),
        removed=tuple(
            rule
            for key, rule in before.items()
            if key not in present
            and rule.decision is not Decision.ALLOW
            and not (compared and any(_covers(other, rule) for other in new))
        ),
    )


def _covers(wide: Rule, narrow: Rule) -> bool:
    """Return whether `wide` is as strict as `narrow` or stricter, and plainly applies to every call of it."""
    return (
        wide.tool in ("*", narrow.tool)
        and (wide.decision is Decision.ALLOW) is (narrow.decision is Decision.ALLOW)
        and wide.decision.rank >= narrow.decision.rank
        and wide.caller in ("", narrow.caller)
        and wide.entry in ("", narrow.entry)
        and (wide.when is None or wide.when == narrow.when)
        and (wide.expires is None or wide.expires == narrow.expires)
    )
