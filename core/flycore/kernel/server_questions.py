"""The questions of MCP servers to a person: what a server asks for during a call, in its own words.

A person gets the server's words marked as such and its form, and the answer goes to the server alone. The
agent learns from flytui only that a question was not answered. No secret of the project is filled in. Of what
a server asks of a model, the person sees all and says whether the client of the call gets it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable

import anyio
import msgspec

from flycore.kernel.questions import DESKTOP_CONTROLLED, QuestionEvents
from flycore.model.approval import Outcome
from flycore.model.call import Activity
from flycore.model.clock import Clock
from flycore.model.enums import QuestionKind
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict
from flycore.model.question import Option, Question
from flycore.runners.mcp.input_requests import ACCEPT, CANCEL, DECLINE, Reply
from flycore.runners.mcp.input_requests import Question as Asked
from flycore.runners.mcp.sampling import Sampling
from flycore.sandbox.secret_masks import Masks

MOST_WAITING = 10
"""Questions of servers that wait at once. Further ones are cancelled."""
MOST_FIELDS = 50
"""Fields of a form that its question lists in words."""
SAYS = "server says: "
"""What each line of a server's words begins with."""
SAMPLING_NOTE = "note    the model's answer goes to the server; you do not see it first"
NOTE = "note    your answer goes to the server, which may hand it to the agent: write no password and no key"
_DECLINE = Option(id=DECLINE, words="decline: the server learns that you refused", recommended=True)
_CANCEL = Option(id=CANCEL, words="cancel: the server learns that you gave no answer")
_FILL = Option(id=ACCEPT, words="answer: fill in its form", fills=True)
_CONFIRM = Option(id=ACCEPT, words="accept: the server learns that you agree")
_HAND_ON = Option(id=ACCEPT, words="hand it on: the model of the client that calls the server answers it")
_OPEN = Option(id=ACCEPT, words="accept: you open that address yourself")


class _Waiting(msgspec.Struct, eq=False):
    question: Question
    reply: Reply | None = None
    decided: anyio.Event = msgspec.field(default_factory=anyio.Event)


class ServerQuestions:
    """The waiting questions of all MCP servers."""

    def __init__(
        self,
        clock: Clock,
        events: QuestionEvents,
        approver_within: Callable[[int], Awaitable[bool]],
        timeout_ms: Callable[[], int],
        find_call: Callable[[str], Activity | None],
        desktop_controlled: Callable[[], bool],
    ) -> None:
        """`timeout_ms` says how long a question waits for its answer."""
        self._clock = clock
        self._events = events
        self._approver_within = approver_within
        self._timeout_ms = timeout_ms
        self._find_call = find_call
        self._desktop_controlled = desktop_controlled
        self._waiting: dict[str, _Waiting] = {}

    def questions(self) -> tuple[Question, ...]:
        """Return the questions that wait for a person, in order of arrival."""
        return tuple(waiting.question for waiting in self._waiting.values() if waiting.reply is None)

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Give the server a person's answer. `text` is the canonical JSON of the values for its form."""
        waiting = self._waiting.get(question.id)
        if waiting is None or waiting.reply is not None:
            return Outcome(accepted=False, why_not="this question is no longer waiting")
        if option == ACCEPT and self._desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        content: Json = None
        if option == ACCEPT and question.form:
            try:
                content = read_strict(text.encode()) if text else {}
            except StrictJsonError as problem:
                return Outcome(accepted=False, why_not=f"the values are not JSON: {problem.reason}")
        waiting.reply = Reply(action=option, content=content if isinstance(content, dict) else None)
        waiting.decided.set()
        return Outcome(accepted=True)

    async def ask(self, server: str, masks: Masks, asked: Asked) -> Reply:
        """Ask a person what the server of that entry asks, and wait for the answer, for a bounded time."""
        if masks.text(asked.words) != asked.words or masks.json(asked.schema) != asked.schema:
            return Reply(action=CANCEL, why="was not asked: it has a secret of its entry in it")
        return await self._wait_for(self._question(server, asked))

    async def ask_about_sampling(self, server: str, asked: Sampling) -> Reply:
        """Ask a person whether the client of the call gets what the server asks of a model."""
        return await self._wait_for(self._sampling_question(server, asked))

    async def _wait_for(self, question: Question) -> Reply:
        if len(self._waiting) >= MOST_WAITING:
            return Reply(action=CANCEL, why=f"was not asked: {MOST_WAITING} others wait for their answer")
        # No console opens for a question: who called is not at the keyboard of one.
        if not await self._approver_within(0):
            return Reply(
                action=CANCEL, why="was cancelled, because no console is open in which a person answers"
            )
        waiting = self._waiting[question.id] = _Waiting(question)
        self._events.publish_asked(question)
        seconds = self._timeout_ms() / 1000
        why = "its call ended, or its server took it back"
        try:
            with anyio.move_on_after(seconds):
                await waiting.decided.wait()
            why = f"nobody answered it within {seconds:.0f} s"
        finally:
            del self._waiting[question.id]
            if waiting.reply is None:
                self._events.publish_withdrawn(question, why)
        return waiting.reply or Reply(action=CANCEL, why=f"was cancelled, because {why}")

    def _heading(self, server: str, call_ids: tuple[str, ...]) -> list[str]:
        """Return the lines that say which server asks, and during which call."""
        calls = [call for call in map(self._find_call, call_ids) if call is not None]
        during = [f"{call.tool}, called by {call.caller}" for call in calls]
        alone = len(during) == 1
        return [
            f"server  {server}, an MCP server of this project",
            *(f"{'during' if alone else 'maybe'}  {words}" for words in during),
        ]

    def _sampling_question(self, server: str, asked: Sampling) -> Question:
        return Question(
            id=f"server-{secrets.token_hex(8)}",
            kind=QuestionKind.SERVER,
            title=f"the MCP server {server} asks a model something",
            lines=(*self._heading(server, (asked.call_id,)), *_sampling_lines(asked.params), SAMPLING_NOTE),
            options=(_HAND_ON, _DECLINE),
            about=server,
            asked_at=self._clock.now(),
        )

    def _question(self, server: str, asked: Asked) -> Question:
        lines = [
            *self._heading(server, asked.call_ids),
            *(f"{SAYS}{row}" for row in asked.words.split("\n")),
            *([f"address {asked.address}"] if asked.address else _field_lines(asked.schema or {})),
            NOTE,
        ]
        has_fields = bool((asked.schema or {}).get("properties"))
        accept = _OPEN if asked.address else _FILL if has_fields else _CONFIRM
        return Question(
            id=f"server-{secrets.token_hex(8)}",
            kind=QuestionKind.SERVER,
            title=f"the MCP server {server} asks you something",
            lines=tuple(lines),
            options=(accept, _DECLINE, _CANCEL),
            form=asked.schema or {},
            about=server,
            asked_at=self._clock.now(),
        )


