"""Delegates as older registries named them: keys of `config`, read for the bundled sidecars only."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.model.json import Json
from flycore.model.sidecar import Delegate

BUNDLED = frozenset(
    {"browser.cdp", "web.search", "media.local", "computer.native", "utility.local", "mock.echo"}
)
"""Ids of the sidecars that ship; only their `config` is known well enough to be read."""

_COMMANDS = {
    "mouseCommand": ("mouse", "mouseArgs"),
    "keyboardCommand": ("keyboard", "keyboardArgs"),
    "lspCommand": ("lsp", "lspArgs"),
    "taskCommand": ("task", "taskArgs"),
    "delegateCommand": ("delegate", "delegateArgs"),
}


def legacy_delegates(sidecar: str, config: Mapping[str, Json]) -> dict[str, tuple[str, Delegate]]:
    """Delegates by name, each with the `config` key it was read from. `localCommands` is an object of
    name → command, argv list, or `{command, args}`."""
    found: dict[str, tuple[str, Delegate]] = {}
    if sidecar not in BUNDLED:
        return found
    for key, (name, arguments) in _COMMANDS.items():
        delegate = _delegate({"command": config.get(key), "args": config.get(arguments, [])})
        if delegate is not None:
            found[name] = key, delegate
    local = config.get("localCommands")
    for name, value in (local if isinstance(local, dict) else {}).items():
        delegate = _delegate(value)
        if delegate is not None:
            found.setdefault(name, ("localCommands", delegate))
    return found


def _delegate(value: Json) -> Delegate | None:
    if isinstance(value, str):
        value = {"command": value}
    elif isinstance(value, list) and value:
        value = {"command": value[0], "args": value[1:]}
    if not isinstance(value, dict):
        return None
    command, args = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not command or not isinstance(args, list):
        return None
    return Delegate(command=command, args=tuple(item for item in args if isinstance(item, str)))
