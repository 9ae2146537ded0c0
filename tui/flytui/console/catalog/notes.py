"""The lines above the Catalog's list: problems, counts, and what to write into an empty project. Pure."""

from __future__ import annotations

from flycore.catalog.query import Query
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Diagnostic
from flytui.console.keymap import KeyBindings
from flytui.console.paint import StyledLine, Tone, line, span, truncated, wrapped
from flytui.console.words import plural

_KEY_MARK = "‹key›"
_FIRST_REGISTRY = (
    "No sidecar is declared here yet, so no tool can run.",
    f"Press {_KEY_MARK} for a first registry: it is shown, then written.",
    "Or save this as tools/external.tools.jsonc:",
    "",
    '  {"schemaVersion": 2, "sidecars": {"utility.local": {',
    '    "command": "flytui-sidecar", "args": ["utility.local"],',
    '    "tools": ["file.hash"]}}}',
    "",
)


def catalog_problems(catalog: Catalog | None) -> tuple[Diagnostic, ...]:
    """What is wrong in files a person wrote, the files' own problems first."""
    if catalog is None:
        return ()
    own = [problem for view in catalog.sidecars for problem in view.entry.problems]
    return (*catalog.diagnostics, *(problem for problem in own if problem not in catalog.diagnostics))


def note_lines(
    catalog: Catalog | None, problems: tuple[Diagnostic, ...], summary: str, keys: KeyBindings, width: int
) -> list[StyledLine]:
    """What is wrong, how many tools there are in which state, and how to begin where there is none."""
    notes = _problem_note(problems, keys.label("catalog.problems"))
    if catalog is None:
        notes.append(line(span(" reading the registry…", Tone.DIM)))
    elif not catalog.sidecars:
        first = (text.replace(_KEY_MARK, keys.label("catalog.init")) for text in _FIRST_REGISTRY)
        notes += wrapped([line(span(f" {text}")) for text in first], width, 1)
    else:
        notes.append(line(span(f" {summary}", Tone.DIM)))
    return [truncated(note, width) for note in notes]


def match_lines(text: str, query: Query, shown: int, count: int, width: int) -> list[StyledLine]:
    """How many match, and which words of the filter mean nothing."""
    found = f" {shown} of {count} match “{text}”"
    rows = [line(span(found, Tone.ACCENT), span(" · Esc clears", Tone.DIM))]
    rows += [line(span(f" ! {problem}", Tone.WARN)) for problem in query.problems]
    return [truncated(row, width) for row in rows]


def _problem_note(problems: tuple[Diagnostic, ...], key: str) -> list[StyledLine]:
    """The key and the count first, then the files, those of the project before those of the person: where
    there is little room the end is cut."""
    if not problems:
        return []
    files = {problem.position.file for problem in problems if problem.position}
    where = f" in {', '.join(sorted(files, key=lambda file: (file.startswith('/'), file)))}" if files else ""
    what = span(f" shows {plural(len(problems), 'problem')}{where}")
    return [line(span(" ! ", Tone.WARN), span(key, Tone.KEY), what)]
