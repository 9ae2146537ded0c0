"""Leases, rules and blocks as rows of the Grants view, and their details."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from flycore.model.approval import Lease, StandingRule
from flycore.model.enums import Decision, LeaseScope
from flycore.model.question import Block
from flytui.text.caller import caller_name
from flytui.text.labels import age, duration, plural
from flytui.text.lines import StyledLine, StyledText, Tone, line, padded, span, truncated, wrapped

COLUMN_TITLES = ("WHAT", "WHO", "USED", "LAST", "ENDS", "FROM")
_EVERY_TOOL = "*"
_DECISIONS = {Decision.ALLOW: Tone.GOOD, Decision.ASK: Tone.WARN, Decision.DENY: Tone.BAD}


def grant_columns(cells: Sequence[StyledText], width: int) -> StyledLine:
    """The cells side by side. Where the line is too narrow, its end is cut; Enter shows everything."""
    sizes = (24, 16, 8, 5, 11) if width < 90 else (34, 24, 9, 9, 13)
    row: StyledLine = ()
    for cell, size in zip(cells, sizes, strict=False):
        row = (*row, *padded((cell,), size), StyledText(" "))
    return truncated((*row, *cells[len(sizes) :]), width)


class LeaseRow(msgspec.Struct, frozen=True):
    """A lease that is in force."""

    lease: Lease
    now: float

    @property
    def key(self) -> str:
        """What identifies the row in the list."""
        return f"lease {self.lease.id}"

    @property
    def description(self) -> str:
        """The lease in a few words."""
        return f"the lease of {self.lease.tool} for {self.lease.caller}"

    @property
    def removal_loosens(self) -> bool:
        """False: without a lease, more calls ask."""
        return False

    def draw(self, width: int) -> StyledLine:
        """The row as a line of at most `width` cells."""
        lease = self.lease
        used = f"{lease.used} of {lease.used + lease.calls_left}"
        cells = (
            span(_coverage(lease), Tone.STRONG),
            StyledText(caller_name(lease.caller)),
            span(used),
            span(_since(lease.last_used, self.now), Tone.DIM),
            span(_time_left(lease, self.now), Tone.ACCENT),
            span(lease.from_request, Tone.DIM),
        )
        return grant_columns(cells, width)

    def details(self, width: int) -> list[StyledLine]:
        """The lines of the details."""
        lease = self.lease
        facts = [
            ("lease", lease.id),
            ("covers", _coverage(lease)),
            ("caller", str(lease.caller)),
            ("group kept", lease.group or "none"),
            ("condition", "none" if lease.condition is None else json.dumps(lease.condition)),
            ("used", f"{plural(lease.used, 'call')}, {_since(lease.last_used, self.now)} ago"),
            ("left", f"{plural(lease.calls_left, 'call')}, {_time_left(lease, self.now)}"),
            ("from", f"request {lease.from_request}, {age(self.now - lease.created_at)} ago"),
        ]
        note = "It also ends when the program, its entry, its permissions or its level changes."
        return _detail_lines(facts, note, width)


class RuleRow(msgspec.Struct, frozen=True):
    """A rule of the person's own policy."""

    rule: StandingRule
    now: float

    @property
    def key(self) -> str:
        """Place and digest of the rule. A rule that moved or changed is another row."""
        return f"rule {self.rule.where} {self.rule.digest}"

    @property
    def description(self) -> str:
        """The rule in a few words."""
        return f"the rule {self.rule.decision} {self.rule.tool} at {self._place}"

    @property
    def removal_loosens(self) -> bool:
        """Whether more calls would run unasked without the rule."""
        return self.rule.decision != Decision.ALLOW

    @property
    def _place(self) -> str:
        return self.rule.where.rpartition("/")[2]

    def draw(self, width: int) -> StyledLine:
        """The row as a line of at most `width` cells."""
        rule = self.rule
        tone = Tone.DIM if rule.note or self._expired else _decision_tone(rule.decision)
        what = (span(f"{rule.decision} ", tone), span(rule.tool, Tone.STRONG))
        text = StyledText("".join(part.text for part in what), tone)
        cells = (
            text,
            span(rule.caller or "every caller"),
            span(str(rule.used) if rule.used else "–", Tone.DIM),
            span(_since(rule.last_used, self.now), Tone.DIM),
            span(self._ends(), Tone.WARN if rule.note or self._expired else Tone.DIM),
            span(rule.from_request or self._place, Tone.DIM),
        )
        return grant_columns(cells, width)

    def details(self, width: int) -> list[StyledLine]:
        """The lines of the details."""
        rule = self.rule
        facts = [
            ("rule", f"{rule.decision} {rule.tool}"),
            ("written at", rule.where),
            ("because", rule.because),
            ("caller", rule.caller or "every caller"),
            ("input", "any" if rule.when is None else json.dumps(rule.when)),
            ("ends", self._ends()),
            ("used", f"{plural(rule.used, 'call')} in this session"),
            ("from", f"request {rule.from_request}" if rule.from_request else "the file, as it was found"),
        ]
        return _detail_lines(facts, rule.note, width)

    @property
    def _expired(self) -> bool:
        return self.rule.expires is not None and self.now >= self.rule.expires

    def _ends(self) -> str:
        if self.rule.note:
            return "faulty"
        if self.rule.expires is None:
            return "never"
        return "expired" if self._expired else f"in {age(self.rule.expires - self.now)}"