def _sampling_lines(params: JsonObject) -> list[str]:
    """Return all that a model would be asked: the texts row by row, and the rest as JSON."""
    lines: list[str] = []
    prompt, messages = params.get("systemPrompt"), params.get("messages")
    if isinstance(prompt, str):
        lines += ["system  the system prompt:", *(f"{SAYS}{row}" for row in prompt.split("\n"))]
    for number, message in enumerate(messages if isinstance(messages, list) else (), 1):
        said = message if isinstance(message, dict) else {}
        content = said.get("content")
        blocks = content if isinstance(content, list) else [content]
        for block in blocks:
            lines += [f"message {number}, by the {said.get('role')}:", *_block_lines(block)]
    rest = {key: value for key, value in params.items() if key not in ("systemPrompt", "messages")}
    return lines + [f"asks    {key} = {json.dumps(value, ensure_ascii=False)}" for key, value in rest.items()]


def _block_lines(block: Json) -> list[str]:
    known = block if isinstance(block, dict) else {}
    more = {key: value for key, value in known.items() if key not in ("type", "text")}
    rows = [f"{SAYS}{row}" for row in str(known.get("text")).split("\n")]
    return rows + ([f"with    {json.dumps(more, ensure_ascii=False)}"] if more else [])


def _field_lines(schema: JsonObject) -> list[str]:
    """Return what the form asks for, one line for each field."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return ["asks    for no values, only for yes or no"]
    needed = required if isinstance(required, list) else []
    lines = [_field_line(name, rule, name in needed) for name, rule in properties.items()]
    more = [f"        and {len(lines) - MOST_FIELDS} more fields"] if len(lines) > MOST_FIELDS else []
    return [*lines[:MOST_FIELDS], *more]


def _field_line(name: str, rule: Json, required: bool) -> str:
    about = rule if isinstance(rule, dict) else {}
    kind, words = about.get("type"), about.get("description") or about.get("title")
    notes = [str(kind)] if isinstance(kind, str) else []
    notes += ["required"] if required else []
    says = f": {words}" if isinstance(words, str) else ""
    return f"asks    {name} ({', '.join(notes)}){says}" if notes else f"asks    {name}{says}"
