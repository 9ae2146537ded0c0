"""The console's state: the last known values of the kernel, the clocks, and what this console itself knows.

Screens read it and never fetch. `StateSync` fetches, then every screen gets the topics that changed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol, runtime_checkable

import anyio.to_thread
from textual import events
from textual.app import App

from flycore.client.audit_reader import AuditReader
from flycore.model.approval import Ask, Lease, StandingRule
from flycore.model.audit import ToolMetrics
from flycore.model.call import Activity
from flycore.model.catalog import Catalog
from flycore.model.enums import Effective, RequestState, Risk
from flycore.model.errors import NotConnected
from flycore.model.events import MISSED, Event
from flycore.model.json import JsonObject
from flycore.model.package import PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.status import Status
from flycore.rpc.methods import Approver, Client
from flytui.console.console_memory import ConsoleMemory
from flytui.console.doctor.terminal_checks import TerminalFacts
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.console.kernel_connection import (
    AttachedKernel,
    Connection,
    LostConnection,
    OpenConnection,
    OpeningConnection,
    PairingRequest,
)
from flytui.console.terminal_graphics import GraphicsProtocol
from flytui.console.terminal_guard import KeyRisk
from flytui.console.user_settings import ConsoleSettings, KeyBindings


class Topic(Enum):
    """A group of values that is fetched together and can be out of date."""

    CATALOG = auto()
    ASKS = auto()
    ACTIVITY = auto()
    METRICS = auto()
    STATUS = auto()
    TRUST = auto()
    GRANTS = auto()
    QUESTIONS = auto()
    PACKAGES = auto()


ALL_TOPICS = frozenset(Topic) - {Topic.METRICS}
"""All topics but metrics: the kernel has to read its whole log for those, so only views that show them
ask."""
_BY_EVENT: dict[str, frozenset[Topic]] = {
    "catalog.changed": frozenset({Topic.CATALOG, Topic.TRUST, Topic.QUESTIONS, Topic.STATUS, Topic.PACKAGES}),
    "package.changed": frozenset({Topic.PACKAGES, Topic.CATALOG, Topic.QUESTIONS, Topic.STATUS}),
    "packages.changed": frozenset({Topic.PACKAGES, Topic.CATALOG, Topic.QUESTIONS, Topic.STATUS}),
    "evidence.changed": frozenset({Topic.CATALOG}),
    "call.started": frozenset({Topic.ACTIVITY, Topic.STATUS}),
    "call.progress": frozenset({Topic.ACTIVITY}),
    "history.read": frozenset({Topic.ACTIVITY}),
    "call.outcome-unknown": frozenset({Topic.ACTIVITY, Topic.METRICS}),
    "call.finished": frozenset({Topic.ACTIVITY, Topic.METRICS, Topic.STATUS, Topic.GRANTS}),
    "approval.asked": frozenset({Topic.ASKS, Topic.ACTIVITY, Topic.STATUS}),
    "approval.changed": frozenset({Topic.ASKS}),
    "approval.turned-away": frozenset({Topic.ACTIVITY, Topic.STATUS}),
    "approval.decided": frozenset({Topic.ASKS, Topic.ACTIVITY, Topic.STATUS}),
    "approval.withdrawn": frozenset({Topic.ASKS, Topic.ACTIVITY, Topic.STATUS}),
    "approval.timed-out": frozenset({Topic.ASKS, Topic.ACTIVITY, Topic.STATUS}),
    "trust.changed": frozenset({Topic.TRUST, Topic.QUESTIONS, Topic.CATALOG, Topic.STATUS}),
    "question.asked": frozenset({Topic.QUESTIONS, Topic.STATUS}),
    "question.answered": frozenset({Topic.QUESTIONS, Topic.STATUS}),
    "leases.changed": frozenset({Topic.GRANTS, Topic.STATUS}),
    "rules.changed": frozenset({Topic.GRANTS}),
    "blocks.changed": frozenset({Topic.GRANTS}),
    "hands.changed": frozenset({Topic.STATUS}),
    "policy.changed": frozenset({Topic.CATALOG, Topic.STATUS, Topic.GRANTS, Topic.QUESTIONS}),
    "status.changed": frozenset({Topic.STATUS}),
    MISSED: ALL_TOPICS,
}


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


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of this person that counted."""

    words: str
    effect: str
    """What the call does, as the card said it."""
    allows: bool
    at: float
    """When, in seconds on the console's clock."""


