"""The environment of a child: an allow-list, built from nothing, never a copy of the kernel's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Permissions, SidecarEntry

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
SHORTEST_SECRET = 8
"""Characters. A shorter value cannot be masked without masking ordinary text."""
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
    """Everything the child will find in its environment. `environ` is the kernel's own.

    What the entry sets wins over what is passed, secrets win over both; the two names by which the kernel
    finds its children are set last.
    """
    passed = [*_PASSED, *(name for name in environ if name.startswith("LC_"))]
    if entry.permissions.desktop:
        passed += _PASSED_TO_DESKTOP
    environment = {"PATH": search_path(program)}
    environment.update({name: environ[name] for name in (*passed, *entry.pass_env) if name in environ})
    environment.update(entry.env)
    environment.update(secrets)
    environment["FLYTUI_TOOL_MODE"] = "subprocess"
    environment["FLYTUI_CALL_ID"] = call_id
    return environment


def search_path(program: ResolvedProgram) -> str:
    """PATH of the child: the folders of the command and its interpreter, then the system's own."""
    return ":".join(dict.fromkeys((*_folders(program), *SYSTEM_PATH)))


def declared_secrets(
    permissions: Permissions, environ: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Values of the declared secrets, and for each one that cannot be had the reason, by name."""
    values: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name in permissions.secrets:
        value = environ.get(name, "")
        if not value:
            missing[name] = "not set"
        elif len(value) < SHORTEST_SECRET:
            missing[name] = f"shorter than {SHORTEST_SECRET} characters: it could not be masked"
        else:
            values[name] = value
    return values, missing


def _folders(program: ResolvedProgram) -> Iterator[str]:
    for path in (program.path, *program.interpreter_argv[:1], program.interpreter):
        folder = os.path.dirname(path)
        if os.path.isabs(folder) and ":" not in folder:
            yield folder
