"""Approval values: the request, the person's answer, leases, and the person's own policy rules."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flycore.model.base import Value
from flycore.model.call import Caller, Picture, PlanStep
from flycore.model.enums import AttentionCode, Choice, Code, Decision, LeaseScope, Level, RequestState, Risk
from flycore.model.json import JsonObject, digest
from flycore.model.program import Seal, SealedDelegate, first_partial
from flycore.model.stability import PermissionReport

LETTERS = "cgijkmoqsyz"
"""The letters of confirmation codes: those that are not keys of the card."""
LEASE_MINUTES = (5, 15, 60)
MAX_PARTIAL_MINUTES = 15
"""The longest lease on a program whose seal is partial."""
UNTIL_LEFT = 0
"""Stands in place of minutes for a lease that lasts until the caller's process has ended."""


class MatchedRule(Value, frozen=True, kw_only=True):
    """A policy rule that decided, or the default where no rule did."""

    decision: Decision
    because: str
    where: str
    """`file:line`, or `default`."""
    tool: str = "*"


class Verdict(Value, frozen=True, kw_only=True):
    """Policy's decision on one call, with the rules that it rests on."""

    decision: Decision
    rules: tuple[MatchedRule, ...] = ()


class AgentAccess(Value, frozen=True, kw_only=True):
    """What is known of an agent's own command or read."""

    reads_only: bool
    """Whether it is known to only read, within the project folder."""
    why: str
    """Why it is, or why it is not."""
    risk: Risk

    def refused(self, why: str) -> AgentAccess:
        """Return the same as a call that is not allowed for only reading."""
        return msgspec.structs.replace(self, reads_only=False, why=why)


class Preview(Value, frozen=True, kw_only=True):
    """What the kernel saw of a call's target before it asked. It is part of the grant's digest."""

    window_id: str = ""
    """Decimal X11 window id."""
    title: str = ""
    pid: int = 0
    over_id: str = ""
    """Id of another window that covers the point of a pointer action."""
    over: str = ""
    """Title of that window."""
    unchecked: bool = False
    """Whether the target could not be looked at: on Wayland, for an entry that accepts that. Then all other
    fields are empty."""
    tab: str = ""
    """For a browser tool: the browser's id of the page's tab."""
    url: str = ""
    """For a browser tool: the page's address."""
    ref: str = ""
    """For a browser tool: the reference of the element, which changes with each navigation. Empty where the
    call acts on the page itself."""
    role: str = ""
    name: str = ""
    unseen: str = ""
    """Why the page could not be looked at; then the other fields are empty."""
    file: str = ""
    """Absolute path, with links resolved, of the file that the call changes, or that an agent wants to change
    with its own editor."""
    file_digest: str = ""
    """SHA-256 of the file's bytes, 64 hex digits; `new` where the file does not exist yet."""
    unread: str = ""
    """Why the result of the change cannot be shown."""
    more_files: dict[str, str] = {}
    """Further files that the call changes: the digest of each, as in `file_digest`, by its path."""

    @property
    def of_page(self) -> bool:
        """Whether the target is a page of a browser tool, not a window of a desktop tool."""
        return bool(self.tab or self.unseen)


class Subject(Value, frozen=True, kw_only=True):
    """Exactly what is approved. Two calls with equal digests run the same."""

    caller: str
    tool: str
    input: JsonObject
    seal: str
    delegates: dict[str, str]
    """The digest over command line and seal of each delegate, by name."""
    entry: str
    permissions: str
    level: Level
    env_names: tuple[str, ...]
    policy: str
    preview: Preview | None = None

    def digest(self) -> str:
        """Return the SHA-256 over all fields, 64 hex digits."""
        return digest(msgspec.to_builtins(self))


class Checks(Value, frozen=True, kw_only=True):
    """How often the same call was approved and denied today."""

    approved: int = 0
    denied: int = 0


class Attention(Value, frozen=True, kw_only=True):
    """Something about a call that a person should look at."""

    code: AttentionCode
    text: str


class NamedPlaces(Value, frozen=True, kw_only=True):
    """The places that a call's input names."""

    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders outside the project."""


class PastUse(Value, frozen=True, kw_only=True):
    """What the log knows of the places that a call names, and of earlier calls of its tool."""

    new_hosts: tuple[str, ...] = ()
    """Those of its hosts that no call from this root has named before."""
    new_folders: tuple[str, ...] = ()
    approved_seal: str = ""
    """The seal of the program that a person approved last for this tool; empty where none is known."""
    usual_bytes: int = 0
    """The median size of the tool's inputs; 0 where too few are known."""


