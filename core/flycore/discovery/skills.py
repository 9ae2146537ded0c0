"""Finds skills: folders with a `SKILL.md`, whose front matter names and describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from flycore.discovery.diagnostics import MOST_NAME, MOST_SUMMARY, MOST_VERSION, shorten
from flycore.discovery.search_folder import FileText, SearchFolder
from flycore.model.described import Described, DescribedState, Origin, SourceKind
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.registry.yaml_text import read_yaml

SKILL_FILE = "SKILL.md"
PROJECT_FOLDERS = (".claude/skills", "skills")
HOME_FOLDERS = (".claude/skills",)
MOST_HEAD = 16 * 1024
"""Bytes of a file that are read. The front matter must end within them."""
DEEPEST = 6
MOST_WORDS = 64
_FENCE = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)


class SkillFault(NamedTuple):
    """A problem of a front matter. Line and column are from 1."""

    message: str
    remedy: str
    line: int = 1
    column: int = 1


def read_skills(anchor: SearchFolder, folders: tuple[str, ...]) -> Iterator[Described]:
    """Yield the skills of these folders in order, and an item about those that are too many to list."""
    for folder in folders:
        names = anchor.folders(folder)
        for name in names.names:
            relative = f"{folder}/{name}/{SKILL_FILE}"
            text = anchor.head(relative, MOST_HEAD)
            if not text.absent:
                yield skill(name, anchor.shown(relative), text, anchor.origin)
        if names.left:
            yield _left_out(anchor.shown(folder), names.left, anchor.origin)


def skill(folder: str, shown: str, read: FileText, origin: Origin) -> Described:
    """Return one skill from the beginning of its file."""
    if read.problem is not None:
        return _described(folder, shown, origin, {}, (read.problem,))
    front, fault = front_matter(read.text or "")
    problems: list[Diagnostic] = []
    if fault is not None:
        problems.append(_problem(shown, "front-matter", fault, Severity.ERROR))
    else:
        problems += (_problem(shown, "skill", fault, Severity.ERROR) for fault in _missing(front))
        name = front.get("name")
        if isinstance(name, str) and name and name != folder:
            other = SkillFault(
                f"its name is {shorten(name, MOST_NAME)}, but its folder has another name",
                "give both the same name",
            )
            problems.append(_problem(shown, "skill-name", other, Severity.WARNING))
    return _described(folder, shown, origin, front, tuple(problems))


@lru_cache(maxsize=512)
def front_matter(text: str) -> tuple[dict[str, Any], SkillFault | None]:
    """Return the front matter of a text, and the problem where it has none that can be used.

    Values are texts, or lists and mappings of texts.
    """
    opening = _FENCE.match(text)
    if opening is None:
        return {}, SkillFault("it does not begin with a front matter", "begin the file with a line ---")
    ending = _END.search(text, opening.end())
    if ending is None:
        message = f"its front matter does not end within {MOST_HEAD // 1024} KiB"
        return {}, SkillFault(message, "end it with a line ---")
    read = read_yaml(text[opening.end() : ending.start()], "", deepest=DEEPEST, typed=False)
    for problem in read.problems:
        line, column = (problem.position.line, problem.position.column) if problem.position else (1, 1)
        # The first line of the file is the fence.
        return {}, SkillFault(f"its front matter: {problem.message}", problem.remedy, line + 1, column)
    value = read.value or {}
    if not isinstance(value, dict):
        return {}, SkillFault("its front matter is not a mapping", "write name: … and description: …")
    return value, None


def _missing(front: dict[str, Any]) -> Iterator[SkillFault]:
    for key in ("name", "description"):
        value = front.get(key)
        if not isinstance(value, str) or not value.strip():
            yield SkillFault(f"its front matter has no {key}", f"write {key}: …")


def _described(
    folder: str, shown: str, origin: Origin, front: dict[str, Any], problems: tuple[Diagnostic, ...]
) -> Described:
    broken = any(problem.severity is Severity.ERROR for problem in problems)
    name = _text(front.get("name")) or folder
    metadata = front.get("metadata")
    version = front.get("version") or (metadata.get("version") if isinstance(metadata, dict) else "")
    return Described(
        kind=SourceKind.SKILL,
        id=shorten(folder, MOST_NAME),
        name=shorten(name, MOST_NAME),
        source=origin,
        path=shown,
        version=shorten(_text(version), MOST_VERSION),
        summary=shorten(" ".join(_text(front.get("description")).split()), MOST_SUMMARY),
        permissions=_tools(front.get("allowed-tools")),
        state=DescribedState.FAULTY if broken else DescribedState.LISTED,
        reasons=problems,
    )


def _tools(value: object) -> tuple[str, ...]:
    """Return the names in `allowed-tools`, which is a list, or one text with commas."""
    words = value if isinstance(value, list) else _text(value).split(",")
    texts = (shorten(_text(word).strip(), MOST_NAME) for word in words[:MOST_WORDS])
    return tuple(dict.fromkeys(text for text in texts if text))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _problem(shown: str, rule: str, fault: SkillFault, severity: Severity) -> Diagnostic:
    return Diagnostic(
        severity=severity,
        rule=rule,
        message=f"{shown}: {fault.message}",
        remedy=fault.remedy,
        position=Position(file=shown, line=fault.line, column=fault.column),
    )


def _left_out(shown: str, left: int, origin: Origin) -> Described:
    fault = SkillFault(f"{left} more folders are not searched", "keep fewer skills in one folder")
    return Described(
        kind=SourceKind.SKILL,
        id=shown,
        name=shown,
        source=origin,
        path=shown,
        reasons=(_problem(shown, "too-many", fault, Severity.WARNING),),
    )
