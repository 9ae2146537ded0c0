"""Questions: decisions of a person that are not about one call, in one list with one way to answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.catalog.schemas import check_input
from flycore.kernel.bus import Recorder
from flycore.model.approval import Outcome
from flycore.model.clock import Clock
from flycore.model.enums import QuestionKind
from flycore.model.errors import AuditUnwritable
from flycore.model.events import EventClass
from flycore.model.json import JsonObject, canonical_json
from flycore.model.large_values import run_aside
from flycore.model.question import Option, Question, TrustItem
from flycore.policy.looser_rules import LooserRules, rule_text

MOST_TEXT = 1_000
"""The most characters of text with an answer."""
MOST_CONTENT = 100_000
"""The most characters of values for a form, as canonical JSON."""
TRUST = "trust"
LEAVE = "leave"
ACCEPT = "accept"
MOST_RULES = 50
"""The most rules in the text of one question."""
DESKTOP_CONTROLLED = "a tool has its hands on the machine: wait until it has ended"
_SELF_RECORDED = (QuestionKind.TRUST, QuestionKind.DRIFT, QuestionKind.PANIC)
"""Kinds of questions whose answers are logged by their source."""


class QuestionSource(Protocol):
    """A source of questions."""

    def questions(self) -> tuple[Question, ...]:
        """Return the waiting questions, in order of arrival."""
        ...

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Carry out an answer. The question is waiting and has that option; `by` names the console in the
        log. For an option with `fills`, `text` is canonical JSON that fits the form."""
        ...


class QuestionEvents:
    """The events about questions that wait and that no longer wait, for the log and for subscribers."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def publish_asked(self, question: Question) -> None:
        """Publish that the question waits. If the log takes no line, the event is published all the same."""
        self._recorder.record(audit_events.QUESTION_ASKED, audit_events.question_asked(question))
        self._recorder.publish(EventClass.APPROVAL, "question.asked", _event_payload(question))

    def publish_withdrawn(self, question: Question, why: str) -> None:
        """Publish that the question no longer waits, although nobody answered it."""
        fields = audit_events.question_withdrawn(question, why)
        self._recorder.record(audit_events.QUESTION_WITHDRAWN, fields)
        self.publish_ended(question)

    def publish_ended(self, question: Question) -> None:
        """Publish that the question no longer waits, whether or not it was answered."""
        self._recorder.publish(EventClass.APPROVAL, "question.answered", _event_payload(question))


class QuestionRegistry:
    """The questions of one kernel, from all sources."""

    def __init__(self, audit: AuditLog, events: QuestionEvents, sources: tuple[QuestionSource, ...]) -> None:
        self._audit = audit
        self._events = events
        self._sources = sources

    def all(self) -> tuple[Question, ...]:
        """Return the waiting questions: the emergency stop first, the others in order of arrival."""
        found = [question for source in self._sources for question in source.questions()]
        return tuple(sorted(found, key=lambda item: (item.kind is not QuestionKind.PANIC, item.asked_at)))

    async def answer(
        self, question_id: str, option: str, text: str, by: str, content: JsonObject | None = None
    ) -> Outcome:
        """Carry out a person's answer; `by` names the console in the log. Refuse an invalid answer."""
        for source in self._sources:
            for question in source.questions():
                if question.id != question_id:
                    continue
                if why_not := await _invalid(question, option, text, content):
                    return Outcome(accepted=False, why_not=why_not)
                filled = text if content is None else canonical_json(content)
                return await self._carry_out(source, question, option, filled, by)
        return Outcome(accepted=False, why_not="this question is no longer waiting")

    async def _carry_out(
        self, source: QuestionSource, question: Question, option: str, text: str, by: str
    ) -> Outcome:
        # Logged before it is carried out: an answer that the log does not have must have no effect.
        if question.kind not in _SELF_RECORDED:
            fields = audit_events.question_answered(question, option, text, by=by)
            try:
                self._audit.append(audit_events.QUESTION_ANSWERED, fields, sync=True)
            except AuditUnwritable as error:
                return Outcome(accepted=False, why_not=f"it could not be logged: {error.cause}")
        outcome = await source.answer(question, option, text, by)
        if outcome.accepted:
            self._events.publish_ended(question)
        return outcome


