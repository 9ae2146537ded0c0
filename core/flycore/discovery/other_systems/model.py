"""What a system contributes: its files, the check of one of them, and its part of a migration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from flycore.discovery.search_folder import SearchFolder
from flycore.discovery.secret_detection import secret_value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.migration import MigrationLine, Verdict
from flycore.registry.names import looks_secret
from flycore.registry.yaml_text import read_yaml

if TYPE_CHECKING:
    from flycore.discovery.scan import SearchRoots

NO_ID = "its name has no letter or digit that an id may have"
"""Why a tool gets no entry."""
MOST_FINDINGS = 50
"""Most findings of one file."""
MOST_BYTES = 64 * 1024
"""Most bytes of a file of another system. Reading a few hundred KiB of hostile YAML takes many seconds."""


class FoundFile(NamedTuple):
    """A file, by its folder and its path in it."""

    folder: SearchFolder
    relative: str

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.folder.shown(self.relative)


class Places:
    """A parsed file of another system, with the place of each part. Adds findings about it."""

    def __init__(self, file: str, value: Json, nearest: Callable[[str], Position]) -> None:
        self.file, self.value, self._nearest = file, value, nearest
        self.found: list[Diagnostic] = []

    def position(self, pointer: str) -> Position:
        """Return the position of the value at `pointer`, or of the nearest one around it."""
        return self._nearest(pointer)

    def at(self, pointer: str) -> str:
        """Return `file:line:column` of the value at `pointer`."""
        return str(self._nearest(pointer))

    def add(
        self, pointer: str, rule: str, message: str, remedy: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Add a finding. The message has no value of the file, which may be a secret."""
        if len(self.found) < MOST_FINDINGS:
            self.found.append(
                Diagnostic(
                    severity=severity,
                    rule=rule,
                    message=message,
                    remedy=remedy,
                    pointer=pointer,
                    position=self._nearest(pointer),
                )
            )

    def warn(self, pointer: str, rule: str, message: str, remedy: str) -> None:
        """Add a warning."""
        self.add(pointer, rule, message, remedy, Severity.WARNING)

    def inform(self, pointer: str, rule: str, message: str, remedy: str) -> None:
        """Add a note."""
        self.add(pointer, rule, message, remedy, Severity.INFO)


def yaml_places(text: str, shown: str, rule: str, example: str) -> Places:
    """Return a YAML file with its places, and the problems of its syntax. A file that is no mapping has the
    problem `rule`, and reads as an empty one."""
    source = read_yaml(text, shown)
    value = source.value if source.value is not None else {}
    file = Places(shown, value if isinstance(value, dict) else {}, source.nearest_position)
    file.found += source.problems
    if not source.problems and not isinstance(value, dict):
        file.add("", rule, "the file must be a mapping", example)
    return file


class Migration(msgspec.Struct):
    """Collects what a migration would write, before the target files are looked at."""

    app_root: Path
    home: Path | None
    system: str
    known: frozenset[str]
    """Names of the known capabilities."""
    lines: list[MigrationLine] = msgspec.field(default_factory=list)
    search_paths: list[tuple[str, MigrationLine]] = msgspec.field(default_factory=list)
    settings: list[tuple[str, Json, MigrationLine]] = msgspec.field(default_factory=list)
    """Values of `tools/config.jsonc`: JSON pointer, value, and the line about it."""
    entries: list[tuple[str, JsonObject, MigrationLine]] = msgspec.field(default_factory=list)
    additions: list[tuple[str, JsonObject, MigrationLine]] = msgspec.field(default_factory=list)
    """Keys that an entry of the project's registry gets, by its id."""
    needs_registry: bool = False
    """Whether a registry that is written takes the place of an older one, whose entries are in `entries`."""
    manifests: list[tuple[str, str, MigrationLine]] = msgspec.field(default_factory=list)
    """Tool manifests: name, text, and the line about it."""

    def line(
        self, verdict: Verdict, source: str, subject: str, text: str = "", target: str = ""
    ) -> MigrationLine:
        """Return a line of this system."""
        return MigrationLine(
            system=self.system, source=source, subject=subject, verdict=verdict, target=target, text=text
        )

    def cannot(self, source: str, subject: str, why: str) -> None:
        """Add that something cannot be carried over."""
        self.lines.append(self.line(Verdict.CANNOT, source, subject, why))

    def as_is(self, source: str, subject: str, text: str) -> None:
        """Add that flytui reads something where it is."""
        self.lines.append(self.line(Verdict.AS_IS, source, subject, text))


