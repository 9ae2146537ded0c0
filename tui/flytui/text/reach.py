"""What a call can reach, as sentences: short for the card, and one line a permission for the page why.

The short form names everything that is not enforced or that is unusual. Only usual paths and names that are
enforced are counted when there are many of them; `whole_reach` names each one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from flycore.model.approval import ApprovalRequest
from flycore.model.enums import Level
from flycore.model.stability import PermissionReport, group_equal_reports
from flysafe.text import strict_text

NETWORK_REMARK = "network means this machine's whole network"
MOST_NAMED = 3
"""How many usual paths, or names of secrets, the card names of one permission. It counts the others."""
_CONFINING = (Level.ENFORCED, Level.DEGRADED)
_NOTHING = "none"
_NOT_ENFORCED = "not enforced"
_BETWEEN = ", "
_THIS_FOLDER = "."
_NO_FILES = ("reads no files", "writes no files")
_VERBS = {"files read": "reads", "files write": "writes"}
_FOLDER_OF_INPUT = re.compile(r"\$\{input\.([A-Za-z0-9_-]+)\}/\.\.")
"""The folder of a file that the call's input names."""
_OF_THE_NETWORK = ("web.", "browser.")
"""Tools whose work is the network."""


class ReachText(NamedTuple):
    """A sentence of the reach, and whether it warns."""

    text: str
    warns: bool


def short_reach(request: ApprovalRequest, *, whole: bool) -> Iterator[ReachText]:
    """The reach as the card says it: one sentence where everything is enforced and usual. `whole` counts
    nothing."""
    # The kernel's own tools have no level, because no program runs: the kernel holds itself to each row.
    held = request.level in _CONFINING or all(row.enforced for row in request.reach)
    if not request.reach or not held:
        yield ReachText(_level(request), warns=True)
        for group in group_equal_reports(request.reach):
            yield ReachText(_group(group), warns=not group[0].enforced)
        return
    rows = [row for row in request.reach if row.enforced]
    quiet = [words for row in rows if (words := _usual_words(row, request.tool, whole=whole))]
    unusual = [words for row in rows if (words := _unusual_words(row, request.tool))]
    if quiet:
        yield ReachText(" · ".join([*quiet, Level.ENFORCED.value]), warns=False)
    if unusual:
        yield ReachText(" · ".join(unusual), warns=True)
    if request.level not in _CONFINING:
        yield ReachText(strict_text(request.mechanism), warns=False)
    elif request.level is not Level.ENFORCED:
        yield ReachText(f"{request.level.value}: {strict_text(request.mechanism)}", warns=True)
    for group in group_equal_reports(row for row in request.reach if not row.enforced):
        yield ReachText(_group(group), warns=True)


def one_line_reach(request: ApprovalRequest) -> ReachText:
    """The reach in one line: what is unusual first, then what is usual, and in one word whether it is
    enforced. That there is no sandbox here is usual: the console's header says it. It warns of the unusual
    alone."""
    held = request.level in _CONFINING or all(row.enforced for row in request.reach)
    unusual = [words for row in request.reach if (words := _unusual_words(row, request.tool))]
    usual = [words for row in request.reach if (words := _usual_words(row, request.tool, whole=False))]
    if all(words in usual for words in _NO_FILES):
        usual = [words for words in usual if words != _NO_FILES[1]]
        usual[usual.index(_NO_FILES[0])] = "no files"
    # Where the call is confined otherwise, a permission that is open is unusual.
    gaps = [f"{strict_text(row.name)} not enforced" for row in request.reach if held and not row.enforced]
    if not request.reach or not held:
        state = _NOT_ENFORCED
    elif request.level is Level.DEGRADED:
        state = f"partly {Level.ENFORCED.value}"
    else:
        state = Level.ENFORCED.value
    return ReachText(" · ".join([*unusual, *gaps, *usual, state]), warns=bool(unusual or gaps))


def whole_reach(request: ApprovalRequest) -> Iterator[ReachText]:
    """The level, and each permission and each limit with what enforces it, or why nothing does."""
    yield ReachText(_level(request), warns=request.level is not Level.ENFORCED)
    for row in chain(request.reach, request.limits):
        yield ReachText(_group((row,)), warns=not row.enforced)


def _level(request: ApprovalRequest) -> str:
    by = f" · {strict_text(request.mechanism)}" if request.mechanism else ""
    return f"level {request.level.value}{by}"


def _is_nothing(row: PermissionReport) -> bool:
    return row.declared == _NOTHING


def _usual_words(row: PermissionReport, tool: str, *, whole: bool) -> str:
    """What an enforced permission usually lets a tool do; empty where all that it lets is unusual."""
    declared = strict_text(row.declared)
    match row.name:
        case "network" if _is_nothing(row):
            return "no network"
        case "network":
            return declared if tool.startswith(_OF_THE_NETWORK) else ""
        case "files read" | "files write" if _is_nothing(row):
            return f"{_VERBS[row.name]} no files"
        case "files read" | "files write":
            paths = [path for path in row.declared.split(_BETWEEN) if not _is_outside(path)]
            return f"{_VERBS[row.name]} {_counted(paths, whole=whole)}" if paths else ""
        case "secrets" if _is_nothing(row):
            return "no secrets"
        case "secrets":
            return f"secrets {_counted(row.declared.split(_BETWEEN), whole=whole)}"
        case _:
            return f"{strict_text(row.name)} {declared}"


def _unusual_words(row: PermissionReport, tool: str) -> str:
    """What an enforced permission lets the tool do that is unusual for it, all of it by name."""
    if row.name == "network" and not _is_nothing(row) and not tool.startswith(_OF_THE_NETWORK):
        return f"network: {strict_text(row.declared)}"
    if row.name not in _VERBS:
        return ""
    # A path that has the separator in its name is taken for several. Each is named or counted all the same,
    # and one more warning is the worst that comes of it.
    outside = [strict_text(path) for path in row.declared.split(_BETWEEN) if _is_outside(path)]
    return f"{_VERBS[row.name]} {_BETWEEN.join(outside)} outside this folder" if outside else ""


def _is_outside(path: str) -> bool:
    """Whether the path may lie outside the project's folder. What the input fills in stands on the card with
    the input."""
    if _FOLDER_OF_INPUT.fullmatch(path):
        return False
    filled = path.startswith("${") and not path.startswith("${input.")
    return filled or path.startswith(("/", "~")) or ".." in path.split("/")


def _counted(names: list[str], *, whole: bool) -> str:
    shown = names if whole or len(names) <= MOST_NAMED else names[:MOST_NAMED]
    words = _BETWEEN.join(map(_path_words, shown))
    left = len(names) - len(shown)
    return f"{words} and {left} more (the key “why” names them)" if left else words


def _path_words(path: str) -> str:
    if path == _THIS_FOLDER:
        return "this folder"
    of_input = _FOLDER_OF_INPUT.fullmatch(path)
    return f"the folder of “{of_input[1]}”" if of_input else strict_text(path)


def _group(group: tuple[PermissionReport, ...]) -> str:
    """Permissions that share one reason, followed by the reason."""
    enforced, why = group[0].enforced, group[0].why
    parts = [f"{strict_text(row.name)}: {strict_text(row.declared)}" for row in group]
    if enforced or not why.startswith(_NOT_ENFORCED):
        parts.append("✓ enforced" if enforced else f"{_NOT_ENFORCED} here")
    if why:
        parts.append(strict_text(why))
    if any(row.name == "network" and not (row.enforced and _is_nothing(row)) for row in group):
        parts.append(NETWORK_REMARK)
    return " · ".join(parts)
