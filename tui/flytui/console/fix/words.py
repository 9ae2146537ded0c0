"""What a fix would do, as lines: every argument can be told from its neighbours. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from flycore.model.fix import Fix, FixKind
from flycore.model.stability import Reason
from flysafe.text import strict_text
from flytui.console.paint import StyledLine, StyledText, Tone, line, span, wrap

NO_EDITOR = "No editor was found. Set VISUAL or EDITOR, start flytui again, or open the file yourself."
NO_TERMINAL = "This console has no terminal to lend. Copy it with y and run it yourself."


def quoted_command(argv: Sequence[str]) -> str:
    """One line that a shell would read as exactly these arguments, nothing in it hidden."""
    return strict_text(shlex.join(argv))


def fix_reason_lines(reason: Reason, width: int) -> list[StyledLine]:
    """What is mended."""
    rows = wrap(line(StyledText(" "), span(f"{reason.code.value}: {reason.message}")), width, 3)
    return [*rows, *wrap(line(StyledText(" "), span(f"→ {reason.remedy}", Tone.DIM)), width, 3), ()]


def program_lines(fix: Fix, argv: tuple[str, ...], lent: bool, width: int) -> list[StyledLine]:
    """The program that would run, or what to do where none can."""
    rows: list[StyledLine] = wrap(line(StyledText(" "), span(f"To {fix.words}", Tone.STRONG)), width, 1)
    if fix.kind is FixKind.EDIT:
        place = f"{fix.file}:{fix.line}" if fix.line else fix.file
        rows += [
            (),
            *wrap(line(StyledText(" "), span("opens  ", Tone.DIM), StyledText(strict_text(place))), width, 3),
        ]
    if argv:
        rows += [
            (),
            *wrap(
                line(StyledText(" "), span("runs, without a shell, on this terminal:", Tone.DIM)), width, 1
            ),
        ]
        rows += wrap(line(StyledText("   "), StyledText(quoted_command(argv), Tone.ACCENT)), width, 5)
    missing = NO_TERMINAL if not lent else "" if argv else NO_EDITOR
    return [
        *rows,
        *([(), *wrap(line(StyledText(" "), span(missing, Tone.WARN)), width, 1)] if missing else []),
    ]


def switch_lines(sidecar: str, file: str, width: int) -> list[StyledLine]:
    """What switching on changes."""
    said = (
        f'sets "enabled" of {strict_text(sidecar)} to true in {strict_text(file)}; '
        "nothing else in the file changes"
    )
    asked = "What it may do stays as it is: its calls are judged and asked as before."
    return [
        *wrap(line(StyledText(" "), StyledText(said)), width, 1),
        (),
        *wrap(line(StyledText(" "), span(asked, Tone.DIM)), width, 1),
    ]
