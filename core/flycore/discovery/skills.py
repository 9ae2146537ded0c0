"""Skills: folders with a `SKILL.md`, whose front matter names and describes them. The body is not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from flycore.discovery.diagnostics import MOST_NAME, MOST_SUMMARY, MOST_VERSION, shorten
from flycore.discovery.search_folder import FileText, SearchFolder
from flycore.model.described import Described, DescribedState, Origin, SourceKind
from flycore.model.diagnostics import Diagnostic, Position, Severity

if TYPE_CHECKING:
    from ruamel.yaml.events import Event

SKILL_FILE = "SKILL.md"
PROJECT_FOLDERS = (".claude/skills", "skills")
HOME_FOLDERS = (".claude/skills",)
MOST_HEAD = 16 * 1024
"""Bytes of a file that are read: the front matter has to end within them."""
DEEPEST = 6
MOST_WORDS = 64
_FENCE = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)

Front = str | list[Any] | dict[str, Any]
"""YAML without types: texts, and what is made of them."""


class SkillFault(NamedTuple):
    """What is wrong with a front matter, and where; both from 1."""

    message: str
    remedy: str
    line: int = 1
    column: int = 1


def read_skills(anchor: SearchFolder, folders: tuple[str, ...]) -> Iterator[Described]:
    """The skills of these folders in order; what is more than can be listed is one line that says so."""
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
    """One skill, as the beginning of its file says."""
    if read.problem is not None:
        return _described(folder, shown, origin, {}, (read.problem,))
    front, fault = front_matter(read.text or "")
    problems: list[Diagnostic] = []
    if fault is not None:
        problems.append(_problem(shown, "front-matter", fault, Severity.ERROR))
    else:
        problems += (_problem(shown, "skill", fault, Severity.ERROR) for fault in _missing(front))
        said = front.get("name")
        if isinstance(said, str) and said and said != folder:
            other = SkillFault(
                f"its name is {shorten(said, MOST_NAME)}, its folder's is another", "name both alike"
            )
            problems.append(_problem(shown, "skill-name", other, Severity.WARNING))
    return _described(folder, shown, origin, front, tuple(problems))


@lru_cache(maxsize=512)
def front_matter(text: str) -> tuple[dict[str, Any], SkillFault | None]:
    """The front matter of a text, or why it has none that can be used. Values are texts, or lists and
    mappings of texts: nothing is built of a tag, and an alias is refused."""
    opening = _FENCE.match(text)
    if opening is None:
        return {}, SkillFault("it does not begin with a front matter", "begin the file with a line ---")
    ending = _END.search(text, opening.end())
    if ending is None:
        said = f"its front matter does not end within {MOST_HEAD // 1024} KiB"
        return {}, SkillFault(said, "end it with a line ---")
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        built = _Builder(YAML(typ="safe", pure=True).parse(text[opening.end() : ending.start()])).document()
    except _UnsupportedYaml as refused:
        return {}, refused.fault
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 2, mark.column + 1) if mark is not None else (1, 1)
        said = f"its front matter is not YAML: {error.problem or 'it cannot be read'}"
        return {}, SkillFault(said, "mend the line, or put the value in quotes", line, column)
    except YAMLError:
        return {}, SkillFault("its front matter has a character that YAML has not", "take it out")
    if not isinstance(built, dict):
        return {}, SkillFault("its front matter is no mapping", "write name: … and description: …")
    return built, None


class _UnsupportedYaml(Exception):
    """What YAML has and a front matter may not have."""

    def __init__(self, message: str, remedy: str, event: Event | None = None) -> None:
        super().__init__(message)
        mark = getattr(event, "start_mark", None)
        line, column = (mark.line + 2, mark.column + 1) if mark is not None else (1, 1)
        self.fault = SkillFault(message, remedy, line, column)


class _Builder:
    """Builds texts, lists and mappings of a parser's events."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events

    def document(self) -> Front:
        """The first document. Raises _Refused, and what the parser raises."""
        for event in self._events:
            if type(event).__name__ not in ("StreamStartEvent", "DocumentStartEvent"):
                return self._node(event, 0)
        return {}

    def _node(self, event: Event, depth: int) -> Front:
        from ruamel.yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent

        if isinstance(event, AliasEvent):
            raise _UnsupportedYaml("an alias stands in its front matter", "write the value itself", event)
        if depth > DEEPEST:
            raise _UnsupportedYaml(
                f"its front matter is nested deeper than {DEEPEST} levels", "nest less", event
            )
        if isinstance(event, ScalarEvent):
            return str(event.value)
        if isinstance(event, SequenceStartEvent):
            return [self._node(item, depth + 1) for item in self._until_end()]
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth)
        return ""

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in self._until_end():
            key = self._node(event, depth + 1)
            if not isinstance(key, str):
                raise _UnsupportedYaml("a key of its front matter is no text", "write a text", event)
            if key in found:
                raise _UnsupportedYaml(
                    f"{shorten(key, MOST_NAME)} is written twice", "keep one of the two", event
                )
            found[key] = self._node(next(self._events), depth + 1)
        return found

    def _until_end(self) -> Iterator[Event]:
        for event in self._events:
            if type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent", "DocumentEndEvent"):
                return
            yield event


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
    """`allowed-tools`: a list, or one text with commas."""
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
    fault = SkillFault(f"{left} more folders are not looked into", "keep fewer skills in one folder")
    return Described(
        kind=SourceKind.SKILL,
        id=shown,
        name=shown,
        source=origin,
        path=shown,
        reasons=(_problem(shown, "too-many", fault, Severity.WARNING),),
    )
