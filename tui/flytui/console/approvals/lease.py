"""The lease form: how long, how many calls, of what, with which input."""

from __future__ import annotations

from collections.abc import Sequence

from flycore.approval.leases import MAX_CALLS, lease_fault
from flycore.model.approval import LEASE_MINUTES, UNTIL_LEFT, Answer, ApprovalRequest, LeaseTerms
from flycore.model.enums import Choice, LeaseScope
from flytui.console.approvals.form import TermsField, TermsForm, condition, condition_lines, pin_fields
from flytui.console.approvals.standing import SendAnswer, TermsScreen
from flytui.console.desk import ConsoleState
from flytui.console.paint import StyledLine, Tone, line, span, wrapped
from flytui.console.words import plural

FIRST_CALLS = 10
_GROUP_NOTE = "While it holds, other callers' calls wait for the group {}."


class LeaseScreen(TermsScreen):
    """Answers with LEASE. Offers a group, a host or the caller's end only where the request has one."""

    TITLES = ("Lease for the same caller", "Lease, to be approved")
    DOES = "approve this lease"

    def __init__(self, desk: ConsoleState, request: ApprovalRequest, send: SendAnswer) -> None:
        self._durations = (*LEASE_MINUTES, *((UNTIL_LEFT,) if request.caller.pid else ()))
        self._scopes = (
            LeaseScope.TOOL,
            *((LeaseScope.GROUP,) if request.group else ()),
            *((LeaseScope.HOST,) if request.host else ()),
        )
        durations = tuple(
            f"{minutes} min" if minutes else "until the caller leaves" for minutes in self._durations
        )
        calls = tuple(f"at most {number}" for number in range(1, MAX_CALLS + 1))
        fields = (
            TermsField("minutes", "For", durations),
            TermsField("calls", "Calls", calls, FIRST_CALLS - 1, stride=10),
            *(
                (TermsField("scope", "Of", _scope_words(request, self._scopes)),)
                if len(self._scopes) > 1
                else ()
            ),
            *pin_fields(request),
        )
        super().__init__(desk, request, TermsForm(fields), send)

    @property
    def terms(self) -> LeaseTerms:
        """What is chosen."""
        form = self._form
        return LeaseTerms(
            minutes=self._durations[form.option_index("minutes")],
            calls=form.option_index("calls") + 1,
            scope=self._scopes[form.option_index("scope")],
            condition=condition(self._request, form.pinned),
        )

    def answer(self) -> Answer:
        """See TermsScreen."""
        return Answer(choice=Choice.LEASE, lease=self.terms)

    def missing(self) -> str:
        """See TermsScreen."""
        return lease_fault(self._request, self.terms)

    def summary(self, width: int) -> Sequence[StyledLine]:
        """See TermsScreen."""
        request, terms = self._request, self.terms
        until = plural(terms.minutes, "minute") if terms.minutes else "until the caller's process has ended"
        of = {
            LeaseScope.TOOL: request.tool,
            LeaseScope.GROUP: f"every tool of {request.sidecar} in the group {request.group}",
            LeaseScope.HOST: f"{request.tool}, for addresses of {request.host}",
        }[terms.scope]
        facts = [
            line(span("Of        ", Tone.DIM), span(of, Tone.STRONG)),
            line(span("Caller    ", Tone.DIM), span(request.caller)),
            line(span("For       ", Tone.DIM), span(f"{until}, at most {plural(terms.calls, 'call')}")),
            *condition_lines(request, self._form.pinned),
        ]
        bound = "any input" if terms.condition is None else "such an input"
        notes = [
            line(span(f"Inside it, calls by this caller run with {bound}, unasked.", Tone.WARN)),
            *([line(span(_GROUP_NOTE.format(request.group), Tone.DIM))] if request.group else []),
            line(span("It ends earlier when the program, its entry or its level changes.", Tone.DIM)),
        ]
        return [*wrapped(facts, width, 10), (), *wrapped(notes, width)]


def _scope_words(request: ApprovalRequest, scopes: Sequence[LeaseScope]) -> tuple[str, ...]:
    words = {
        LeaseScope.TOOL: "this tool",
        LeaseScope.GROUP: f"group {request.group}",
        LeaseScope.HOST: f"host {request.host}",
    }
    return tuple(span(words[scope]).text for scope in scopes)