class OtherSystem(NamedTuple):
    """A row of the table of systems."""

    name: str
    """One word of a-z, the name on the command line and the kind of its files in `lint`."""
    title: str
    names: tuple[str, ...]
    """Ends of paths by which its files are recognised."""
    files: Callable[[SearchRoots], Iterator[FoundFile]]
    """Yields its configuration files, those that are absent included."""
    check: Callable[[str, str], Iterable[Diagnostic]]
    """Returns the findings of a file from its text and its name for people."""
    migrate: Callable[[SearchRoots, Migration], None]
    """Adds its part of a migration. Starts nothing and writes nothing."""


def read_found(found: FoundFile) -> tuple[str | None, Diagnostic | None]:
    """Return the text of a file, or the problem with it; neither where there is no file."""
    read = found.folder.whole(found.relative, MOST_BYTES)
    return read.text, read.problem


def usable_text(
    found: FoundFile, check: Callable[[str, str], list[Diagnostic]], into: Migration
) -> str | None:
    """Return the text of a file without errors; None where there is no file.

    For a file with an error, the migration gets a line with the first one.
    """
    text, problem = read_found(found)
    faults = check(text, found.shown) if text is not None else [problem] if problem is not None else []
    broken = next((one for one in faults if one.severity is Severity.ERROR), None)
    if broken is None:
        return text
    where = str(broken.position) if broken.position is not None else found.shown
    into.cannot(where, found.shown, f"correct it first: {broken.message}")
    return None


def executable_entry(sidecar: str, command: str, description: str) -> JsonObject:
    """Return the entry of a program that describes itself with `--schema`. It is granted nothing."""
    tool: JsonObject = {
        "name": sidecar,
        "description": description or f"The tool {sidecar}; its program describes itself with --schema.",
        "inputSchema": {"type": "object"},
        "approvalClass": ["execute"],
    }
    return {"command": command, "kind": "executable", "permissions": {}, "tools": [tool]}


def secret_findings(file: Places) -> None:
    """Add a warning for each text of the file that is probably a secret, with the name of its key."""
    for pointer, key, text in texts_of(file.value, "", ""):
        if is_secret(key, text):
            file.warn(
                pointer,
                "secret-value",
                f"the value of {key or 'this text'} looks like a secret, and a file must not hold secrets",
                "take it out of the file, and hand it over in an environment variable",
            )


def is_secret(key: str, text: str) -> bool:
    """Return whether the text is probably a secret. A placeholder such as `${NAME}` is none."""
    if not text or "${" in text:
        return False
    return secret_value(text) or (looks_secret(key) and not key.lower().endswith(("tokens", "_keys")))


def texts_of(value: Json, pointer: str, key: str) -> Iterator[tuple[str, str, str]]:
    """Yield (pointer, name of the nearest key, text) for each text."""
    if isinstance(value, str):
        yield pointer, key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts_of(item, pointer_join(pointer, name), name)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from texts_of(item, pointer_join(pointer, number), key)


def project_path(text: str, app_root: Path) -> str | None:
    """Return a path below the app root as relative text; None where it leads elsewhere."""
    if not text or not text.isprintable() or "${" in text:
        return None
    if text.startswith("~"):
        return None
    if text.startswith("/"):
        below = f"{app_root}/"
        if text.rstrip("/") == str(app_root):
            return "."
        if not text.startswith(below):
            return None
        text = text.removeprefix(below)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        return None
    return "/".join(parts) or "."
