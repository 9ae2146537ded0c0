"""An approval request, what a person answers, and the grant over digests that an answer makes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flycore.model.base import Value
from flycore.model.call import Caller, PlanStep
from flycore.model.enums import Choice, Code, Decision, LeaseScope, Level, RequestState, Risk
from flycore.model.json import JsonObject, digest
from flycore.model.picture import Picture
from flycore.model.program import Seal, SealedDelegate
from flycore.model.stability import PermissionReport

LETTERS = "cfgijkmoqsxyz"
"""Letters that are no key of the card, from which a high-risk confirmation is drawn."""
LEASE_MINUTES = (5, 15, 60)
UNTIL_LEFT = 0
"""In place of minutes: until the caller's process has ended."""


class MatchedRule(Value, frozen=True, kw_only=True):
    """A policy rule that spoke, or the default that did."""

    decision: Decision
    because: str
    where: str
    """`file:line`, or `default`."""
    tool: str = "*"


class Verdict(Value, frozen=True, kw_only=True):
    """Policy's answer for one call, with everything it rests on."""

    decision: Decision
    rules: tuple[MatchedRule, ...] = ()


class Preview(Value, frozen=True, kw_only=True):
    """What the kernel saw of the target before it asked; part of the grant's digest."""

    window_id: str = ""
    """Decimal X11 window id."""
    title: str = ""
    pid: int = 0
    over_id: str = ""
    """Of the window that lay over the point of a pointer action, in place of the one that is meant."""
    over: str = ""
    """Its title."""
    unchecked: bool = False
    """Whether nobody could look: on Wayland, for an entry that accepts it. Then all else is empty."""
    tab: str = ""
    """Of the page that a browser tool acts on: the browser's name for the tab."""
    url: str = ""
    """The address it shows."""
    ref: str = ""
    """Of the element that is meant: another one after each navigation. Empty where the page itself is."""
    role: str = ""
    name: str = ""
    unseen: str = ""
    """Why the page could not be looked at; then the rest is empty."""
    file: str = ""
    """Absolute path, links followed, of the file that an agent wants to change with its own editor."""
    file_digest: str = ""
    """SHA-256 of its bytes, 64 hex digits; `new` where there is none yet."""
    unread: str = ""
    """Why what the change makes of it cannot be shown."""

    @property
    def of_page(self) -> bool:
        """Whether it is a browser tool's, not a desktop tool's."""
        return bool(self.tab or self.unseen)


class Subject(Value, frozen=True, kw_only=True):
    """What exactly is approved. Equal digests, equal executions."""

    caller: str
    tool: str
    input: JsonObject
    seal: str
    delegates: dict[str, str]
    """Name to the digest over its argv and seal."""
    entry: str
    permissions: str
    level: Level
    env_names: tuple[str, ...]
    policy: str
    preview: Preview | None = None

    def digest(self) -> str:
        """SHA-256 over everything above, 64 hex digits."""
        return digest(msgspec.to_builtins(self))


class Checks(Value, frozen=True, kw_only=True):
    """What happened before with the same call, today."""

    approved: int = 0
    denied: int = 0


class ApprovalRequest(Value, frozen=True, kw_only=True):
    """One card. Rendered from here alone, never from text a caller chose to send as a card."""

    id: str
    call_id: str
    caller: Caller
    tool: str
    sidecar: str
    app_root: str
    risk: Risk
    effect: str
    """The capability's sentence with the input's values in it."""
    input_json: str
    """Canonical JSON of the input, secrets masked."""
    masked: tuple[str, ...] = ()
    """Pointers of masked fields; they count as unread for high risk."""
    subject: Subject
    subject_digest: str
    reach: tuple[PermissionReport, ...]
    level: Level
    mechanism: str = ""
    seal: Seal
    delegates: tuple[SealedDelegate, ...] = ()
    why: tuple[MatchedRule, ...] = ()
    checks: Checks = Checks()
    said: str = ""
    letter: str = ""
    """For high risk: the letter that confirms, one of LETTERS. For critical: four of them."""
    asked_at: float
    """Unix time, seconds."""
    expires_at: float
    """Unix time, seconds."""
    difference: tuple[str, ...] = ()
    """What changed since an earlier approval of the same call went stale."""
    group: str = ""
    """The tool's exclusive group; a lease may be for all of it."""
    host: str = ""
    """Where a web tool's address leads; a lease may be for it alone."""
    edited: bool = False
    """The person has changed the input on the card; the caller is told."""
    step: PlanStep | None = None
    """Where in which plan the call stands. No part of what is approved."""
    crop: Picture | None = None
    """The screen round the point, or the window, when the card was made. No part of what is approved."""
    cross: tuple[int, int] | None = None
    """The pixel of `crop` that is meant."""
    crop_to: Picture | None = None
    """For a drag: the screen round its end."""
    cross_to: tuple[int, int] | None = None
    page_title: str = ""
    """Title of the page that a browser tool acts on. No part of what is approved."""
    no_crop: str = ""
    """Why no picture could be taken where there should be one."""
    diff: tuple[str, ...] = ()
    """What the change makes of the file, see `flycore.pipeline.targets.file`. It follows from the input and
    the file, which are part of what is approved."""

    def without_crops(self, why: str) -> ApprovalRequest:
        """The request for others than the console: pixels of the screen and lines of files are for the
        person alone."""
        bare = msgspec.structs.replace(self, diff=()) if self.diff else self
        if bare.crop is None and bare.crop_to is None:
            return bare
        return msgspec.structs.replace(bare, crop=None, cross=None, crop_to=None, cross_to=None, no_crop=why)


