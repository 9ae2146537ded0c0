"""Looks at the files that a coding agent's own command or read would use, before policy judges it.

What the text says is worked out in `flycore.policy.agent_commands`. Here is what needs the file system:
where links lead, which files a pattern stands for, whether a tree has files of secret names, and what a
repository's own files make git do. Nothing is written, and no program is started.

What is found is true when it is looked at. The agent acts later, and in the meantime another program of the
same user may change the files.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial

import anyio.to_thread

from flycore.catalog.builtin import READ, SHELL
from flycore.model.approval import AgentAccess
from flycore.model.enums import Risk
from flycore.model.json import JsonObject
from flycore.pipeline.agent_repository import (
    check_read_by_itself,
    check_repository,
    never_ends,
    repository_facts,
    repository_of,
    shows_password,
)
from flycore.pipeline.context import RootEnvironment, RootState
from flycore.policy.agent_commands.file_reads import plan_read
from flycore.policy.agent_commands.line_risk import objection_to_unread, path_outside
from flycore.policy.agent_commands.options import Objection
from flycore.policy.agent_commands.plan import Access, PathUse, ReadPlan, plan_command
from flycore.policy.agent_commands.secret_files import secret_part, surely_ignored
from flycore.policy.agent_commands.shell_words import NotUnderstood
from flycore.policy.agent_commands.table import Effect
from flycore.runners.workspace.project_files import Project, lies_in, project_of
from flysafe.beneath import read_beneath
from flysafe.protected_paths import GIT_FOLDER

MOST_ENTRIES = 50_000
"""Names of a tree that are looked at before it counts as too large; some tenths of a second."""
MOST_SEARCHED_ENTRIES = 100_000
"""The same where only ignore files are looked for, since ripgrep itself leaves out what is ignored."""
MOST_MATCHES = 2_000
MOST_IGNORE_BYTES = 256 * 1024
SHELL_OPTIONS = frozenset(("timeout", "run_in_background", "mode", "initial_wait"))
"""Members of the input of the agent's shell that change nothing of what the command may do."""


SWITCHED_OFF = "agents.readOnly in your settings is off"


def look_at_agent_call(
    tool: str, input: JsonObject | None, project: Project, *, switched_on: bool
) -> AgentAccess | None:
    """Return what is known of an agent's own command or read; None for its other actions. It reads files.

    `switched_on` is the person's setting; without it, nothing is allowed for only reading.
    """
    if tool not in (SHELL, READ) or input is None:
        return None
    found = _look(tool, input, project)
    return found if switched_on or not found.reads_only else found.refused(SWITCHED_OFF)


async def agent_access(
    root: RootEnvironment, root_state: RootState, tool: str, input: JsonObject
) -> AgentAccess | None:
    """Look at an agent's own call in a worker thread: the file system is whatever the agent names."""
    if tool not in (SHELL, READ):
        return None
    switched_on = root_state.files.settings.agent_reads
    look = partial(look_at_agent_call, tool, input, project_of(root.places), switched_on=switched_on)
    return await anyio.to_thread.run_sync(look)


def _look(tool: str, input: JsonObject, project: Project) -> AgentAccess:
    cwd = input.get("cwd")
    look = _Look(project, cwd if isinstance(cwd, str) else "")
    try:
        plan = _plan(tool, input, look)
        look.check(plan)
    except Objection as objection:
        return AgentAccess(reads_only=False, why=objection.why, risk=objection.effect.risk)
    except OSError as error:
        why = f"its files cannot be looked at: {error.strerror or error}"
        return AgentAccess(reads_only=False, why=why, risk=Risk.HIGH)
    names = ", ".join(dict.fromkeys(plan.commands))
    return AgentAccess(reads_only=True, why=f"{names} only read, within the project folder", risk=Risk.LOW)


def _plan(tool: str, input: JsonObject, look: _Look) -> ReadPlan:
    if tool == READ:
        return plan_read(input)
    command, options = str(input["command"]), input.get("options", {})
    try:
        plan = plan_command(command)
    except NotUnderstood as problem:
        raise _worse(objection_to_unread(command, problem), command, look) from None
    except Objection as objection:
        raise _worse(objection, command, look) from None
    if unknown := sorted(set(options) - SHELL_OPTIONS if isinstance(options, dict) else {"options"}):
        raise Objection(f"{unknown[0]!r} is no option of a shell that flytui knows", Effect.RUNS)
    for folder in _program_folders(input):
        for name in plan.programs:
            if os.path.lexists(os.path.join(look.start, folder, name)):
                raise Objection(f"`{name}` would be the program in {folder!r} of the project", Effect.RUNS)
    return plan


def _worse(objection: Objection, command: str, look: _Look) -> Objection:
    """The objection, or that the command leaves the folder, which is of high risk."""
    if objection.effect.risk is not Risk.HIGH and (outside := path_outside(command, look.start, look.root)):
        return Objection(f"{objection.why}, and {outside!r} leaves the project folder", Effect.LEAVES)
    return objection


