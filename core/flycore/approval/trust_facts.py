"""What an entry would reach, in short: the facts by which a person tells a usual entry from an unusual one.

Pure. The whole entry is in `entry_summary`; these facts only choose what is looked at first.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from flycore.approval.entry_summary import COMMAND
from flycore.model.enums import Kind, PathState, ProgramAuthor
from flycore.model.program import ResolvedProgram
from flycore.model.question import TrustFacts
from flycore.model.sidecar import SidecarEntry
from flycore.model.tool_exec import HttpExec, PythonExec
from flycore.model.url_template import literal_host

_INTERPRETERS = re.compile(
    r"(?:python|pypy|node|nodejs|bun|deno|ruby|perl|php|lua|sh|bash|dash|zsh|ksh|java|tclsh|Rscript)[0-9.]*"
)
_AUTHOR_RANK = {
    ProgramAuthor.OWN: 0,
    ProgramAuthor.SYSTEM: 8,
    ProgramAuthor.FOLDER: 30,
    ProgramAuthor.MISSING: 32,
    ProgramAuthor.REMOTE: 34,
    ProgramAuthor.DOWNLOADED: 40,
}
"""What a program's author adds to `riskiness`: who wrote it counts more than what it may reach."""
_DOWNLOADERS = frozenset(
    ("npx", "bunx", "pnpx", "uvx", "uv", "pipx", "pnpm", "yarn", "npm", "docker", "podman")
)
"""Programs that fetch what they run, so that who wrote it is not known here."""


def trust_facts(
    entry: SidecarEntry,
    resolutions: Mapping[str, ResolvedProgram],
    app_root: str,
    *,
    own: bool,
    overrides: bool,
) -> TrustFacts:
    """The facts of an entry. `resolutions` holds the programs of its command and delegates; `own` says that
    its program came with flytui; `overrides` that it takes over tools of the person's own registry, or that
    rules allow its tools."""
    permissions = entry.permissions
    authors = [_author(entry, resolutions.get(COMMAND), app_root, own=own)]
    authors += [
        _program_author(delegate.command, delegate.args, resolutions.get(name), app_root)
        for name, delegate in entry.delegates.items()
    ]
    described = entry.kind in (Kind.MCP, Kind.EXECUTABLE)
    return TrustFacts(
        author=max(authors, key=tuple(ProgramAuthor).index),
        network=_network(entry),
        writes=permissions.write,
        writes_outside=tuple(path for path in permissions.write if _is_outside(path, app_root)),
        desktop=permissions.desktop,
        secrets=permissions.secrets,
        tools=tuple(pick.name for pick in entry.picked or ()) if described else entry.tool_names,
        all_tools=described and entry.picked is None,
        overrides=overrides,
        made_by_agent=bool(entry.creator),
    )


def riskiness(facts: TrustFacts) -> int:
    """A number by which entries are put in order, the riskiest first. It decides nothing else."""
    # What can reach out with something worth taking counts more than the sum of both.
    leak = 20 if facts.network and facts.secrets else 0
    author = _AUTHOR_RANK[facts.author]
    writes = 15 if facts.writes_outside else 5 if facts.writes else 0
    return (
        40 * facts.desktop
        + leak
        + author
        + writes
        + (10 if facts.network else 0)
        + (8 if facts.secrets else 0)
        + 25 * facts.overrides
        + 6 * facts.made_by_agent
        + 2 * facts.all_tools
    )


def _network(entry: SidecarEntry) -> str:
    """The host that the entry may reach, `*` for every host, or an empty text for none."""
    if isinstance(entry.exec, HttpExec):
        return literal_host(entry.exec.url) or "*"
    if entry.url:
        return urlsplit(entry.url).hostname or "*"
    return "*" if entry.effective_permissions.network else ""


def _author(
    entry: SidecarEntry, program: ResolvedProgram | None, app_root: str, *, own: bool
) -> ProgramAuthor:
    if isinstance(entry.exec, HttpExec):
        return ProgramAuthor.OWN
    if entry.url:
        return ProgramAuthor.REMOTE
    if own:
        return ProgramAuthor.OWN
    if isinstance(entry.exec, PythonExec):
        return ProgramAuthor.FOLDER
    return _program_author(entry.command, entry.args, program, app_root)


def _program_author(
    command: str, args: tuple[str, ...], program: ResolvedProgram | None, app_root: str
) -> ProgramAuthor:
    if program is None or program.state is not PathState.RESOLVED:
        return ProgramAuthor.MISSING
    name = posixpath.basename(command)
    if name in _DOWNLOADERS:
        return ProgramAuthor.DOWNLOADED
    if _is_below(program.path, app_root):
        return ProgramAuthor.FOLDER
    if _INTERPRETERS.fullmatch(name):
        # The interpreter is the system's, but what it runs is its first argument, or written in the entry.
        script = next((arg for arg in args if not arg.startswith("-")), "")
        inside = not script.startswith("/") or _is_below(script, app_root)
        return ProgramAuthor.FOLDER if inside and args else ProgramAuthor.SYSTEM
    return ProgramAuthor.SYSTEM


def _is_outside(path: str, app_root: str) -> bool:
    """Whether a declared path lies outside of the app root, or is a dot-file or in a dot-folder of it. A path
    that a call's input names is on the card of each call."""
    if path.startswith("${input."):
        return False
    if path.startswith(("~", "$")):
        return True
    whole = posixpath.normpath(posixpath.join(app_root, path))
    if not _is_below(whole, app_root):
        return True
    return any(part.startswith(".") for part in whole[len(app_root) :].split("/"))


def _is_below(path: str, folder: str) -> bool:
    root = posixpath.normpath(folder)
    return path == root or path.startswith(root.rstrip("/") + "/")