class ApprovalRequest(Value, frozen=True, kw_only=True):
    """One approval request. The card is drawn from this value alone, never from a text that the caller sent
    for it."""

    id: str
    call_id: str
    caller: Caller
    tool: str
    sidecar: str
    app_root: str
    origin: str = ""
    """`SidecarEntry.origin` of the entry, to which a rule that is made of this request is bound."""
    risk: Risk
    effect: str
    """The capability's sentence with the input's values in it."""
    input_json: str
    """Canonical JSON of the input, with secrets masked."""
    fields: tuple[str, ...] = ()
    """The names of the input's fields in the order in which a person reads them: those that the tool's schema
    requires, then the others."""
    required: tuple[str, ...] = ()
    """The names of the fields that the schema requires."""
    attention: tuple[Attention, ...] = ()
    """What a person should look at, the most important first."""
    masked: tuple[str, ...] = ()
    """JSON pointers of the masked fields. For high risk, they count as not read."""
    subject: Subject
    subject_digest: str
    reach: tuple[PermissionReport, ...]
    limits: tuple[PermissionReport, ...] = ()
    """The resource limits of the call."""
    level: Level
    mechanism: str = ""
    seal: Seal
    delegates: tuple[SealedDelegate, ...] = ()
    why: tuple[MatchedRule, ...] = ()
    checks: Checks = Checks()
    said: str = ""
    letter: str = ""
    """The confirmation code: one of LETTERS for high risk, four of them for critical, else empty."""
    asked_at: float
    """Unix time in seconds."""
    expires_at: float
    """Unix time in seconds."""
    difference: tuple[str, ...] = ()
    """What has changed since an earlier approval of the same call became invalid."""
    notices: tuple[str, ...] = ()
    """What is known to be doubtful about the tool, such as a dialect that nobody has described."""
    group: str = ""
    """The tool's exclusive group, for which a lease may be made."""
    host: str = ""
    """The host of a web tool's address, for which a lease may be made."""
    folder: str = ""
    """The absolute folder that holds every path of the input, for which a lease may be made."""
    edited: bool = False
    """Whether a person has changed the input on the card. The caller is informed of it."""
    step: PlanStep | None = None
    """The step of a plan that the call is. It is not part of what is approved."""
    crop: Picture | None = None
    """A picture of the screen around the point, or of the window. It is not part of what is approved."""
    cross: tuple[int, int] | None = None
    """The pixel of `crop` that the call acts on."""
    crop_to: Picture | None = None
    """For a drag: a picture of the screen around its end."""
    cross_to: tuple[int, int] | None = None
    page_title: str = ""
    """Title of the page that a browser tool acts on. It is not part of what is approved."""
    no_crop: str = ""
    """Why there is no picture where there should be one."""
    diff: tuple[str, ...] = ()
    """How the call changes the file, as `flycore.runners.workspace.text_changes` writes it. It follows from
    the input and the file, which are part of what is approved."""

    @property
    def seals(self) -> tuple[Seal, ...]:
        """The seals of the program and of its delegates."""
        return (self.seal, *(delegate.seal for delegate in self.delegates))

    @property
    def partial(self) -> str:
        """The first reason why one of the seals is partial; empty where all are complete."""
        return first_partial(self.seals)

    def without_crops(self, why: str) -> ApprovalRequest:
        """Return the request without pictures of the screen and lines of files, which are for the person
        alone. `why` takes the place of the pictures."""
        bare = msgspec.structs.replace(self, diff=()) if self.diff else self
        if bare.crop is None and bare.crop_to is None:
            return bare
        return msgspec.structs.replace(bare, crop=None, cross=None, crop_to=None, cross_to=None, no_crop=why)


class LeaseTerms(Value, frozen=True, kw_only=True):
    """The terms of a lease: how long and for how many calls of the same caller."""

    minutes: int
    """One of LEASE_MINUTES, or `UNTIL_LEFT`."""
    calls: int
    scope: LeaseScope = LeaseScope.TOOL
    condition: JsonObject | None = None
    """JSON Schema that the input has to meet; None for every input."""


