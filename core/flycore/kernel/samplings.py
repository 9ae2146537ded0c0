"""The requests of MCP servers to a model: a person sees each first, and then the calling client gets it.

Only a client that said, with its call, that it has a model is asked, and only for that call. What it answers
goes to the server as it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import msgspec

from flycore.audit.events import SAMPLING_ENDED, sampling_ended
from flycore.kernel.bus import Recorder
from flycore.kernel.server_questions import ServerQuestions
from flycore.model.approval import Outcome
from flycore.model.call import CallRequest, Progress
from flycore.model.enums import Phase
from flycore.model.json import JsonObject, canonical_json
from flycore.pipeline.call import OnProgress
from flycore.runners.mcp.input_requests import ACCEPT, WITHDRAWN
from flycore.runners.mcp.sampling import MOST_ANSWER_BYTES, Sampled, Sampling
from flycore.sandbox.secret_masks import Masks

ANSWER_S = 300.0
"""How long the client may take for its answer; its own person may be asked, too."""
NO_MODEL = "was not asked: the client of the call takes no such requests"
REFUSED = "was refused by the client of the call, or had no answer there"
LARGE = f"was answered by the client with more than {MOST_ANSWER_BYTES:,} bytes"
LATE = f"was not answered by the client within {ANSWER_S:.0f} s"


class _Taker(msgspec.Struct, frozen=True):
    caller: str
    on_progress: OnProgress


class _Waiting(msgspec.Struct, eq=False):
    caller: str
    sampled: Sampled | None = None
    answered: anyio.Event = msgspec.field(default_factory=anyio.Event)


class Samplings:
    """The requests to models of all MCP servers."""

    def __init__(self, recorder: Recorder, questions: ServerQuestions) -> None:
        self._recorder, self._questions = recorder, questions
        self._takers: dict[str, _Taker] = {}
        self._waiting: dict[str, _Waiting] = {}

    @contextmanager
    def taken_by(self, request: CallRequest, on_progress: OnProgress | None) -> Iterator[None]:
        """Let the caller of that call be asked while the block runs, where it has a model."""
        if request.samples and on_progress is not None:
            self._takers[request.call_id] = _Taker(request.caller.key, on_progress)
        try:
            yield
        finally:
            self._takers.pop(request.call_id, None)

    async def hand_on(self, server: str, masks: Masks, asked: Sampling) -> Sampled:
        """Ask a person and then the client of the call, and return its answer."""
        if asked.call_id not in self._takers:
            return Sampled(why=NO_MODEL)
        if masks.json(asked.params) != asked.params:
            return Sampled(why="was not asked: it has a secret of its entry in it")
        reply = await self._questions.ask_about_sampling(server, asked)
        if reply.action != ACCEPT:
            return Sampled(why=reply.why)
        taker = self._takers.get(asked.call_id)
        if taker is None:
            return Sampled(why=NO_MODEL)
        sampled = Sampled(why=WITHDRAWN)
        try:
            sampled = await self._ask_client(taker, asked)
        finally:
            self._log(server, asked, sampled)
        return sampled

    def answer(self, sampling_id: str, result: JsonObject | None, caller: str) -> Outcome:
        """Give the server that answer of the caller's model; None refuses."""
        waiting = self._waiting.get(sampling_id)
        if waiting is None or waiting.sampled is not None or waiting.caller != caller:
            return Outcome(accepted=False, why_not="no such request waits for an answer of this client")
        fits = result is None or len(canonical_json(result)) <= MOST_ANSWER_BYTES
        why = "" if result is not None and fits else REFUSED if fits else LARGE
        waiting.sampled = Sampled(result=None if why else result, why=why)
        waiting.answered.set()
        return Outcome(accepted=True)

    async def _ask_client(self, taker: _Taker, asked: Sampling) -> Sampled:
        sampling_id = secrets.token_hex(16)
        waiting = self._waiting[sampling_id] = _Waiting(taker.caller)
        sampling: JsonObject = {"id": sampling_id, "params": asked.params}
        try:
            taker.on_progress(Progress(call_id=asked.call_id, phase=Phase.RUNNING, sampling=sampling))
            with anyio.move_on_after(ANSWER_S):
                await waiting.answered.wait()
        finally:
            del self._waiting[sampling_id]
        return waiting.sampled or Sampled(why=LATE)

    def _log(self, server: str, asked: Sampling, sampled: Sampled) -> None:
        answer = "" if sampled.result is None else canonical_json(sampled.result)
        fields = sampling_ended(server, asked.call_id, canonical_json(asked.params), answer, sampled.why)
        self._recorder.record(SAMPLING_ENDED, fields)
