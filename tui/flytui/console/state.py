"""The console's state: the last known values of each root's kernel, the clocks, and what this console itself
knows.

A `ConsoleState` belongs to one root, and a `SharedState` to all roots of the console. Screens read them and
never fetch. `StateSync` fetches, then every screen gets the topics that changed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import anyio.to_thread
import msgspec
from textual import events
from textual.app import App

from flycore.model.approval import Answer, Ask, Lease, Outcome, StandingRule
from flycore.model.audit import ToolMetrics
from flycore.model.call import Activity
from flycore.model.catalog import Catalog
from flycore.model.enums import Effective, RequestState, Risk
from flycore.model.errors import NotConnected
from flycore.model.events import MISSED, Event
from flycore.model.json import JsonObject
from flycore.model.kept_catalog import KeptCatalog
from flycore.model.package import PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.status import Status
from flytui.console.console_memory import ConsoleMemory
from flytui.console.kernel_connection import (
    AttachedKernel,
    Connection,
    FailedConnection,
    LostConnection,
    OpenConnection,
    OpeningConnection,
    PairingRequest,
)
from flytui.console.terminal_graphics import GraphicsProtocol
from flytui.console.terminal_guard import KeyRisk
from flytui.console.user_settings import ConsoleSettings, KeyBindings

if TYPE_CHECKING:
    from flycore.client.audit_reader import AuditReader
    from flycore.rpc.methods import Approver, Client
    from flytui.console.doctor.terminal_checks import TerminalFacts
    from flytui.console.fix.terminal_programs import TerminalPrograms


class Topic(Enum):
    """A value of the kernel that one read fetches and that can be out of date."""

    STATUS = auto()
    ASKS = auto()
    TRUST = auto()
    QUESTIONS = auto()
    PACKAGES = auto()
    CATALOG = auto()
    ACTIVITY = auto()
    METRICS = auto()
    LEASES = auto()
    RULES = auto()
    BLOCKS = auto()


ALL_TOPICS = frozenset(Topic) - {Topic.METRICS}
"""All topics but metrics: the kernel has to read its whole log for those, so only views that show them
ask."""
_DECIDED = frozenset({Topic.ASKS, Topic.ACTIVITY})
_QUESTION = frozenset({Topic.QUESTIONS, Topic.STATUS})
_BY_EVENT: dict[str, frozenset[Topic]] = {
    "call.started": frozenset({Topic.ACTIVITY}),
    "call.progress": frozenset({Topic.ACTIVITY}),
    "call.finished": frozenset({Topic.ACTIVITY, Topic.METRICS, Topic.STATUS}),
    "call.outcome-unknown": frozenset({Topic.ACTIVITY, Topic.METRICS}),
    "history.read": frozenset({Topic.ACTIVITY}),
    "approval.asked": frozenset({Topic.ASKS, Topic.STATUS}),
    "approval.turned-away": frozenset({Topic.STATUS}),
    "approval.changed": frozenset({Topic.ASKS}),
    "approval.decided": _DECIDED,
    "approval.withdrawn": _DECIDED,
    "approval.timed-out": _DECIDED,
    "question.asked": _QUESTION,
    "question.answered": _QUESTION,
    "trust.changed": frozenset({Topic.TRUST, Topic.QUESTIONS}),
    "leases.changed": frozenset({Topic.LEASES, Topic.STATUS}),
    "rules.changed": frozenset({Topic.RULES}),
    "blocks.changed": frozenset({Topic.BLOCKS}),
    "policy.changed": frozenset({Topic.RULES, Topic.CATALOG, Topic.QUESTIONS, Topic.STATUS}),
    "catalog.changed": frozenset({Topic.CATALOG, Topic.TRUST, Topic.QUESTIONS, Topic.STATUS}),
    "evidence.changed": frozenset({Topic.CATALOG}),
    "package.changed": frozenset({Topic.PACKAGES}),
    "packages.changed": frozenset({Topic.PACKAGES}),
    "hands.changed": frozenset({Topic.STATUS}),
    "status.changed": frozenset({Topic.STATUS}),
    MISSED: ALL_TOPICS,
}
"""The reads that each event makes necessary. A change that the kernel publishes as another event too, such as
a catalog that a trusted entry changes, is fetched for that event only."""


def topics_of(event: Event) -> frozenset[Topic]:
    """The topics to fetch again after the event; none for an unknown event."""
    return _BY_EVENT.get(event.type, frozenset())


@runtime_checkable
class StateView(Protocol):
    """A screen or view that shows values of the console's state."""

    def changed(self, topics: frozenset[Topic]) -> None:
        """Draw again what depends on these topics."""
        ...


