"""Packages as rows of the Packages view, and everything that a person reads before a change of one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flycore.model.enums import PackageAction, PackageScope, UpgradeState
from flycore.model.package import PackageCheck, PackageReview, PackageView
from flysafe.text import strict_text
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    difference_lines,
    line,
    padded,
    span,
    table_row,
    truncated,
    wrap,
)

COLUMN_TITLES = ("STATE", "PACKAGE", "SCOPE", "VERSION", "STAGED", "BACK TO", "WHAT IS TO BE DONE")
STATES: dict[UpgradeState, tuple[str, Tone]] = {
    UpgradeState.IDLE: ("● idle", Tone.GOOD),
    UpgradeState.STAGED: ("± staged", Tone.ACCENT),
    UpgradeState.APPLYING: ("… applying", Tone.WARN),
    UpgradeState.ROLLBACK_REQUIRED: ("○ rollback-required", Tone.BAD),
    UpgradeState.FAILED: ("○ failed", Tone.BAD),
}
SCOPES = {PackageScope.PROJECT: "project", PackageScope.USER: "user"}
_SIZES = (19, 16, 7)
_WIDE_SIZES = (19, 24, 7, 10, 10, 10)
_WIDE = 110
"""From this width, in cells, all columns are drawn."""
_NARROW = (0, 1, 3, 6)
"""The columns of a narrower list."""
_LABEL = 11
_NONE = "–"


class PackageRow(msgspec.Struct, frozen=True):
    """The row of a package in the list."""

    view: PackageView

    @property
    def key(self) -> str:
        """What identifies the row in the list."""
        return f"{self.view.scope.value} {self.view.id}"

    def draw(self, width: int) -> StyledLine:
        """The row as a line of at most `width` cells."""
        view = self.view
        state, tone = STATES[view.state]
        of_user = " (user)" if view.scope is PackageScope.USER and width < _WIDE else ""
        cells = (
            span(state, tone),
            _strict(f"{view.id}{of_user}", Tone.STRONG),
            span(SCOPES[view.scope], Tone.DIM),
            _strict(view.version or _NONE),
            _strict(view.staged or _NONE, Tone.ACCENT if view.staged else Tone.DIM),
            _strict(view.previous or _NONE, Tone.DIM),
            _strict(to_do(view)),
        )
        return package_columns(cells, width)


def package_columns(cells: Sequence[StyledText], width: int) -> StyledLine:
    """The cells side by side, in a narrow list the most important ones. The last one has the rest of the
    width."""
    if width < _WIDE:
        cells = [cells[at] for at in _NARROW]
    *sized, last = cells
    sizes = _WIDE_SIZES if width >= _WIDE else _SIZES
    return truncated((*table_row([(cell,) for cell in sized], sizes), last), width)


def to_do(view: PackageView) -> str:
    """What a person does next, in words and from the state alone."""
    match view.state:
        case UpgradeState.STAGED:
            asks = view.review is not None and view.review.needs_person
            reviewed = "permissions or risks change, enter shows how" if asks else "enter shows what changes"
            return f"a applies {view.staged}: {reviewed}"
        case UpgradeState.APPLYING:
            return "a change is under way: its tools take no call until it has ended"
        case UpgradeState.ROLLBACK_REQUIRED | UpgradeState.FAILED:
            back = f"b goes back to {view.previous}" if view.previous else "x removes it"
            return f"{back}: {view.why}" if view.why else back
        case UpgradeState.IDLE if view.version and not view.probed and not view.why:
            return "not probed yet: T shows its entry, which waits for trust"
        case UpgradeState.IDLE:
            return view.why or "nothing"


def package_lines(view: PackageView, width: int) -> list[StyledLine]:
    """The lines of the details: what is installed, and the review of what is staged."""
    state, tone = STATES[view.state]
    probe = "" if not view.version else "answered" if view.probed else "not answered yet"
    rows: list[StyledLine] = [
        (StyledText(" "), _strict(view.id, Tone.STRONG), StyledText("  "), span(state, tone)),
        (),
        *_fact("sidecar", view.sidecar, width),
        *_fact("scope", _scope_words(view.scope), width),
        *_fact("installed", view.version or "nothing", width),
        *_fact("probe", probe, width),
        *_fact("back to", view.previous or "nothing: no version was replaced", width),
        *_fact("why", view.why, width, Tone.WARN),
        *_fact("to do", to_do(view), width),
    ]
    if view.review is not None:
        rows += [(), line(span(" what is staged", Tone.DIM)), (), *review_rows(view.review, width)]
    return rows


def review_rows(review: PackageReview, width: int) -> list[StyledLine]:
    """The lines of a review, whole. What is unusual is marked with `!`, as in the trust screen."""
    asks = (
        line(span(" ! permissions or risks change: a person has to agree", Tone.WARN))
        if review.needs_person
        else line(span(" permissions and risks stay as they are", Tone.DIM))
    )
    rows: list[StyledLine] = [
        asks,
        (),
        *_fact("version", f"{review.before or 'not installed'} → {review.after}", width),
        *_fact("scope", _scope_words(review.scope), width),
        *_fact("from", review.source, width),
        *_fact("command", review.command, width),
        *_fact("needs", review.runtime, width),
    ]
    if not review.permissions:
        rows += _fact("reach", "no change", width, Tone.DIM)
    for change in review.permissions:
        # A permission that goes needs no look. One that comes does.
        more = change.startswith("+")
        rows += _fact("reach", f"{'! ' if more else ''}{change}", width, Tone.WARN if more else Tone.PLAIN)
    for risk in review.risk:
        rows += _fact("risk", f"! {risk}", width, Tone.WARN)
    rows += [row for name in review.tools_added for row in _fact("+ tool", name, width)]
    for name in review.tools_removed:
        rows += _fact("- tool", f"! {name}: calls of it will find no tool", width, Tone.WARN)
    for note in review.notes:
        rows += _fact("note", f"! {note}", width, Tone.WARN)
    if review.difference:
        rows += [(), line(span(" the entry in the registry", Tone.DIM))]
        rows += difference_lines(review.difference, width, 3)
    rows += [(), *_fact("files", f"sha256 {review.checksum}", width, Tone.DIM)]
    return [*rows, *_fact("review", review.digest, width, Tone.DIM)]


def change_rows(action: PackageAction, view: PackageView, width: int) -> list[StyledLine]:
    """The lines that say exactly what a change does, and when its calls end."""
    if action is PackageAction.APPLY and view.review is not None:
        does = review_rows(view.review, width)
    else:
        does = _undone(action, view, width)
    after = {
        PackageAction.APPLY: (
            f"The present version is kept, for a way back. Its entry is trusted as you read it here. Then"
            f" {view.staged} is probed: where it does not answer, agents do not see it, and you are asked."
        ),
        PackageAction.ROLLBACK: (
            "The entry in the registry goes back with the files, and is trusted as it was. The version that"
            " is left is removed. Then the version that is back is probed."
        ),
        PackageAction.REMOVE: (
            "Its files, its entry in the registry, what is staged of it, and the version to go back to are"
            " removed. There is no way back: stage it again to have it again."
        ),
    }[action]
    calls = "Running calls of its tools have 10 seconds to end, and are cancelled then."
    notes = [wrap(line(span(f" {text}", Tone.DIM)), width, 1) for text in (after, calls)]
    return [*does, *(row for note in notes for row in ((), *note))]


def _undone(action: PackageAction, view: PackageView, width: int) -> list[StyledLine]:
    leads = (
        f"{view.version or 'nothing'} → {view.previous or 'what was there before'}"
        if action is PackageAction.ROLLBACK
        else f"{view.version or 'nothing'} → not installed"
    )
    state, _ = STATES[view.state]
    return [
        *_fact("version", leads, width),
        *_fact("sidecar", view.sidecar, width),
        *_fact("scope", _scope_words(view.scope), width),
        *_fact("state", state, width),
        *_fact("why", view.why, width, Tone.WARN),
        *_fact("staged", f"! {view.staged}, which goes as well" if view.staged else "", width, Tone.WARN),
    ]


def check_rows(checks: Sequence[PackageCheck], width: int) -> list[StyledLine]:
    """The lines that say of each installed package whether its files are those that were installed."""
    rows: list[StyledLine] = []
    for check in checks:
        word, tone = ("✗ differs", Tone.BAD) if check.problems else ("✓ whole", Tone.GOOD)
        name = _strict(f"{check.id} {check.version} ({SCOPES[check.scope]})", Tone.STRONG)
        rows += wrap((StyledText(" "), *padded((span(word, tone),), _LABEL), name), width, _LABEL + 1)
        for problem in check.problems:
            rows += _fact("", problem, width, Tone.WARN)
        rows += _fact("", f"sha256 {check.checksum}" if check.checksum else "", width, Tone.DIM)
    return rows or [line(span(" no package is installed", Tone.DIM))]


def _scope_words(scope: PackageScope) -> str:
    return "yours, in every project" if scope is PackageScope.USER else "this project"


def _fact(label: str, text: str, width: int, tone: Tone = Tone.PLAIN) -> list[StyledLine]:
    """A label with its text beside it, wrapped; no line for an empty text. The text may be from outside."""
    if not text:
        return []
    head = padded((StyledText(" "), span(label, Tone.DIM)), _LABEL + 1)
    return wrap((*head, _strict(text, tone)), width, _LABEL + 1)


def _strict(text: str, tone: Tone = Tone.PLAIN) -> StyledText:
    # Metadata of a package names what a person agrees to: look-alike letters are shown as tokens, too.
    return StyledText(strict_text(text), tone)