async def _invalid(question: Question, option: str, text: str, content: JsonObject | None) -> str:
    """Return why this is no answer to the question; empty where it is one."""
    chosen = next((item for item in question.options if item.id == option), None)
    if chosen is None:
        return "the question has no such answer"
    if text and not question.free_text:
        return "this question takes no text"
    if len(text) > MOST_TEXT:
        return f"your text is longer than {MOST_TEXT:,} characters"
    if content is None:
        return "this answer needs the values of the form" if chosen.fills else ""
    if not chosen.fills:
        return "this answer takes no values"
    # Here and not in a worker, a pattern of the server's schema could hold the event loop.
    _, found = await run_aside(True, check_input, question.form, content)
    if found:
        return f"the values do not fit: {found[0].pointer or '/'} {found[0].message}"
    if len(canonical_json(content)) > MOST_CONTENT:
        return f"the values have more than {MOST_CONTENT:,} characters"
    return ""


class TrustQuestions:
    """The questions about trust: one for each entry that waits for it."""

    def __init__(
        self,
        clock: Clock,
        pending: Callable[[], tuple[TrustItem, ...]],
        trust: Callable[[tuple[tuple[str, str], ...], str], Awaitable[Outcome]],
    ) -> None:
        self._clock = clock
        self._pending = pending
        self._trust = trust
        self._since: dict[str, float] = {}
        self._put_off: frozenset[str] = frozenset()

    def questions(self) -> tuple[Question, ...]:
        """Return the questions that were not put off. An entry that changes again is another question."""
        items = {f"trust:{item.sidecar}:{item.digest}": item for item in self._pending()}
        now = self._clock.now()
        # Times and put-off marks of questions that are gone are dropped: an entry that comes back asks anew.
        self._since = {key: self._since.get(key, now) for key in items}
        self._put_off &= frozenset(items)
        return tuple(
            _trust_question(key, item, self._since[key])
            for key, item in items.items()
            if key not in self._put_off
        )

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Trust exactly the value that was shown, or put the question off until the next start."""
        if option == LEAVE:
            self._put_off |= {question.id}
            return Outcome(accepted=True)
        return await self._trust(((question.about, question.id.rpartition(":")[2]),), by)


def _trust_question(key: str, item: TrustItem, since: float) -> Question:
    kind = QuestionKind.DRIFT if item.changed else QuestionKind.TRUST
    title = f"{item.sidecar} has changed" if item.changed else f"{item.sidecar} is new"
    return Question(
        id=key,
        kind=kind,
        title=title,
        lines=(*item.lines, f"sha256 {item.digest}"),
        options=(
            Option(id=TRUST, words="trust it: it may run as shown"),
            Option(id=LEAVE, words="not now: it does not run", recommended=True),
        ),
        about=item.sidecar,
        asked_at=since,
    )


class PolicyQuestion:
    """The question about looser rules in the policy files that no console of this kernel wrote."""

    def __init__(
        self,
        clock: Clock,
        waiting: Callable[[], LooserRules],
        accept: Callable[[str, str], Awaitable[Outcome]],
        desktop_controlled: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._waiting = waiting
        self._accept = accept
        self._desktop_controlled = desktop_controlled
        """Whether a tool controls the desktop: it could press keys, so nothing is accepted then."""
        self._key, self._since = "", 0.0

    def questions(self) -> tuple[Question, ...]:
        """Return the question while rules wait. Other rules make another question."""
        waiting = self._waiting()
        if not waiting.key:
            self._key = ""
            return ()
        if waiting.key != self._key:
            self._key, self._since = waiting.key, self._clock.now()
        return (_policy_question(waiting, self._since),)

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Let exactly the rules count that were shown."""
        if self._desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return await self._accept(question.id.rpartition(":")[2], by)


def _policy_question(waiting: LooserRules, since: float) -> Question:
    changes = [("new", rule) for rule in waiting.added] + [("gone", rule) for rule in waiting.removed]
    lines = [f"{word:<8} {rule_text(rule)} · {rule.place}" for word, rule in changes[:MOST_RULES]]
    more = [f"         and {len(changes) - MOST_RULES} more"] if len(changes) > MOST_RULES else []
    notes = (
        "now      these changes do not count: no console of this kernel made them in the policy file",
        "else     undo them in the file to end this question; a kernel that starts later takes the file",
    )
    return Question(
        id=f"policy:{waiting.key}",
        kind=QuestionKind.POLICY,
        title="Your policy lets more through than before",
        lines=(*lines, *more, *notes),
        options=(Option(id=ACCEPT, words="accept: the file counts as it is", recommended=True),),
        asked_at=since,
    )


def _event_payload(question: Question) -> JsonObject:
    payload: JsonObject = {"questionId": question.id, "kind": question.kind.value}
    return payload | ({"about": question.about} if question.about else {})