def update_screens(app: App[None], topics: frozenset[Topic]) -> None:
    """Have every screen that shows values of the state draw again what depends on these topics."""
    for screen in app.screen_stack:
        if isinstance(screen, StateView) and screen.is_mounted:
            screen.changed(topics)


DECIDED_S = 4.0
"""Seconds for which the bar says what became of a request that was decided."""


class Decided(msgspec.Struct, frozen=True):
    """A decision of this person that counted."""

    words: str
    effect: str
    """What the call does, as the card said it."""
    allows: bool
    at: float
    """When, in seconds on the console's clock."""


class SharedState(msgspec.Struct, eq=False):
    """What all roots of one console have in common: the terminal, the person at it, and the queue of what
    waits for that person."""

    roots: tuple[ConsoleState, ...] = ()
    """The state of each root, in the order in which the person named them. Each adds itself when it is
    made."""
    chosen: int = 0
    """The index of the root whose catalog, activity, grants, log and checks are shown."""
    notice: str = ""
    """A sentence for the person, until the next key; `""` for none."""
    decided: Decided | None = None
    """What became of the request that this person decided last."""
    last_key: float = float("-inf")
    """When the last key was pressed, on the console's clock."""
    suspended: bool = False
    """Whether another program has the terminal. The console draws nothing then, and no screen opens by
    itself."""
    keyboard_elsewhere: bool = False
    """Whether the terminal has said that its window does not have the keyboard. One that says nothing of the
    kind counts as one that has it."""
    coloured_pictures: bool = True
    """Whether the terminal has enough colours for a picture."""
    graphics: GraphicsProtocol = GraphicsProtocol.BLOCKS
    """How pictures are drawn."""
    key_risk: KeyRisk = msgspec.field(default_factory=KeyRisk)
    """Whether a program could type into this terminal."""
    find_intruder: Callable[[int], str] | None = None
    """Says which program of the kernel with that pid has this terminal open, and so why no key may approve;
    None where there is no terminal. It reads /proc, so it must not be called on the event loop."""

    @property
    def shown(self) -> ConsoleState:
        """The root whose catalog, activity, grants, log and checks are shown."""
        return self.roots[self.chosen]

    @property
    def several(self) -> bool:
        """Whether the console has more than one root."""
        return len(self.roots) > 1

    @property
    def shown_first(self) -> tuple[ConsoleState, ...]:
        """All roots, the one that is shown before the others."""
        return (self.shown, *(root for root in self.roots if root is not self.shown))

    @property
    def requests(self) -> tuple[QueuedRequest, ...]:
        """The requests of all roots: those that wait, oldest first, and those that ended, latest first."""
        found = [QueuedRequest(root, ask) for root in self.roots for ask in root.asks]
        # Each kernel hands its own over in this order.
        return tuple(sorted(found, key=_queue_order) if self.several else found)

    @property
    def waiting(self) -> tuple[QueuedRequest, ...]:
        """The requests of all roots that wait, oldest first."""
        return tuple(queued for queued in self.requests if queued.ask.state is RequestState.WAITING)

    @property
    def questions(self) -> tuple[QueuedQuestion, ...]:
        """The questions of all roots, root by root."""
        return tuple(QueuedQuestion(root, question) for root in self.roots for question in root.questions)

    @property
    def high_waiting(self) -> bool:
        """Whether a request of high or critical risk waits at any root."""
        return any(root.high_waiting for root in self.roots)

    @property
    def desktop_controlled(self) -> bool:
        """Whether a tool of any root controls the desktop, so that it could press keys here."""
        return any(root.desktop_controlled for root in self.roots)

    async def approval_obstacle(self) -> str:
        """Why no approval may be sent now, looked up right before it is sent; `""` where it may."""
        if self.find_intruder is None:
            return ""
        # A program of any root's kernel could type the key that approves a request of another root.
        for pid in [root.status.pid for root in self.roots if root.status is not None]:
            if found := await anyio.to_thread.run_sync(self.find_intruder, pid):
                return found
        return ""


