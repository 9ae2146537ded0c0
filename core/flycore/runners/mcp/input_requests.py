"""What an MCP server asks during a call, of a person or of a model, and the calls that wait for that.

While a person decides, the time of the calls that the question may belong to stands still. A server of the
older protocol does not say which call its question belongs to; then it may be each that runs. The question
is withdrawn once all of these have ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

import anyio
import msgspec

from flycore.catalog.schemas import check_schema
from flycore.model.json import JsonObject, canonical_json
from flycore.model.large_values import run_aside
from flycore.runners.mcp.sampling import NO_MESSAGE, HandOn, Sampled, message_of, refusal, sampling_of
from flycore.runners.one_shot import ProcessJsonJob
from flycore.runners.output import EventBudget, OnEvent, SidecarEvent

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext, SamplingFnT
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        LoggingMessageNotificationParams,
    )

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
WAITS_FOR_MODEL = "waiting for a person: the server asks your model something"
QUESTION, REQUEST = "a question of the server", "a request of the server to a model"
WITHDRAWN = "was withdrawn, because the call ended"
SEVERAL = "was not asked: the server works on several calls, and does not say for which it asks"

A = TypeVar("A")
T = TypeVar("T")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a server, in its own words. It asks for values that fit `schema` or, where that is None,
    to open `address`."""

    words: str
    schema: JsonObject | None = None
    address: str = ""
    call_ids: tuple[str, ...] = ()
    """The calls that it may belong to."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
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
        """For each question that nobody answered, a sentence that says why."""
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
        return tuple(dict.fromkeys(self.unanswered))


_CALL: ContextVar[RunningCall | None] = ContextVar(
    "the call that a server's question belongs to", default=None
)


class InputRequests:
    """The questions of one server, and the calls that it works on."""

    def __init__(self, ask_person: AskPerson, hand_on: HandOn | None = None) -> None:
        """`hand_on` is None where the server may ask nothing of a model."""
        self._ask_person, self._hand_on = ask_person, hand_on
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
        # Aside: whether the form is usable depends on the server's own schema.
        question = await run_aside(True, _question, params, calls)
        asked = await self._wait(question, self._ask_person, calls, WAITS)
        reply = Reply(action=CANCEL, why=asked) if isinstance(asked, str) else asked
        if reply.why:
            _note(calls, f"{QUESTION} {reply.why}")
        return ElicitResult.model_validate({"action": reply.action, "content": reply.content})

    @property
    def sampler(self) -> SamplingFnT | None:
        """What the SDK calls with a request to a model; None where the server may make none."""
        return None if self._hand_on is None else self._sample

    async def _sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Ask a person, and then the client whose call it is, and return its answer."""
        own = _CALL.get()
        calls = tuple(self._running) if own is None else (own,)
        hand_on = self._hand_on
        if hand_on is None or len(calls) > 1:
            sampled: Sampled | str = SEVERAL
        else:
            asked = sampling_of(params, calls[0].job.call_id if calls else "")
            sampled = await self._wait(asked, hand_on, calls, WAITS_FOR_MODEL)
        if isinstance(sampled, str):
            sampled = Sampled(why=sampled)
        message = None if sampled.result is None else message_of(sampled.result)
        if message is not None:
            return message
        why = sampled.why if sampled.result is None else NO_MESSAGE
        if why:
            _note(calls, f"{REQUEST} {why}")
        return refusal(why)

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

    async def _wait(
        self, asked: A | str, ask: Callable[[A], Awaitable[T]], calls: tuple[RunningCall, ...], waits: str
    ) -> T | str:
        """Return what `ask` gives while the calls' time stands still, or why nobody was asked."""
        if not calls:
            return "came outside of a call"
        if isinstance(asked, str):
            return asked
        if any(call.asked >= MOST_ASKED for call in calls):
            return f"was not asked: the server asked more than {MOST_ASKED} times during the call"
        with ExitStack() as pauses:
            for call in calls:
                call.asked += 1
                pauses.enter_context(call.paused())
                if call.on_event is not None:
                    call.on_event(SidecarEvent(message=waits))
            reply = await _until_ended(calls, lambda: ask(asked))
        return WITHDRAWN if reply is None else reply


@contextmanager
def belonging_to(call: RunningCall) -> Iterator[None]:
    """Let the questions that are answered in the block belong to this call alone."""
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)


def _note(calls: tuple[RunningCall, ...], why: str) -> None:
    for call in calls:
        call.unanswered.append(why)


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
