"""The documents of the commands that set flytui up: settings, registries, and the files of other programs."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.described import Import
from flycore.model.diagnostics import Diagnostic
from flycore.model.json import Json
from flycore.model.migration import MigratedFile, MigrationLine
from flytui.cli.document_base import Document as Document


class ListedSetting(Value, frozen=True, kw_only=True):
    """One setting in force."""

    name: str
    value: Json
    default: bool
    where: str = ""
    """`file:line:column` where the file names it, whether it counts or not."""
    problem: str = ""
    """Why the value in the file is not used."""


class ConfigDocument(Document, frozen=True, kw_only=True, tag="flytui.config/1"):
    """The settings in force."""

    file: str
    present: bool
    settings: tuple[ListedSetting, ...]
    diagnostics: tuple[Diagnostic, ...]


class RootPath(Value, frozen=True, kw_only=True):
    """A file or folder of the root."""

    name: str
    path: str
    present: bool


class ConfigPathDocument(Document, frozen=True, kw_only=True, tag="flytui.config-path/1"):
    """The paths of everything that belongs to the root."""

    places: tuple[RootPath, ...]


class LintedFile(Value, frozen=True, kw_only=True):
    """A file that was checked."""

    kind: str
    """What it is, as `lint --as` names it."""
    file: str
    present: bool


class LintDocument(Document, frozen=True, kw_only=True, tag="flytui.lint/1"):
    """All problems in the files that people write, by their kind and in the order of the files."""

    files: tuple[LintedFile, ...]
    errors: int
    warnings: int
    diagnostics: tuple[Diagnostic, ...]


class SwitchDocument(Document, frozen=True, kw_only=True, tag="flytui.switch/1"):
    """What `enable` and `disable` did."""

    sidecar: str
    file: str
    enabled: bool
    """The value in the file now. For an entry that was not found, the opposite of the wanted value."""
    outcome: str
    """`switched`, `unchanged`, `refused` or `unknown`."""
    message: str
    waits: bool = False
    """Whether the changed entry waits for trust."""


class InitTool(Value, frozen=True, kw_only=True):
    """One tool, as it works on this machine."""

    name: str
    state: str
    reason: str
    """Why it is not available; empty where it is."""
    remedy: str
    command: tuple[str, ...]
    """The command that installs what is missing; empty where none is known."""


class InitSidecar(Value, frozen=True, kw_only=True):
    """One entry of the starter registry."""

    id: str
    present: bool
    """Whether the registry had it before."""
    tools: tuple[InitTool, ...]


class InitDocument(Document, frozen=True, kw_only=True, tag="flytui.init/1"):
    """What `init` did."""

    app_root: str
    file: str
    outcome: str
    """`created`, `added`, `unchanged`, `shown`, `printed` or `refused`."""
    text: str
    """The text of the registry, where it was printed."""
    message: str
    written: tuple[str, ...] = ()
    """The entries that were written or, where the outcome is `shown`, that would be."""
    difference: tuple[str, ...] = ()
    """The change of an existing registry, as lines of a unified diff."""
    sidecars: tuple[InitSidecar, ...] = ()
    """The entries that were asked for, and what works of them on this machine."""


class SchemaDocument(Document, frozen=True, kw_only=True, tag="flytui.schema/1"):
    """The copies of schemas that `schema --write` wrote."""

    app_root: str
    written: tuple[str, ...]
    """Files that were absent or different, relative to the app root."""
    message: str = ""
    """Why one could not be written."""


class MigrateDocument(Document, frozen=True, kw_only=True, tag="flytui.migrate/1"):
    """What other systems left, what of it can be carried over, and the files that this changes."""

    app_root: str
    lines: tuple[MigrationLine, ...]
    files: tuple[MigratedFile, ...]
    written: tuple[str, ...]
    """Files that were written."""
    outcome: str
    """`nothing`, `shown`, `written` or `refused`."""
    message: str = ""


class ConnectedFile(Value, frozen=True, kw_only=True):
    """A file of an agent's program, with its difference as lines of a unified diff."""

    file: str
    difference: tuple[str, ...]


class ConnectDocument(Document, frozen=True, kw_only=True, tag="flytui.connect/1"):
    """What `connect` would write into the files of an agent's program, or has written."""

    app_root: str
    client: str
    files: tuple[ConnectedFile, ...]
    outcome: str
    """`nothing`, `shown`, `written` or `refused`."""
    message: str = ""
    token: str = ""
    """With `--http`: the token that was made for the client, which cannot be shown again."""


class ImportDocument(Document, frozen=True, kw_only=True, tag="flytui.import/1"):
    """What `tools import` would write, or has written."""

    app_root: str
    name: str
    file: str
    """The file of the other client; empty where there is no such server."""
    offer: Import | None
    outcome: str
    """`shown`, `imported`, `refused` or `unknown`."""
    message: str = ""
