"""The environment of a child process: an allow-list of variables, never a copy of the kernel's
environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from flycore.model.enums import Anchor, Kind
from flycore.model.json import Json, StrictJsonError, read_strict
from flycore.model.program import ResolvedProgram
from flycore.model.session import CALL_ID_VARIABLE
from flycore.model.sidecar import Permissions, Registry, SidecarEntry
from flycore.model.tool_exec import SecretType
from flycore.registry.resolve import anchor_folder
from flysafe.atomic import private_folder
from flysafe.beneath import open_anchor, open_beneath, real_path_of

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
SHORTEST_SECRET = 8
"""How many characters a secret must have. A shorter one cannot be masked without masking ordinary text."""
LONGEST_SECRET = 65_536
"""How many characters a secret may have. Linux starts no program with a variable of more than 128 KiB."""
READ_ONLY_FOLDER = 0o500
_PASSED = ("HOME", "LANG", "TZ")
_PASSED_TO_DESKTOP = ("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")


def child_environment(
    entry: SidecarEntry,
    program: ResolvedProgram,
    *,
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    call_id: str,
) -> dict[str, str]:
    """The whole environment of the child. `environ` is the kernel's own.

    A variable that the entry sets replaces one that is passed, and a secret replaces either.
    """
    passed = [*_PASSED, *(name for name in environ if name.startswith("LC_"))]
    if entry.permissions.desktop:
        passed += _PASSED_TO_DESKTOP
    environment = {"PATH": search_path(program)}
    environment.update({name: environ[name] for name in (*passed, *entry.pass_env) if name in environ})
    environment.update(entry.env)
    environment.update(secrets)
    # Set last, because no entry may replace them: by the call id the kernel finds the processes of a call,
    # also after a crash.
    environment["FLYTUI_TOOL_MODE"] = "subprocess"
    environment[CALL_ID_VARIABLE] = call_id
    if entry.kind is Kind.EXECUTABLE:
        # Tools that were written for another system look for this one.
        environment["GIBSON_TOOL_MODE"] = "subprocess"
    return environment


def working_folder(entry: SidecarEntry, registry: Registry, empty: Path) -> str:
    """The folder that the entry's processes start in. `empty` is the one without files, which is made where
    it is missing. Raises OSError."""
    # A package of the user is in no project, and the data folder is not its own to write in.
    if entry.cwd not in (Anchor.EMPTY, Anchor.DATA):
        folder = anchor_folder(entry.cwd, registry)
        return _below(folder, entry.working_dir) if entry.working_dir else str(folder)
    # Nobody is meant to write here; whether somebody did is looked at for each seal. A seal holds as long as
    # the folder does not change, so the mode is not set where it is right already.
    private_folder(empty, READ_ONLY_FOLDER)
    return str(empty)


def _below(folder: Path, relative: str) -> str:
    """The real path of a folder below another one. Raises OSError, also where a link leads outside."""
    anchor = open_anchor(folder)
    try:
        found = open_beneath(anchor, relative, os.O_RDONLY | os.O_DIRECTORY, links=True)
    finally:
        os.close(anchor)
    try:
        return real_path_of(found)
    finally:
        os.close(found)


def search_path(program: ResolvedProgram) -> str:
    """The PATH of the child: the folders of the command and its interpreter, then the system's own."""
    return ":".join(dict.fromkeys((*_folders(program), *SYSTEM_PATH)))


def declared_secrets(
    permissions: Permissions, environ: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The values of the declared secrets by name, and the reason for each one that is missing by name.

    `environ` holds the kernel's variables, and what the keyring gave.
    """
    values: dict[str, str] = {}
    missing: dict[str, str] = {}
    types = dict(permissions.secret_types)
    for name in permissions.secrets:
        value = environ.get(name, "")
        if not value and name in permissions.optional_secrets:
            continue
        if not value:
            missing[name] = "not set"
        elif "\0" in value:
            missing[name] = "holds a NUL, which no variable can"
        elif len(value) > LONGEST_SECRET:
            missing[name] = f"longer than {LONGEST_SECRET} characters"
        elif len(value) < SHORTEST_SECRET:
            missing[name] = f"shorter than {SHORTEST_SECRET} characters, so it cannot be masked"
        elif typed_secret(value, types.get(name, SecretType.STRING)) is None:
            missing[name] = f"not of the declared type {types[name]}"
        else:
            values[name] = value
    return values, missing


def typed_secret(text: str, kind: SecretType) -> Json:
    """The value of a secret with its declared type; None where the text is none of that type."""
    if kind is SecretType.STRING:
        return text
    try:
        value = read_strict(text.strip().encode())
    except StrictJsonError:
        return None
    # A bool is an int for Python, and 3.0 is a number that JSON Schema takes for an integer.
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    fits = {
        SecretType.BOOLEAN: isinstance(value, bool),
        SecretType.INTEGER: whole and not isinstance(value, bool),
        SecretType.NUMBER: isinstance(value, int | float) and not isinstance(value, bool),
    }
    return value if fits[kind] else None


def _folders(program: ResolvedProgram) -> Iterator[str]:
    for path in (program.path, *program.interpreter_argv[:1], program.interpreter):
        folder = os.path.dirname(path)
        if os.path.isabs(folder) and ":" not in folder:
            yield folder