class LeaseTerms(Value, frozen=True, kw_only=True):
    """The same caller, for so many minutes and calls."""

    minutes: int
    """One of LEASE_MINUTES, or `UNTIL_LEFT`."""
    calls: int
    scope: LeaseScope = LeaseScope.TOOL
    condition: JsonObject | None = None
    """A JSON Schema that the input has to meet; None for any input."""


class RuleTerms(Value, frozen=True, kw_only=True):
    """A rule for the person's own policy file, as a form makes it."""

    decision: Decision
    tool: str
    """Name or pattern, such as `web.*`."""
    because: str
    caller: str = ""
    """Pattern of the caller's program; empty for every caller."""
    when: JsonObject | None = None
    """A JSON Schema that the input has to meet."""
    expires: str = ""
    """A day, `YYYY-MM-DD`, or empty for no end."""


class Answer(Value, frozen=True, kw_only=True):
    """What a person decided on the card."""

    choice: Choice
    reason: str = ""
    lease: LeaseTerms | None = None
    rule: RuleTerms | None = None
    """Written first; where it cannot be written, nothing is decided."""
    deny_minutes: int = 0
    """For DENY: how long the same tool is refused to the same caller without asking."""


class Ask(Value, frozen=True, kw_only=True):
    """A request and what became of it, for lists."""

    request: ApprovalRequest
    state: RequestState
    answer: Answer | None = None
    decided_by: str = ""
    decided_at: float | None = None
    code: Code | None = None
    """What the caller is told where the request did not end approved."""
    count: int = 1
    """How many identical calls wait for this one answer."""
    held: bool = False
    """A person holds it: its time stands still."""
    ticket: bool = False
    """Nobody waits inline: the caller comes back for the answer."""


class Outcome(Value, frozen=True, kw_only=True):
    """Whether something was done, or why not: `why_not` is empty where it was."""

    accepted: bool
    why_not: str = ""


class Lease(Value, frozen=True, kw_only=True):
    """A standing, limited permission."""

    id: str
    caller: Caller
    tool: str
    scope_digest: str
    """Over caller, tool, seal, delegates, entry, permissions, level: a change in any ends the lease."""
    from_request: str
    calls_left: int
    expires_at: float
    """Unix time, seconds; 0 for one that lasts until the caller's process has ended."""
    created_at: float
    scope: LeaseScope = LeaseScope.TOOL
    group: str = ""
    """The exclusive group that is kept for the caller while the lease holds."""
    host: str = ""
    condition: JsonObject | None = None
    used: int = 0
    last_used: float | None = None
    """Unix time, seconds."""


# A person's own policy rules, as lists of what stands show them.


class StandingRule(Value, frozen=True, kw_only=True):
    """One rule of the person's own policy file. What cannot be read in it is empty, and `note` says why."""

    where: str
    """`file:line`."""
    digest: str
    """SHA-256 over the rule's canonical value, 64 hex digits: what a removal names."""
    tool: str = ""
    decision: str = ""
    because: str = ""
    caller: str = ""
    when: JsonObject | None = None
    expires: float | None = None
    """Unix time, seconds."""
    note: str = ""
    """Why it does not do what it says; empty for a rule that holds."""
    from_request: str = ""
    """The request it was written for, where that was in this session."""
    used: int = 0
    """Calls of this session that it spoke about."""
    last_used: float | None = None
    """Unix time, seconds."""


# What waits for a person, in two words: how many, and how bad. All that a notice ever says.


def highest_waiting(asks: Iterable[Ask]) -> Risk | None:
    """The highest risk among requests that wait; None where none does."""
    risks = {ask.request.risk for ask in asks if ask.state is RequestState.WAITING}
    return next((risk for risk in reversed(Risk) if risk in risks), None)