@dataclass(slots=True)
class ConsoleState:
    """The values that all screens read. It decides nothing."""

    title: str
    connection: Connection = field(default_factory=OpeningConnection)
    """The connection with a kernel: opening, open or lost. `set_connection` changes it."""
    clock: Callable[[], float] = time.monotonic
    """The console's clock, in seconds that never go back. Arming depends on it."""
    now: Callable[[], float] = time.time
    """Unix time in seconds, from which ages and time-outs are drawn."""
    catalog: Catalog | None = None
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
    key_risk: KeyRisk = field(default_factory=KeyRisk)
    """Whether a program could type into this terminal."""
    find_intruder: Callable[[int], str] | None = None
    """Says which program of the kernel with that pid has this terminal open, and so why no key may approve;
    None where there is no terminal. It reads /proc, so it must not be called on the event loop."""
    on_first_values: Callable[[], None] = lambda: None
    """Called once, when the values of a kernel are there for the first time."""
    leave_kernel: Callable[[], None] | None = None
    """Lets the kernel beside this console go on without it; None where there is no such kernel."""
    memory: ConsoleMemory = field(default_factory=ConsoleMemory)
    """What the console remembers between two starts."""
    stop_job: Callable[[], str] | None = None
    """Stops this console as a job of its shell, and returns why that cannot be done; None where no shell can
    have started it."""
    coloured_pictures: bool = True
    """Whether the terminal has enough colours for a picture."""
    graphics: GraphicsProtocol = GraphicsProtocol.BLOCKS
    """How pictures are drawn."""
    suspended: bool = False
    """Whether another program has the terminal. The console draws nothing then, and no screen opens by
    itself."""
    pairing_requests: tuple[PairingRequest, ...] = ()
    """Consoles that ask to pair. It may hold requests whose code has expired; they are not shown."""
    notice: str = ""
    """A sentence for the person, until the next key; `""` for none."""
    decided: Decided | None = None
    """What became of the request that this person decided last."""
    inputs: dict[str, JsonObject] = field(default_factory=dict)
    """The input last written into the test-call form in this session, by tool."""
    test_calls: int = 0
    """The number of test calls from this console that have not ended."""
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    """The person's own keys and theme, and the problems of their settings."""
    last_key: float = field(default=float("-inf"))
    """When the last key was pressed, on the console's clock."""
    _opened: anyio.Event = field(default_factory=anyio.Event, init=False)
    """Is set once the first connection is open."""

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
            case OpeningConnection():
                raise NotConnected
            case LostConnection(last=last):
                return last
            case OpenConnection() as connection:
                return connection

    @property
    def attachment(self) -> AttachedKernel | None:
        """The attachment to another one's kernel, also when that is lost; None where the kernel is the one
        beside this console."""
        return None if isinstance(self.connection, OpeningConnection) else self._last_open.attachment

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

    async def approval_obstacle(self) -> str:
        """Why no approval may be sent now, looked up right before it is sent; `""` where it may."""
        if self.find_intruder is None or self.status is None:
            return ""
        return await anyio.to_thread.run_sync(self.find_intruder, self.status.pid)

    def press_time(self, event: events.Event) -> float:
        """When the key or paste was read from the terminal, on the console's clock."""
        # A busy loop handles keys late, but what counts is when the person pressed them. Textual stamps
        # events with the monotonic clock, which is not the console's clock in tests.
        return self.clock() - max(0.0, time.monotonic() - event.time)

    async def fetch(self, topics: frozenset[Topic]) -> None:
        """Fetch the values of these topics from the kernel. Raises ConnectionLost where the kernel is
        gone."""
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
            self.catalog = await self.client.catalog()
        if Topic.ACTIVITY in topics:
            self.activity = await self.client.activity()
        if Topic.METRICS in topics:
            self.metrics = (await self.client.metrics()).tools
        if Topic.GRANTS in topics:
            self.leases = await self.client.leases()
            self.rules = await self.client.rules()
            self.blocks = await self.client.blocks()
