"""The rule form: a line for the person's own policy file, in plain words before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from textual.widgets import Input

from flycore.approval.written import rule_fault
from flycore.model.approval import Answer, ApprovalRequest, RuleTerms
from flycore.model.enums import Choice, Decision
from flycore.policy.patterns import MAX_PATTERN
from flytui.console.approvals.form import TermsField, TermsForm, condition, condition_lines, pin_fields
from flytui.console.approvals.standing import SendAnswer, TermsScreen
from flytui.console.desk import ConsoleState
from flytui.console.paint import StyledLine, Tone, line, span, wrapped

MAX_REASON_CHARACTERS = 200
DECISIONS = (Decision.ALLOW, Decision.DENY)
DAYS = (1, 7, 30, 0)
"""From today; 0 is never."""
_DAY_WORDS = ("tomorrow", "in a week", "in a month", "never")


class RuleScreen(TermsScreen):
    """Answers with RULE. The first choices are the narrowest: this tool, this program, until tomorrow."""

    TITLES = ("Rule for your own policy file", "Rule, to be written")
    DOES = "write this rule"

    def __init__(self, desk: ConsoleState, request: ApprovalRequest, send: SendAnswer) -> None:
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
        super().__init__(desk, request, TermsForm(fields), send)

    def text_input(self) -> Input:
        """See TermsScreen."""
        return self._because

    @property
    def terms(self) -> RuleTerms:
        """What is chosen."""
        form = self._form
        return RuleTerms(
            decision=DECISIONS[form.option_index("decision")],
            tool=self._tools[form.option_index("tool")],
            because=" ".join(self._because.value.split()),
            caller=self._callers[form.option_index("caller")],
            when=condition(self._request, form.pinned),
            expires=_expiry_day(self._desk.now(), DAYS[form.option_index("expires")]),
        )

    def answer(self) -> Answer:
        """See TermsScreen."""
        return Answer(choice=Choice.RULE, rule=self.terms)

    def missing(self) -> str:
        """See TermsScreen."""
        terms = self.terms
        return rule_fault(self._request, terms) if terms.because else "say why, in the line below"

    def summary(self, width: int) -> Sequence[StyledLine]:
        """See TermsScreen."""
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
            *condition_lines(self._request, self._form.pinned),
            line(span("Holds     ", Tone.DIM), span(until, Tone.PLAIN if terms.expires else Tone.WARN)),
            line(span("Because   ", Tone.DIM), span(terms.because)),
        ]
        now = "This call is approved with it." if allowed else "This call is denied with it."
        notes = [line(span(f"Written to your own policy.jsonc. {now}", Tone.DIM))]
        return [*wrapped(facts, width, 10), (), *wrapped(notes, width)]


def _tool_patterns(tool: str) -> tuple[str, ...]:
    """The tool, then every family it belongs to, narrowest first."""
    parts = tool.split(".")
    return (tool, *(".".join(parts[:count]) + ".*" for count in range(len(parts) - 1, 0, -1)))


def _program_pattern(request: ApprovalRequest) -> tuple[str, ...]:
    """A pattern that means the caller's program and nothing else; none where no pattern can."""
    caller = request.caller
    name = caller.executable or caller.program
    sure = bool(name) and "*" not in name and len(name) <= MAX_PATTERN and caller.program != "unknown"
    return (name,) if sure else ()


def _expiry_day(now: float, days: int) -> str:
    """The local day so many days from now, `YYYY-MM-DD`; empty for no days."""
    if not days:
        return ""
    return (datetime.fromtimestamp(now).astimezone() + timedelta(days=days)).date().isoformat()
