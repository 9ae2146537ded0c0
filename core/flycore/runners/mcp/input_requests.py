"""What an MCP server asks during a call: the values that it asks a person for, and the calls that wait.

While a person decides, the time of the calls that the question may belong to stands still. A server of the
older protocol does not say which call its question belongs to; then it may be each that runs. The question
is withdrawn once all of these have ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import anyio

from flycore.catalog.schemas import check_schema
from flycore.model.json import JsonObject, canonical_json
from flycore.runners.one_shot import ProcessJsonJob
from flycore.runners.output import EventBudget, OnEvent, SidecarEvent

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams

MOST_WORDS = 4_000
"""Characters of a server's question; a longer one is not shown."""
MOST_SCHEMA_BYTES = 32_768
MOST_ADDRESS = 2_000
MOST_LOG_BYTES = 16_384
"""The size of a log message, as canonical JSON."""
TOO_LARGE = "a message that is too large to be handed on"
MOST_ASKED = 20
"""Questions of a server during one call. Further ones are cancelled."""
ACCEPT, DECLINE, CANCEL = "accept", "decline", "cancel"
WAITS = "waiting for a person: the server asks a question"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of a server, in its own words. It asks for values that fit `schema` or, where that is None,
    to open `address`."""

    words: str
    schema: JsonObject | None = None
    address: str = ""
    call_ids: tuple[str, ...] = ()
    """The calls that it may belong to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server gets for its question."""

    action: str
    """ACCEPT, DECLINE or CANCEL."""
    content: JsonObject | None = None
    why: str = ""
    """Why nobody answered, as a sentence without its subject; empty where a person did."""


AskPerson = Callable[[Question], Awaitable[Reply]]
"""Asks a person, and waits for the answer. Cancelling it withdraws the question."""


async def nobody(question: Question) -> Reply:
    """Answer for a kernel that has no person to ask."""
    return Reply(action=CANCEL, why="was asked of nobody")


class RunningCall:
    """A call that a server works on, whose time can stand still."""

    def __init__(self, job: ProcessJsonJob, on_event: OnEvent | None) -> None:
        self.job = job
        self.limit = anyio.CancelScope()
        """Its time limit, once that has begun."""
        self.on_event = on_event
        self.budget = EventBudget()
        self.ended = anyio.Event()
        self.asked = 0
        """How many questions it has had."""
        self.unanswered: list[str] = []
        """For each question that nobody answered, why."""
        self.waited_s = 0.0
        """How long its time stood still."""
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the call's time stand still while the block runs."""
        since = anyio.current_time()
        if not self._pauses:
            self._since, self._left = since, self.limit.deadline - since
            self.limit.deadline = float("inf")
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                now = anyio.current_time()
                self.waited_s += now - self._since
                self.limit.deadline = now + self._left

    def extend(self, deadline: float) -> None:
        """Let the call last until then at least, where its time does not stand still."""
        self.limit.deadline = max(self.limit.deadline, deadline)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning that questions were not answered, where some were not."""
        return tuple(f"a question of the server {why}" for why in dict.fromkeys(self.unanswered))


_CALL: ContextVar[RunningCall | None] = ContextVar(
    "the call that a server's question belongs to", default=None
)


class InputRequests:
    """The questions of one server, and the calls that it works on."""

    def __init__(self, ask_person: AskPerson) -> None:
        self._ask_person = ask_person
        self._running: list[RunningCall] = []

    @contextmanager
    def enter(self, call: RunningCall) -> Iterator[None]:
        """Count the call as running while the block runs."""
        self._running.append(call)
        try:
            yield
        finally:
            self._running.remove(call)
            call.ended.set()

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Ask a person what the server asks, and return the answer; the SDK calls this."""
        from mcp_types import ElicitResult

        own = _CALL.get()
        calls = tuple(self._running) if own is None else (own,)
        reply = await self._reply(_question(params, calls), calls)
        if reply.why:
            for call in calls:
                call.unanswered.append(reply.why)
        return ElicitResult.model_validate({"action": reply.action, "content": reply.content})

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        """Hand a log message on to the call that the server works on; the SDK calls this.

        A message does not say which call it belongs to. So it is dropped where the server works on several,
        whose callers may be different ones.
        """
        call = self._running[0] if len(self._running) == 1 else None
        if call is None or call.on_event is None:
            return
        message: JsonObject = params.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"meta"}
        )
        try:
            fits = len(canonical_json(message)) <= MOST_LOG_BYTES
        except (ValueError, TypeError, RecursionError):
            fits = False
        if call.budget.admits():
            call.on_event(SidecarEvent(message="", log=message if fits else {**message, "data": TOO_LARGE}))

    async def _reply(self, question: Question | str, calls: tuple[RunningCall, ...]) -> Reply:
        if not calls:
            return Reply(action=CANCEL, why="came outside of a call")
        if isinstance(question, str):
            return Reply(action=CANCEL, why=question)
        if any(call.asked >= MOST_ASKED for call in calls):
            return Reply(action=CANCEL, why=f"was not asked: it asked more than {MOST_ASKED} during the call")
        with ExitStack() as pauses:
            for call in calls:
                call.asked += 1
                pauses.enter_context(call.paused())
                if call.on_event is not None:
                    call.on_event(SidecarEvent(message=WAITS))
            reply = await _until_ended(calls, lambda: self._ask_person(question))
        return reply or Reply(action=CANCEL, why="was withdrawn, because the call ended")


@contextmanager
def belonging_to(call: RunningCall) -> Iterator[None]:
    """Let the questions that are answered in the block belong to this call alone."""
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)


async def _until_ended(calls: tuple[RunningCall, ...], ask: Callable[[], Awaitable[T]]) -> T | None:
    """Return what `ask` gives; None where all the calls ended before."""
    found: T | None = None
    async with anyio.create_task_group() as group:

        async def run() -> None:
            nonlocal found
            found = await ask()
            group.cancel_scope.cancel()

        group.start_soon(run)
        for call in calls:
            await call.ended.wait()
        group.cancel_scope.cancel()
    return found


def _question(params: ElicitRequestParams, calls: tuple[RunningCall, ...]) -> Question | str:
    """Return the question, or why it is not asked, as a sentence without its subject."""
    call_ids = tuple(call.job.call_id for call in calls)
    if len(params.message) > MOST_WORDS:
        return f"was not asked: it has more than {MOST_WORDS:,} characters"
    if params.mode == "url":
        # Such a question sends a person to a page, where a secret is not seen by flytui and the agent.
        if len(params.url) > MOST_ADDRESS or not params.url.startswith(("https://", "http://")):
            return "was not asked: it names no address of the web"
        return Question(words=params.message, address=params.url, call_ids=call_ids)
    schema: JsonObject = params.requested_schema
    try:
        size = len(canonical_json(schema))
    except (ValueError, TypeError, RecursionError):
        return "was not asked: its form is not JSON"
    if size > MOST_SCHEMA_BYTES:
        return f"was not asked: its form has more than {MOST_SCHEMA_BYTES:,} bytes"
    if schema.get("type") != "object" or check_schema(schema):
        return "was not asked: its form is no usable schema of an object"
    return Question(words=params.message, schema=schema, call_ids=call_ids)