class BlockRow(msgspec.Struct, frozen=True):
    """A tool that is blocked for every caller."""

    block: Block
    now: float

    @property
    def key(self) -> str:
        """What identifies the row in the list."""
        return f"block {self.block.tool}"

    @property
    def description(self) -> str:
        """The block in a few words."""
        tool = self.block.tool
        return "the block of every tool" if tool == _EVERY_TOOL else f"the block of {tool}"

    @property
    def removal_loosens(self) -> bool:
        """True: without a block, calls of the tool are possible again."""
        return True

    def draw(self, width: int) -> StyledLine:
        """The row as a line of at most `width` cells."""
        block = self.block
        tool = "every tool" if block.tool == _EVERY_TOOL else block.tool
        cells = (
            span(f"⊘ {tool}", Tone.BAD),
            span("every caller"),
            span("–", Tone.DIM),
            span(_since(block.since or None, self.now), Tone.DIM),
            span("unblocked", Tone.DIM),
            span(block.reason, Tone.DIM),
        )
        return grant_columns(cells, width)

    def details(self, width: int) -> list[StyledLine]:
        """The lines of the details."""
        block = self.block
        facts = [
            ("blocked", "every tool" if block.tool == _EVERY_TOOL else block.tool),
            ("since", f"{age(self.now - block.since)} ago" if block.since else "unknown"),
            ("reason", block.reason or "none given"),
        ]
        return _detail_lines(facts, "Unblocked, it is asked again like any other tool.", width)


GrantRow = LeaseRow | RuleRow | BlockRow


def _detail_lines(facts: Sequence[tuple[str, str]], note: str, width: int) -> list[StyledLine]:
    rows = [line(*padded((span(f" {name}", Tone.DIM),), 13), span(value)) for name, value in facts if value]
    notes = [line(span(f" {note}", Tone.DIM))] if note else []
    return wrapped([*rows, *notes], width, 13)


def _coverage(lease: Lease) -> str:
    if lease.scope is LeaseScope.GROUP:
        return f"group {lease.group} ({lease.tool})"
    if lease.scope is LeaseScope.HOST:
        return f"{lease.tool} on {lease.host}"
    if lease.scope is LeaseScope.FOLDER:
        return f"{lease.tool} below {lease.folder}"
    if lease.scope is LeaseScope.INPUT:
        return f"{lease.tool}, one input"
    return f"{lease.tool} if…" if lease.condition is not None else lease.tool


def _time_left(lease: Lease, now: float) -> str:
    return f"in {duration(lease.expires_at - now)}" if lease.expires_at else "with caller"


def _since(moment: float | None, now: float) -> str:
    return "–" if moment is None else age(now - moment)


def _decision_tone(decision: str) -> Tone:
    return next((tone for known, tone in _DECISIONS.items() if known == decision), Tone.DIM)