def _queue_order(queued: QueuedRequest) -> tuple[bool, float]:
    ask = queued.ask
    if ask.state is RequestState.WAITING:
        return False, ask.request.asked_at
    return True, -(ask.decided_at or ask.request.asked_at)


class QueuedRequest(msgspec.Struct, frozen=True):
    """A request together with the root that it belongs to. Every decision about it is made here, and goes to
    the kernel of that root: ids of two roots may be equal, so an id alone names no request."""

    root: ConsoleState
    ask: Ask

    @property
    def key(self) -> str:
        """What identifies the request among those of all roots."""
        return self.root.key_of(self.ask.request.id)

    @property
    def effect(self) -> str:
        """What the call does, in the sentence of its card."""
        # Imported here: the first frame of the console, without any request, does without cards.
        from flytui.text.card import effect_text

        return effect_text(self.ask.request)

    async def decide(self, answer: Answer) -> Outcome:
        """Send the answer to the request as it is here. Raises FlyError where the kernel is gone."""
        request = self.ask.request
        return await self.root.approver.decide(request.id, request.subject_digest, answer)

    async def edit(self, input: JsonObject) -> Outcome:
        """Have the request ask for another input. Raises FlyError where the kernel is gone."""
        request = self.ask.request
        return await self.root.approver.edit(request.id, request.subject_digest, input)

    async def hold(self, on: bool) -> bool:
        """Stop the request's time-out, or let it run on. Return whether the request still waited. Raises
        FlyError where the kernel is gone."""
        return await self.root.approver.hold(self.ask.request.id, on)


class QueuedQuestion(msgspec.Struct, frozen=True):
    """A question together with the root that it belongs to. Its answer goes to the kernel of that root."""

    root: ConsoleState
    question: Question

    @property
    def key(self) -> str:
        """What identifies the question among those of all roots."""
        return self.root.key_of(self.question.id)

    async def answer(self, option: str, words: str, values: JsonObject | None = None) -> Outcome:
        """Send the answer, with the values of the question's form where it has one. Raises FlyError where the
        kernel is gone."""
        return await self.root.approver.answer(self.question.id, option, words, values)