class RuleTerms(Value, frozen=True, kw_only=True):
    """The terms of a rule for the person's own policy file."""

    decision: Decision
    tool: str
    """Name or pattern, such as `web.*`."""
    because: str
    caller: str = ""
    """Pattern of the caller's program; empty for every caller."""
    when: JsonObject | None = None
    """JSON Schema that the input has to meet; None for every input."""
    expires: str = ""
    """The last day of the rule, `YYYY-MM-DD`; empty for no end."""


class Answer(Value, frozen=True, kw_only=True):
    """What a person decided on the card."""

    choice: Choice
    reason: str = ""
    lease: LeaseTerms | None = None
    rule: RuleTerms | None = None
    """The rule is written before the answer counts. Where it cannot be written, nothing is decided."""
    not_shown: dict[str, int] = {}
    """For an approval: how many characters of a value were folded or not on screen, by the JSON pointer of
    the field."""
    deny_minutes: int = 0
    """For DENY: minutes for which further calls of the tool by this caller are denied without asking."""


class QueueFull(Value, frozen=True, kw_only=True):
    """Why a request found no place in the queue. No person has decided about it."""

    waiting: int
    """The number of requests that fill the caller's share, or the whole queue."""
    of_caller: bool
    """Whether the caller's share is full; else the whole queue is."""
    frees_in: float | None = None
    """Seconds until the first of them ends by itself, if nobody decides before; None where all of them are on
    hold."""


class Ask(Value, frozen=True, kw_only=True):
    """A request with its state and answer."""

    request: ApprovalRequest
    state: RequestState
    answer: Answer | None = None
    decided_by: str = ""
    decided_at: float | None = None
    code: Code | None = None
    """The error code for the caller where the request was not approved."""
    count: int = 1
    """How many identical calls wait for this answer."""
    held: bool = False
    """Whether a person has put the request on hold, so that its time does not run."""
    ticket: bool = False
    """Whether no call waits inline, and the caller has to come back for the answer."""
    returns: bool = False
    """For a ticket: whether the client may come back for the answer also when its process has exited and it
    was started again in this root. Otherwise the request is withdrawn when that process exits."""
    full: QueueFull | None = None
    """For the code `queue-full`: how many wait, and when a place is free."""


class Outcome(Value, frozen=True, kw_only=True):
    """Whether something was done. `why_not` says why it was not, and is empty where it was."""

    accepted: bool
    why_not: str = ""


class Lease(Value, frozen=True, kw_only=True):
    """A permission for further calls of one caller, limited in time and number."""

    id: str
    caller: Caller
    tool: str
    scope_digest: str
    """Digest over caller, tool or group, seal, delegates, entry, permissions, environment names and level. A
    call that differs in any of them is not covered."""
    from_request: str
    calls_left: int
    expires_at: float
    """Unix time in seconds; 0 for a lease that lasts until the caller's process has ended."""
    created_at: float
    scope: LeaseScope = LeaseScope.TOOL
    group: str = ""
    """The exclusive group that is reserved for the caller while the lease is active."""
    host: str = ""
    folder: str = ""
    """The absolute folder below which the paths of a call must lie."""
    input_digest: str = ""
    """The digest of the one input that is covered; empty where more are."""
    condition: JsonObject | None = None
    used: int = 0
    last_used: float | None = None
    """Unix time in seconds."""


class StandingRule(Value, frozen=True, kw_only=True):
    """One rule of the person's own policy file, as lists show it. A part that cannot be read is empty."""

    where: str
    """`file:line`."""
    digest: str
    """SHA-256 over the rule's canonical value, 64 hex digits. A removal names the rule by it."""
    tool: str = ""
    decision: str = ""
    because: str = ""
    caller: str = ""
    entry: str = ""
    """The origin of the entry that an allow is bound to; empty for a rule about any entry."""
    when: JsonObject | None = None
    expires: float | None = None
    """Unix time, seconds."""
    note: str = ""
    """Why the rule does not do what it says; empty for a rule without faults."""
    from_request: str = ""
    """Id of the request that it was written for, if that was in this session."""
    used: int = 0
    """Number of calls of this session that it applied to."""
    last_used: float | None = None
    """Unix time, seconds."""


def highest_waiting(asks: Iterable[Ask]) -> Risk | None:
    """Return the highest risk among the requests that wait; None where none does."""
    risks = {ask.request.risk for ask in asks if ask.state is RequestState.WAITING}
    return next((risk for risk in reversed(Risk) if risk in risks), None)