def _program_folders(input: JsonObject) -> tuple[str, ...]:
    folders = input.get("programFolders")
    return tuple(str(one) for one in folders) if isinstance(folders, list) else ()


_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_READ_BY_SEARCH = {name: name for name in _IGNORE_FILES} | {GIT_FOLDER: f"{GIT_FOLDER}/info/exclude"}
"""Files with rules for a search, by the name in a folder that shows that they may be there."""


class _Look:
    """Looks at the files of one call."""

    def __init__(self, project: Project, cwd: str) -> None:
        self.project = project
        self.root = str(project.root)
        self._cwd = cwd
        self.start = os.path.realpath(cwd) if cwd.startswith("/") and "\0" not in cwd else ""
        self._entries = 0

    def check(self, plan: ReadPlan) -> None:
        """Raise Objection where the plan does more than read within the project folder."""
        if not self.start:
            raise Objection("the agent does not say in which folder it works")
        self._within(self.start, "the agent's folder")
        tracked: list[tuple[PathUse, str]] = []
        for use in plan.paths:
            for path in self._expanded(use):
                real = self._use(use, path)
                if use.access is Access.TRACKED:
                    tracked.append((use, real))
        tops = {folder: self._repository(folder) for folder in plan.repositories}
        for use, real in tracked:
            top = tops[use.folder]
            if real != top and not real.startswith(top.rstrip("/") + "/"):
                raise Objection(f"{use.path!r} lies outside of the git repository", Effect.LEAVES)
        for folder in plan.addresses:
            if shows_password(tops[folder]):
                raise Objection("it shows addresses, one of which may hold a password", Effect.SECRETS)

    def _within(self, real: str, shown: str) -> str:
        """The path relative to the project folder. Raises Objection where it lies outside."""
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            raise Objection(f"{shown} leaves the project folder", Effect.LEAVES)
        relative = os.path.relpath(real, self.root)
        if lies_in(relative, self.project.closed):
            raise Objection(f"{shown} belongs to flytui's own state", Effect.SECRETS)
        return relative

    def _real(self, path: str, folder: str) -> str:
        """The path with its links followed. Raises Objection."""
        joined = posixpath.join(folder, path)
        parts = [part for part in joined.split("/") if part not in ("", ".")]
        leading = (
            0 if joined.startswith("/") else next((at for at, p in enumerate(parts) if p != ".."), len(parts))
        )
        # `link/..` is the folder of the link for `cd`, and the folder above its target for everything else.
        if ".." in parts[leading:]:
            raise Objection(f"{joined!r} has `..` behind a name", Effect.LEAVES)
        if "\0" in joined:
            raise Objection("a path has a NUL character", Effect.LEAVES)
        return os.path.realpath(os.path.join(self.start, joined))

    def _use(self, use: PathUse, path: str) -> str:
        """Return the path that is used, without links. Raises Objection."""
        real = self._real(path, use.folder)
        if use.access is Access.FOLDER and ".." in path and self.start != os.path.normpath(self._cwd):
            raise Objection("`cd ..` from a folder behind a link may lead elsewhere", Effect.LEAVES)
        relative = self._within(real, repr(path))
        if use.access in (Access.LIST, Access.FOLDER):
            return real
        if part := secret_part(path) or secret_part(relative):
            raise Objection(f"{part!r} usually holds secrets", Effect.SECRETS)
        if use.access is Access.TRACKED and (part := secret_part(path.partition(":")[2])):
            raise Objection(f"{part!r} usually holds secrets", Effect.SECRETS)  # the file of that name
        if never_ends(real):
            raise Objection(f"{path!r} is a pipe or a device, whose content may never end", Effect.WAITS)
        if use.access is Access.FILE and os.path.isdir(real):
            raise Objection(f"{path!r} is a folder")
        if use.access in (Access.TREE, Access.TREE_UNIGNORED) and os.path.isdir(real):
            self._rules_above(real)
            self._tree(real, use.access)
        if use.access is Access.SEARCH:
            self._search(real)
        return real

    def _expanded(self, use: PathUse) -> Iterator[str]:
        """The paths that a word may stand for: every one that a shell could make of it."""
        if not use.glob:
            yield use.path
            return
        found = list(self._matches(use))
        if use.access is Access.NOTHING:
            if found:
                raise Objection(f"{use.path!r} has no quotes, and the shell would replace it by {found[0]!r}")
            return
        for path in found:
            if path.startswith("-"):
                raise Objection(f"the pattern {use.path!r} fits {path!r}, which is an option", Effect.RUNS)
        yield from found

    def _matches(self, use: PathUse) -> Iterator[str]:
        parts = use.path.split("/")
        if "**" in use.path or ".." in parts[1:]:
            raise Objection(f"the pattern {use.path!r} is not one that flytui reads")
        found = ["/"] if use.path.startswith("/") else [""]
        for part in filter(None, parts):
            if not any(one in part for one in "*?"):
                found = [posixpath.join(path, part) for path in found]
                continue
            found = [
                posixpath.join(path, name)
                for path in found
                for name in self._names(self._real(path or ".", use.folder))
                # Whatever a setting of a shell may make of it: with hidden names, in any case of letters.
                if fnmatchcase(name.lower(), part.lower())
            ]
            if len(found) > MOST_MATCHES:
                raise Objection(f"the pattern {use.path!r} fits too many files")
        yield from (path for path in found if os.path.lexists(os.path.join(self.start, use.folder, path)))

    def _names(self, folder: str) -> list[str]:
        self._within(folder, repr(folder))
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _tree(self, folder: str, access: Access) -> None:
        """Raise Objection where the tree has files of secret names, or is too large to look at."""
        ignored = self._ignore_lines() if access is Access.TREE_UNIGNORED else ()
        passed = taken_back = ""
        waiting = [folder]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > MOST_ENTRIES:
                        raise Objection(
                            f"more than {MOST_ENTRIES:,} files would have to be looked at for secrets"
                        )
                    if entry.name == GIT_FOLDER and entry.is_dir(follow_symlinks=False):
                        check_read_by_itself(os.path.join(entry.path, "info/exclude"), self.root)
                        self._own_settings(entry.path, access)
                    elif secret_part(entry.name):
                        passed = entry.name
                        if not surely_ignored(entry.name, ignored):
                            raise _would_be_read(entry.name)
                    elif entry.name in _IGNORE_FILES:
                        check_read_by_itself(entry.path, self.root)
                        if os.path.dirname(entry.path) != self.root:
                            taken_back = entry.name
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)

        if passed and taken_back:
            raise _would_be_read(passed)  # a further `.gitignore` may take it back

    def _search(self, top: str) -> None:
        """Raise Objection where a search that keeps to the rules of ignore files would read one that leads
        elsewhere. ripgrep follows links to them, and prints the lines that are no rules."""
        self._rules_above(top)
        ignored = self._ignore_lines()
        waiting, count = [(top, True)] if os.path.isdir(top) else [], 0
        while waiting:
            folder, sure = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
            except PermissionError:
                continue  # the search cannot go there either
            count += len(entries)
            if count > MOST_SEARCHED_ENTRIES:
                raise Objection(f"more than {MOST_SEARCHED_ENTRIES:,} files would have to be looked at")
            names = {entry.name for entry in entries}
            for name in names & _READ_BY_SEARCH.keys():
                check_read_by_itself(os.path.join(folder, _READ_BY_SEARCH[name]), self.root)
            # Rules of a folder further down may take back those of the project.
            sure = sure and (folder == self.root or not names & set(_IGNORE_FILES))
            waiting.extend(
                (entry.path, sure)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
                and not entry.name.startswith(".")
                and not (sure and surely_ignored(entry.name, ignored, folder=True))
            )

    def _rules_above(self, folder: str) -> None:
        """Look at the ignore files of the folders above, which count for a search as well."""
        while folder != self.root:
            folder = os.path.dirname(folder)
            for name in _READ_BY_SEARCH.values():
                check_read_by_itself(os.path.join(folder, name), self.root)

    def _ignore_lines(self) -> tuple[str, ...]:
        """The lines of the project's own `.gitignore`, where it counts."""
        if not os.path.isdir(os.path.join(self.root, GIT_FOLDER)):
            return ()
        # Further files for ripgrep alone may take back what git ignores.
        if any(os.path.lexists(os.path.join(self.root, name)) for name in _IGNORE_FILES[1:]):
            return ()
        try:
            text = read_beneath(self.project.root, ".gitignore", MOST_IGNORE_BYTES)
        except FileNotFoundError:
            return ()
        return tuple(text.decode("utf-8", "surrogateescape").splitlines())

    def _own_settings(self, folder: str, access: Access) -> None:
        """Raise Objection where the settings of a repository hold a password, and would be read."""
        if access is Access.TREE_UNIGNORED:
            return  # the agent's own search leaves `.git` out
        facts = repository_facts(folder)
        if facts.objection or facts.has_password:
            raise Objection(
                "the settings of the repository, which may hold secrets, would be read", Effect.SECRETS
            )

    def _repository(self, folder: str) -> str:
        """Return the folder of the work tree. Raises Objection where git may do more than read there."""
        start = self._real(folder or ".", "")
        self._within(start, "the git repository")
        top = repository_of(start, self.root)
        check_repository(top, self.root)
        return top


def _would_be_read(name: str) -> Objection:
    return Objection(f"{name!r}, which usually holds secrets, would be read", Effect.SECRETS)