@dataclass(slots=True, eq=False)
class ConsoleState:
    """The values of one root that all screens read. It decides nothing."""

    title: str
    """The root's path, or another name of it for the header."""
    name: str = ""
    """The root's short name, as safe text; `""` where the console has no other root."""
    shared: SharedState = field(default_factory=SharedState)
    """What this root has in common with the console's other roots."""
    connection: Connection = field(default_factory=OpeningConnection)
    """The connection with a kernel: opening, open or lost. `set_connection` changes it."""
    clock: Callable[[], float] = time.monotonic
    """The console's clock, in seconds that never go back. Arming depends on it."""
    now: Callable[[], float] = time.time
    """Unix time in seconds, from which ages and time-outs are drawn."""
    catalog: Catalog | None = None
    kept: KeptCatalog | None = None
    """The catalog as it was last, until there is one of the kernel; None where none was kept."""
    asks: tuple[Ask, ...] = ()
    audit_reader: AuditReader | None = None
    """The reader of this root's audit log."""
    activity: tuple[Activity, ...] = ()
    metrics: tuple[ToolMetrics, ...] = ()
    status: Status | None = None
    trust: tuple[TrustItem, ...] = ()
    leases: tuple[Lease, ...] = ()
    rules: tuple[StandingRule, ...] = ()
    """The rules of the person's own policy file."""
    blocks: tuple[Block, ...] = ()
    questions: tuple[Question, ...] = ()
    packages: tuple[PackageView, ...] = ()
    """The packages that are installed or staged."""
    panic_requested: bool = False
    """Whether the person has stopped everything and the kernel has not confirmed it yet."""
    desktop_controlled: bool = False
    play_demo: Callable[[], Awaitable[None]] | None = None
    """Runs the demo on this terminal, to its end; None where there is no terminal for it."""
    terminal_programs: TerminalPrograms | None = None
    """The programs for fixes, which run on this terminal; None where there is no terminal to lend."""
    find_terminal: Callable[[tuple[int, int]], TerminalFacts] | None = None
    """Finds out what the terminal can do, given its columns and rows. It may start other programs, so it must
    not be called on the event loop."""
    on_first_values: Callable[[], None] = lambda: None
    """Called once, when the values of a kernel are there for the first time."""
    leave_kernel: Callable[[], None] | None = None
    """Lets the kernel beside this console go on without it; None where there is no such kernel."""
    end_calls: Callable[[], None] | None = None
    """Ends the calls of the kernel that the first connection waits for."""
    memory: ConsoleMemory = field(default_factory=ConsoleMemory)
    """What the console remembers between two starts."""
    stop_job: Callable[[], str] | None = None
    """Stops this console as a job of its shell, and returns why that cannot be done; None where no shell can
    have started it."""
    pairing_requests: tuple[PairingRequest, ...] = ()
    """Consoles that ask to pair. It may hold requests whose code has expired; they are not shown."""
    inputs: dict[str, JsonObject] = field(default_factory=dict)
    """The input last written into the test-call form in this session, by tool."""
    test_calls: int = 0
    """The number of test calls from this console that have not ended."""
    refetch: Callable[[frozenset[Topic]], None] = lambda topics: None
    """Has the values of these topics fetched at the next turn."""
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    """The person's own keys and theme, and the problems of their settings."""
    _opened: anyio.Event = field(default_factory=anyio.Event, init=False)
    """Is set once the first connection is open."""

    def __post_init__(self) -> None:
        """Add this root to those of the console."""
        self.shared.roots = (*self.shared.roots, self)

    @property
    def place(self) -> int:
        """The place of this root among those of the console, from 0."""
        return self.shared.roots.index(self)

    def key_of(self, name: str) -> str:
        """What identifies something of this root that has that id, among those of all roots."""
        return f"{self.place} {name}" if self.name else name

    def set_connection(self, connection: Connection) -> None:
        """Record another state of the connection, and wake up whoever waits for the first one."""
        self.connection = connection
        if isinstance(connection, OpenConnection):
            self._opened.set()

    async def first_client(self) -> Client:
        """The client of the kernel. Waits without a time limit while the first connection is being opened."""
        if isinstance(self.connection, OpeningConnection):
            await self._opened.wait()
        return self.client

    @property
    def client(self) -> Client:
        """The client of the kernel. Raises NotConnected while the first connection is being opened. Where the
        connection is lost, the client itself refuses every call."""
        return self._last_open.client

    @property
    def approver(self) -> Approver:
        """The approver at the kernel. Raises NotConnected while the first connection is being opened. Where
        the connection is lost, the approver itself refuses every decision."""
        # A decision must not be kept for later: the person decides on what the screen shows now.
        return self._last_open.approver

    @property
    def _last_open(self) -> OpenConnection:
        match self.connection:
            case OpeningConnection() | FailedConnection():
                raise NotConnected
            case LostConnection(last=last):
                return last
            case OpenConnection() as connection:
                return connection

    @property
    def attachment(self) -> AttachedKernel | None:
        """The attachment to another one's kernel, also when that is lost; None where the kernel is the one
        beside this console."""
        if isinstance(self.connection, OpeningConnection | FailedConnection):
            return None
        return self._last_open.attachment

    @property
    def lost(self) -> LostConnection | None:
        """The connection that was lost, until there is another one; None while there is none or it is
        open."""
        return self.connection if isinstance(self.connection, LostConnection) else None

    @property
    def waiting_for(self) -> str:
        """The process that holds the root, while the first connection waits for it; `""` where it waits for
        none."""
        return self.connection.waiting_for if isinstance(self.connection, OpeningConnection) else ""

    @property
    def keys(self) -> KeyBindings:
        """The key bindings that are in force."""
        return self.settings.keys

    @property
    def open_pairing_requests(self) -> tuple[PairingRequest, ...]:
        """The consoles that ask to pair and whose code has not expired."""
        return tuple(asking for asking in self.pairing_requests if asking.expires_at > self.now())

    @property
    def no_decision_reason(self) -> str:
        """Why this console can decide nothing; `""` where it can."""
        match self.connection:
            case OpeningConnection():
                return "the kernel is still being opened: nothing can be decided"
            case FailedConnection():
                return "this root could not be opened: nothing can be decided"
            case LostConnection(restarts=True):
                return "the kernel is gone: nothing can be decided until the next one runs"
            case LostConnection():
                take = self.keys.label("app.take")
                return f"the kernel is gone: nothing can be decided · {take} opens one here"
            case OpenConnection(attachment=AttachedKernel(paired=False)):
                return f"viewer · cannot decide · {self.keys.label('app.pair')} pairs"
            case OpenConnection():
                return ""

    @property
    def waiting(self) -> tuple[Ask, ...]:
        """The requests that wait, oldest first."""
        return tuple(ask for ask in self.asks if ask.state is RequestState.WAITING)

    @property
    def panic_active(self) -> bool:
        """Whether everything is stopped until a person releases it."""
        return self.status is not None and self.status.panic

    @property
    def high_waiting(self) -> bool:
        """Whether a request of high or critical risk waits."""
        return any(ask.request.risk.at_least(Risk.HIGH) for ask in self.waiting)

    def offers(self, tool: str) -> bool:
        """Whether the catalog has a tool of that name that can be called."""
        ready = (Effective.AVAILABLE, Effective.DEGRADED)
        views = self.catalog.capabilities if self.catalog else ()
        return any(view.capability.name == tool and view.stability.effective in ready for view in views)

    def ask(self, request_id: str) -> Ask | None:
        """The request of that id, or None."""
        return next((ask for ask in self.asks if ask.request.id == request_id), None)

    def press_time(self, event: events.Event) -> float:
        """When the key or paste was read from the terminal, on the console's clock."""
        # A busy loop handles keys late, but what counts is when the person pressed them. Textual stamps
        # events with the monotonic clock, which is not the console's clock in tests.
        return self.clock() - max(0.0, time.monotonic() - event.time)

    async def fetch(self, topics: frozenset[Topic]) -> None:
        """Fetch the values of these topics from the kernel. Raises ConnectionLost if the kernel is gone."""
        if Topic.STATUS in topics:
            self.status = await self.client.status()
            self.desktop_controlled = self.status.hands_on
        if Topic.ASKS in topics:
            self.asks = await self.client.asks()
        if Topic.TRUST in topics:
            self.trust = await self.client.pending_trust()
        if Topic.QUESTIONS in topics:
            self.questions = await self.client.questions()
        if Topic.PACKAGES in topics:
            self.packages = await self.client.packages()
        if Topic.CATALOG in topics:
            self.catalog = await self.client.catalog(outline=True)
            self.kept = None
        if Topic.ACTIVITY in topics:
            self.activity = await self.client.activity()
        if Topic.METRICS in topics:
            self.metrics = (await self.client.metrics()).tools
        if Topic.LEASES in topics:
            self.leases = await self.client.leases()
        if Topic.RULES in topics:
            self.rules = await self.client.rules()
        if Topic.BLOCKS in topics:
            self.blocks = await self.client.blocks()
