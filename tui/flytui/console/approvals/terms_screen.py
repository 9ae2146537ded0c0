"""The forms for an answer that concerns more than one call: a lease, or a rule.

A form has fields, then a summary that is armed like a new card. The fields decide nothing. The summary has no
text field, has to be read to its end, and is approved by `a` and the letter or code of the request's risk.
Where the kernel refuses the answer, the form stays open and says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flycore.approval.allowance_offer import AllowanceOffer, pinned_condition
from flycore.approval.leases import MAX_CALLS, lease_durations, lease_fault, lease_weakness
from flycore.model.approval import (
    Answer,
    ApprovalRequest,
    LeaseTerms,
    Outcome,
    RuleTerms,
)
from flycore.model.caller import UNIDENTIFIED
from flycore.model.enums import Choice, Decision, LeaseScope, Risk
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flycore.policy.conditions import MAX_PATTERN
from flycore.policy.rule_file import rule_fault
from flytui.console.approvals.card_lines import readiness
from flytui.console.approvals.terms_form import (
    TermsField,
    TermsForm,
    condition_lines,
    form_after_key,
    form_lines,
    pin_fields,
)
from flytui.console.screens.armed import ArmedScreen
from flytui.console.screens.arming import ArmingState, KeyEffect
from flytui.console.state import ConsoleState
from flytui.console.widgets.lines import LineBar
from flytui.text.caller import caller_line, short_folder
from flytui.text.labels import age, plural
from flytui.text.lines import StyledLine, StyledText, Tone, keys_line, line, span, truncated, wrapped

SendAnswer = Callable[[Answer], Awaitable[Outcome]]
"""Sends an answer for the request of the form, and gives the kernel's outcome. Raises FlyError where the
kernel is gone."""
SendEditedInput = Callable[[JsonObject], Awaitable[Outcome]]
"""The same for an input that a person edited."""
FIRST_CALLS = 10
"""The number of calls that the lease form offers first."""
MAX_REASON_CHARACTERS = 200
DECISIONS = (Decision.ALLOW, Decision.DENY)
DAYS = (1, 7, 30, 0)
"""Days from today until a rule expires, in the order of `_DAY_WORDS`; 0 is never."""
_DAY_WORDS = ("tomorrow", "in a week", "in a month", "never")
_GROUP_NOTE = "While the lease lasts, other callers' calls wait for the group {}."


class TermsScreen(ArmedScreen[Answer], ModalScreen[Answer]):
    """A form and its summary in one box. The screen gives the answer that was approved on the summary and
    that the kernel accepted, or None when the person goes back to the card."""

    closes_for_view = False
    takes_typeahead = True
    has_fields = True
    TITLES: ClassVar[tuple[str, str]]
    """The titles of the form and of the summary."""
    APPROVE_LABEL: ClassVar[str]
    """What `a` does on the summary."""
    SUMMARY_FIRST: ClassVar[bool] = False
    """Whether the summary of the first choices is shown first, and `e` changes them."""

    def __init__(
        self, state: ConsoleState, request: ApprovalRequest, form: TermsForm, send: SendAnswer
    ) -> None:
        super().__init__(state, self.TITLES[0], _summary_arming(request), card_id="standing")
        self._request = request
        self._form = form
        self._send_answer = send
        self._on_summary = False
        self._form_shown = not self.SUMMARY_FIRST
        self._problem = ""
        self._text_input = self.text_input()
        self._foot = LineBar(self._key_lines, id="standing-keys")

    def compose(self) -> ComposeResult:
        """Yield the box that form and summary share, with the text field and the key line."""
        with Vertical(classes="box form"):
            yield self._card
            if self._text_input is not None:
                yield self._text_input
            yield self._foot

    def on_mount(self) -> None:
        """Show the summary, where it comes first and nothing is missing."""
        if self.SUMMARY_FIRST and not self.missing():
            self.to_summary()

    def text_input(self) -> Input | None:
        """The form's one text field, below its other fields, or None. The summary does not show it."""
        return None

    @property
    def typing(self) -> bool:
        """Whether keys go to the text field."""
        return self._text_input is not None and self._text_input.has_focus

    def answer(self) -> Answer:
        """The answer that the fields make."""
        raise NotImplementedError

    def summary(self, width: int) -> Sequence[StyledLine]:
        """The lines that describe the whole answer in plain words."""
        raise NotImplementedError

    def missing(self) -> str:
        """What the form still needs before it can show a summary; `""` where it needs nothing."""
        return ""

    def _belongs_to_field(self, key: str) -> bool:
        """Whether the key goes to the text field, which all keys do that do not leave it."""
        filling = not self._on_summary and not self._sending
        return filling and self.typing and key not in ("up", "shift+tab", "tab", "escape")

    def _handle_key(self, key: str, now: float) -> None:
        """Handle a key of the form, or of the summary."""
        if self._on_summary:
            self._decide(self._state.keys.meant("card", key), now)
        elif self._move_input_focus(key):
            self._card.rebuild()
        else:
            self._choose(key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show the summary, as Enter does anywhere in the form. It decides nothing."""
        event.stop()
        self.to_summary()
        self._redraw()

    def on_descendant_focus(self) -> None:
        """Draw the fields without a cursor, because a click may have moved it into the text field."""
        self._card.rebuild()

    def on_descendant_blur(self) -> None:
        """Draw the fields with the cursor, which has left the text field."""
        self._card.rebuild()

    def to_summary(self) -> None:
        """Show the summary from its first line, not armed. Where something is missing, stay and say what."""
        self._problem = self.missing()
        if not self._problem:
            self._on_summary = True
            self._show_line(False)
            self._card.show_question(_summary_arming(self._request))
        self._card.rebuild()

    def to_form(self) -> None:
        """Go back from the summary to the fields. Nothing is decided."""
        self._on_summary = False
        self._form_shown = True
        self._show_line(True)
        self._card.rebuild()

    def _show_line(self, on: bool) -> None:
        if self._text_input is not None:
            self._text_input.display = on
            self.set_focus(None)

    def _move_input_focus(self, key: str) -> bool:
        """Move the focus into or out of the text field, and return whether it moved. Up and shift-tab leave
        the field; tab, and down from the last field, enter it."""
        if self._text_input is None:
            return False
        if self.typing:
            if key == "escape":
                return False
            self.set_focus(None)
            return True
        if key == "tab" or (key == "down" and self._form.cursor == len(self._form.fields) - 1):
            self._text_input.focus()
            return True
        return False

    def _choose(self, key: str) -> None:
        if key == "escape":
            self.dismiss(None)
        elif key == "enter":
            self.to_summary()
        elif (form := form_after_key(self._form, key)) is not None:
            self._form, self._problem = form, ""
            self._card.rebuild()
            self._reveal_cursor()

    def _decide(self, key: str, now: float) -> None:
        # Asked before the press, which closes the window: Escape that closes it must not leave the summary.
        was_open = self._card.arming.confirm_open(now)
        if self._card.press(key, now) is KeyEffect.APPROVED:
            self._start_sending(self._send(self.answer()))
        elif key == "escape" and not was_open and not self._form_shown:
            self.dismiss(None)
        elif key == "e" or (key == "escape" and not was_open):
            self.to_form()
        else:
            self._scroll(key)

    async def _send(self, answer: Answer) -> None:
        """Send the answer. The form closes where the kernel accepts it, and shows the reason where it does
        not."""
        try:
            outcome = await self._send_answer(answer)
        except FlyError as error:
            outcome = Outcome(accepted=False, why_not=str(error))
        if outcome.accepted:
            self.dismiss(answer)
            return
        self._problem = f"not done: {outcome.why_not or 'refused'}"
        self.to_form()

    def _reveal_cursor(self) -> None:
        """Scroll so that the whole field under the cursor is on screen."""
        _, first, last = form_lines(self._form, self._card.built_for)
        head = len(self._form_heading(self._card.built_for))
        top, height = self._card.scroll_offset.y, self._card.scrollable_content_region.height
        if head + first < top:
            self._card.scroll_to(y=0 if self._form.cursor == 0 else head + first, animate=False)
        elif head + last >= top + height:
            self._card.scroll_to(y=head + last - height + 1, animate=False)

    def _form_heading(self, width: int) -> list[StyledLine]:
        return [*wrapped([line(span(self.TITLES[0], Tone.STRONG))], width), ()]

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        if not self._on_summary:
            return [*self._form_heading(width), *form_lines(self._form, width, active=not self.typing)[0]]
        return [*wrapped([line(span(self.TITLES[1], Tone.STRONG))], width), (), *self.summary(width)]

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        now, arming = self._state.clock(), self._card.arming
        if self._sending:
            return [line(span("sending the answer…", Tone.ACCENT))]
        if not self._on_summary:
            pairs = [("↑↓", "field"), ("←→ PgUp PgDn space", "change"), ("Enter", "summary"), ("Esc", "back")]
            problem_lines = wrapped([line(span(self._problem, Tone.WARN))], width) if self._problem else []
            return [*problem_lines, *wrapped([keys_line(pairs)], width)]
        if arming.confirm_open(now):
            words = "type " if self._request.risk is Risk.CRITICAL else "press "
            letter = span(f" {self._request.letter} ", Tone.ALARM)
            typed = f" {arming.typed}" if arming.typed else ""
            return [line(span(words, Tone.STRONG), letter, span(f"{typed} to {self.APPROVE_LABEL}"))]
        labels = self._state.keys.label
        pairs = [
            (labels("card.approve"), self.APPROVE_LABEL),
            (labels("card.edit"), "change"),
            ("Esc", "back"),
        ]
        return wrapped([line(readiness(arming, now)), keys_line(pairs)], width)


def _summary_arming(request: ApprovalRequest) -> ArmingState:
    """The arming of a summary, which has to be read to its end whatever the risk: it permits several
    calls."""
    return ArmingState(request.risk, request.letter, read_whole=True)


class LeaseScreen(TermsScreen):
    """The form of a lease: how long, how many calls, of what, with which input. It offers a group, a host or
    the end of the caller's process only where the request has one."""

    TITLES = ("Allow for a while, for the same caller", "To be allowed for a while")
    APPROVE_LABEL = "allow this"
    SUMMARY_FIRST = True

    def __init__(
        self,
        state: ConsoleState,
        request: ApprovalRequest,
        send: SendAnswer,
        offer: AllowanceOffer | None = None,
    ) -> None:
        """Build the form. Where there is an offer, its terms are chosen first."""
        self._offer = offer
        self._durations = lease_durations(request)
        self._scopes = (
            LeaseScope.TOOL,
            *((LeaseScope.GROUP,) if request.group else ()),
            *((LeaseScope.HOST,) if request.host else ()),
            *((LeaseScope.FOLDER,) if request.folder else ()),
            LeaseScope.INPUT,
        )
        durations = tuple(
            f"{minutes} min" if minutes else "this session of the caller" for minutes in self._durations
        )
        calls = tuple(f"at most {number}" for number in range(1, MAX_CALLS + 1))
        fields = (
            TermsField("minutes", "For", durations),
            TermsField("calls", "Calls", calls, FIRST_CALLS - 1, stride=10),
            TermsField("scope", "Of", _scope_words(request, self._scopes)),
            *pin_fields(request),
        )
        if offer is not None:
            fields = tuple(self._offered(field, offer.terms) for field in fields)
        super().__init__(state, request, TermsForm(fields), send)

    def _offered(self, field: TermsField, terms: LeaseTerms) -> TermsField:
        """The field with the option that the offer takes."""
        if field.pin is not None:
            properties = (terms.condition or {}).get("properties")
            return msgspec.structs.replace(
                field, at=int(isinstance(properties, dict) and field.pin in properties)
            )
        options = {
            "minutes": self._durations.index(terms.minutes),
            "calls": terms.calls - 1,
            "scope": self._scopes.index(terms.scope),
        }
        return msgspec.structs.replace(field, at=options[field.id])

    @property
    def terms(self) -> LeaseTerms:
        """The terms of the lease that the fields make."""
        form = self._form
        return LeaseTerms(
            minutes=self._durations[form.option_index("minutes")],
            calls=form.option_index("calls") + 1,
            scope=self._scopes[form.option_index("scope")],
            condition=pinned_condition(self._request, form.pinned),
        )

    def answer(self) -> Answer:
        """An answer that approves the lease."""
        return Answer(choice=Choice.LEASE, lease=self.terms)

    def missing(self) -> str:
        """Why the kernel would refuse these terms; `""` where it would not."""
        return lease_fault(self._request, self.terms)

    def summary(self, width: int) -> Sequence[StyledLine]:
        """The lines that say what the lease covers, for whom, how long, and what ends it early."""
        request, terms = self._request, self.terms
        until = plural(terms.minutes, "minute") if terms.minutes else "until the caller's process has ended"
        of = {
            LeaseScope.TOOL: request.tool,
            LeaseScope.GROUP: f"every tool of {request.sidecar} in the group {request.group}",
            LeaseScope.HOST: f"{request.tool}, for addresses of {request.host}",
            LeaseScope.FOLDER: f"{request.tool}, for paths below {request.folder}",
            LeaseScope.INPUT: f"{request.tool}, with exactly this input",
        }[terms.scope]
        facts = [
            line(span("Of        ", Tone.DIM), span(of, Tone.STRONG)),
            line(span("Caller    ", Tone.DIM), StyledText(caller_line(request.caller))),
            line(span("For       ", Tone.DIM), span(f"{until}, at most {plural(terms.calls, 'call')}")),
            *condition_lines(request, self._form.pinned),
        ]
        bound = "any input" if terms.condition is None else "such an input"
        if terms.scope is LeaseScope.INPUT:
            bound = "this input"
        notes = [
            line(span(f"Under this lease, calls by this caller run with {bound}, unasked.", Tone.WARN)),
            *([line(span(_GROUP_NOTE.format(request.group), Tone.DIM))] if request.group else []),
            line(span("It ends earlier when the program, its entry or its level changes.", Tone.DIM)),
            *([line(span(f"Weak: {weak}.", Tone.WARN))] if (weak := lease_weakness(request)) else []),
        ]
        return [*wrapped(facts, width, 10), (), *wrapped(notes, width), *self._covered_lines(width)]

    def _covered_lines(self, width: int) -> list[StyledLine]:
        """The list of what the offered terms would have covered; no lines for other terms."""
        offer = self._offer
        if offer is None or self.terms != offer.terms:
            return []
        count = plural(len(offer.covered), "call")
        rows = [line(span(f"It would have covered these {count} that you approved one by one:", Tone.STRONG))]
        now = self._state.now()
        for ask in offer.covered:
            when = f"{age(now - (ask.decided_at or now))} ago"
            given = ask.request.input_json[:width]
            rows.append(line(span(f"  {when:>7}  ", Tone.DIM), span(ask.request.effect)))
            rows.append(truncated(line(span(f"           {given}", Tone.QUOTE)), width))
        return [(), *wrapped(rows, width, 11)]


def _scope_words(request: ApprovalRequest, scopes: Sequence[LeaseScope]) -> tuple[str, ...]:
    words = {
        LeaseScope.TOOL: "this tool",
        LeaseScope.GROUP: f"group {request.group}",
        LeaseScope.HOST: f"host {request.host}",
        LeaseScope.FOLDER: f"folder {short_folder(request.folder)}",
        LeaseScope.INPUT: "exactly this input",
    }
    return tuple(span(words[scope]).text for scope in scopes)


class RuleScreen(TermsScreen):
    """The form of a rule for the person's own policy file. The first choice of each field is the narrowest:
    this tool, this program, until tomorrow."""

    TITLES = ("Rule for your own policy file", "Rule, to be written")
    APPROVE_LABEL = "write this rule"

    def __init__(self, state: ConsoleState, request: ApprovalRequest, send: SendAnswer) -> None:
        self._tools = _tool_patterns(request.tool)
        self._callers = (*_program_pattern(request), "")
        callers = tuple("any" if not name else "this program" for name in self._callers)
        self._because = Input(id="because", max_length=MAX_REASON_CHARACTERS)
        self._because.placeholder = "because: say why, in a few words"
        fields = (
            TermsField("decision", "Decision", tuple(str(decision) for decision in DECISIONS)),
            TermsField("tool", "Tool", tuple(span(name).text for name in self._tools)),
            TermsField("caller", "Caller", callers),
            TermsField("expires", "Expires", _DAY_WORDS),
            *(() if request.masked else pin_fields(request)),
        )
        super().__init__(state, request, TermsForm(fields), send)

    def text_input(self) -> Input:
        """The field for the reason, which a rule must have."""
        return self._because

    @property
    def terms(self) -> RuleTerms:
        """The terms of the rule that the fields make."""
        form = self._form
        return RuleTerms(
            decision=DECISIONS[form.option_index("decision")],
            tool=self._tools[form.option_index("tool")],
            because=" ".join(self._because.value.split()),
            caller=self._callers[form.option_index("caller")],
            when=pinned_condition(self._request, form.pinned),
            expires=_expiry_day(self._state.now(), DAYS[form.option_index("expires")]),
        )

    def answer(self) -> Answer:
        """An answer that writes the rule."""
        return Answer(choice=Choice.RULE, rule=self.terms)

    def missing(self) -> str:
        """That the reason is missing, or why the kernel would refuse the rule; `""` for neither."""
        terms = self.terms
        return rule_fault(self._request, terms) if terms.because else "say why, in the line below"

    def summary(self, width: int) -> Sequence[StyledLine]:
        """The lines that say what the rule decides, for which calls, until when, and what becomes of this
        one."""
        terms = self.terms
        allowed = terms.decision is Decision.ALLOW
        verb = "run without asking you" if allowed else "are refused without asking you"
        of = (
            f"every tool whose name begins with {terms.tool.removesuffix('*')}"
            if terms.tool.endswith("*")
            else terms.tool
        )
        caller = f"the program {terms.caller}" if terms.caller else "every caller"
        until = (
            f"until the end of {terms.expires}"
            if terms.expires
            else "for ever, until you take the rule out again"
        )
        facts = [
            line(span("Decision  ", Tone.DIM), span(f"{terms.decision}: such calls {verb}", Tone.STRONG)),
            line(span("Tool      ", Tone.DIM), span(of, Tone.STRONG)),
            line(span("Caller    ", Tone.DIM), span(caller, Tone.PLAIN if terms.caller else Tone.WARN)),
            *self._bound_lines(allowed),
            *condition_lines(self._request, self._form.pinned),
            line(span("Holds     ", Tone.DIM), span(until, Tone.PLAIN if terms.expires else Tone.WARN)),
            line(span("Because   ", Tone.DIM), span(terms.because)),
        ]
        now = "This call is approved with it." if allowed else "This call is denied with it."
        notes = [line(span(f"Written to your own policy.jsonc. {now}", Tone.DIM))]
        return [*wrapped(facts, width, 10), (), *wrapped(notes, width)]

    def _bound_lines(self, allowed: bool) -> list[StyledLine]:
        """Say that an allow counts for the program of this entry only."""
        if not allowed or not self._request.origin:
            return []
        only = f"only of the entry {self._request.sidecar}, as long as it runs the same command"
        return [line(span("Entry     ", Tone.DIM), span(only))]


def _tool_patterns(tool: str) -> tuple[str, ...]:
    """Patterns for the tool and for every family that it belongs to, narrowest first."""
    parts = tool.split(".")
    return (tool, *(".".join(parts[:count]) + ".*" for count in range(len(parts) - 1, 0, -1)))


def _program_pattern(request: ApprovalRequest) -> tuple[str, ...]:
    """A pattern that matches the caller's program and nothing else; empty where there is no such pattern."""
    caller = request.caller
    name = caller.executable or caller.program
    sure = bool(name) and "*" not in name and len(name) <= MAX_PATTERN and caller.program not in UNIDENTIFIED
    sure = sure and not caller.is_sidecar
    return (name,) if sure else ()


def _expiry_day(now: float, days: int) -> str:
    """The day `days` after `now` in the person's time zone, as `YYYY-MM-DD`; `""` for 0 days."""
    if not days:
        return ""
    return (datetime.fromtimestamp(now).astimezone() + timedelta(days=days)).date().isoformat()
