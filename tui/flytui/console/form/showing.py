"""What stands round a form's fields. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flycore.model.catalog import CapabilityView
from flycore.model.enums import Effective
from flytui.console.form.reading import FormResult, InputProblem
from flytui.console.paint import StyledLine, StyledText, Tone, line, span, truncated, wrap
from flytui.console.words import STATE_LABELS, label_span, plural

MAX_PROBLEMS = 4
"""Listed below a form; more are counted."""


def tool_lines(view: CapabilityView, raw: bool, width: int) -> list[StyledLine]:
    """The tool, how it is, and what policy says of it."""
    tool, stability = view.capability, view.stability
    policy = span(f"  policy {view.decision}" if view.decision else "", Tone.DIM)
    rows = [
        truncated(
            line(
                StyledText(" "),
                span(tool.name, Tone.STRONG),
                StyledText("  "),
                label_span(STATE_LABELS[stability.effective]),
                policy,
            ),
            width,
        )
    ]
    words = "exactly what is sent, as JSON" if raw else tool.summary
    rows += wrap(line(span(f" {words}", Tone.DIM)), width, 1)[:2]
    if stability.effective not in (Effective.AVAILABLE, Effective.DEGRADED):
        reasons = [f" {reason.message}" for reason in stability.reasons[:1]]
        rows += [row for text in reasons for row in wrap(line(span(text, Tone.WARN)), width, 1)[:2]]
    return rows


def problem_count(reading: FormResult) -> str:
    """How much is wrong, in few words."""
    missing = sum(problem.missing for problem in reading.problems)
    wrong = len(reading.problems) - missing
    words = [plural(wrong, "problem")] if wrong else []
    words += [f"{plural(missing, 'required field')} empty"] if missing else []
    return ", ".join(words)


def problem_lines(reading: FormResult, nowhere: Sequence[InputProblem], width: int) -> list[StyledLine]:
    """Whether the input fits; and what is wrong that no field stands for."""
    rows: list[StyledLine] = []
    for problem in nowhere[:MAX_PROBLEMS]:
        where = f"{problem.pointer}: " if problem.pointer else ""
        rows += wrap(line(span(f" ✗ {where}{problem.message}", Tone.WARN)), width, 3)[:3]
    if len(nowhere) > MAX_PROBLEMS:
        rows.append(line(span(f" and {len(nowhere) - MAX_PROBLEMS} more", Tone.WARN)))
    if reading.broken is not None:
        state = span(" ✗ nothing can be sent yet", Tone.WARN)
    elif reading.problems:
        only_missing = all(problem.missing for problem in reading.problems)
        mark, tone = ("◌", Tone.DIM) if only_missing else ("✗", Tone.WARN)
        state = span(f" {mark} {problem_count(reading)}", tone)
    else:
        state = span(" ✓ the input fits", Tone.GOOD)
    return [*rows, line(state)]


def key_pairs(reading: FormResult, raw: bool, json_only: bool, in_array: bool) -> list[tuple[str, str]]:
    """Ids of the keys that do something now, most needed first."""
    insist = bool(reading.problems) and reading.broken is None
    return [
        ("form.send", "call the tool"),
        *([("form.insist", "call all the same")] if insist else []),
        ("form.leave", "back"),
        *([] if json_only else [("form.json", "fields" if raw else "JSON")]),
        ("form.example", "example"),
        *([("form.add", "add item"), ("form.remove", "take it out")] if in_array else []),
        *([] if raw else [("Tab", "next field")]),
    ]
