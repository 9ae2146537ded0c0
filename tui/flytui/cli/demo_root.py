"""Makes a temporary root for the demo, with folders of its own. flytui itself trusts its only sidecar."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.model.json import Json, JsonObject
from flycore.registry.paths import RootPaths, find_paths

ALLOWED, MEDIUM, HIGH = "demo.allowed", "demo.medium", "demo.high"
SIDECAR = "demo.echo"
TOOLS = {
    ALLOWED: ("medium", "Says hello; this root's user policy allows it"),
    MEDIUM: ("medium", "Says hello; needs you"),
    HIGH: ("high", "Says hello as if it were dangerous; needs you, and a letter"),
}
"""Each tool with its risk and its description, in the order in which the demo calls them."""


class DemoRoot(msgspec.Struct, frozen=True):
    """The root of the demo, and the environment in which a command finds it."""

    places: RootPaths
    environ: dict[str, str]


def prepare_demo(folder: Path, environ: Mapping[str, str]) -> DemoRoot:
    """Make the root in `folder`, which nobody but this user may read, and trust its sidecar."""
    root = folder / "root"
    demo_environ = {key: value for key, value in environ.items() if key != "FLYTUI_ROOT"}
    for variable, name in (
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_RUNTIME_DIR", "run"),
    ):
        (folder / name).mkdir(mode=0o700)
        demo_environ[variable] = str(folder / name)
    (root / "tools").mkdir(parents=True)
    places = find_paths(str(root), None, demo_environ, folder)
    _write(root / "tools" / "external.tools.jsonc", registry())
    places.config_dir.mkdir(parents=True)
    _write(places.config_dir / "policy.jsonc", policy())
    _trust_all(places, demo_environ)
    return DemoRoot(places, demo_environ)


def registry() -> JsonObject:
    """The registry of the demo: the sidecar mock.echo with three names for its tool."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"message": {"type": "string"}, "delayMs": {"type": "integer", "minimum": 0}},
        "required": ["message"],
        "additionalProperties": False,
    }
    tools: list[Json] = [
        {
            "name": name,
            "description": words,
            "inputSchema": schema,
            "approvalClass": "execute",
            "risk": risk,
        }
        for name, (risk, words) in TOOLS.items()
    ]
    entry: JsonObject = {
        "command": "flytui-sidecar",
        "args": ["mock.echo"],
        "permissions": {},
        "tools": tools,
    }
    return {"schemaVersion": 2, "sidecars": {SIDECAR: entry}}


def policy() -> JsonObject:
    """The user's policy in the demo: the harmless tool runs without asking."""
    rule: JsonObject = {"tool": ALLOWED, "decision": "allow", "because": "it only says hello"}
    return {"schemaVersion": 1, "rules": [rule]}


def _write(path: Path, document: JsonObject) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _trust_all(places: RootPaths, environ: Mapping[str, str]) -> None:
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.trust import trust_new_root

    outcome = trust_new_root(places, environ)
    if not outcome.accepted:
        raise OSError(f"the demo's root cannot be trusted: {outcome.why_not}")
