"""Turns an MCP server in the file of another client into an entry of the project's registry, without IO.

Values that look like secrets are never copied: the entry declares their names, and flytui passes the values
on from its own environment. A server that a registry cannot describe is refused with a reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from flycore.discovery.diagnostics import shorten
from flycore.discovery.secret_detection import secret_arguments, secret_header, secret_url, secret_variable
from flycore.model.described import Import
from flycore.model.diagnostics import Severity
from flycore.model.enums import Source
from flycore.model.json import JsonObject, digest
from flycore.registry.names import RESERVED_PREFIX, free_id, is_builtin, looks_secret
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import REGISTRY_FILE

FETCHERS = ("npx", "uvx", "pipx", "bunx", "pnpx", "docker", "podman", "deno", "npm", "pnpm", "yarn", "uv")
"""Programs that download the program that they start, and so need the network."""
_NODE_CACHE = ("~/.npm",)
_UV_CACHE = ("~/.cache/uv", "~/.local/share/uv")
CACHES = {
    "npx": _NODE_CACHE,
    "npm": _NODE_CACHE,
    "uvx": _UV_CACHE,
    "uv": _UV_CACHE,
    "bunx": ("~/.bun/install/cache",),
    "pipx": ("~/.cache/pipx", "~/.local/share/pipx", "~/.local/pipx"),
}
"""The folders in which such a program keeps what it has downloaded, where no variable names another."""
CERTIFICATE_FILES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "CARGO_HTTP_CAINFO", "PIP_CERT", "NPM_CONFIG_CAFILE"),
)
"""Variables that name a file or a folder of certificates, which the server has to read."""
MOST_ENTRY = 16 * 1024
"""Most characters of an entry."""
_PLACEHOLDER = re.compile(r"\$\{")
_WHOLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_SCHEME = re.compile(r"(Bearer|Basic|Token|token|bearer)\s+")
_ARGUMENT = "one of its arguments"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ImportRefused(Exception):
    """The server cannot be imported. `why` is the reason and `remedy` what a person can do."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


class _EntryDraft(msgspec.Struct):
    """The parts of an entry that is not complete yet."""

    server: str
    app_root: str
    entry: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "mcp"})
    secrets: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


def entry_id(name: str) -> str:
    """Return the name of a server as the id of an entry; empty where no character of it is allowed."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:64]


def import_proposal(name: str, raw: dict[str, Any], app_root: str, known: frozenset[str]) -> Import:
    """Return the entry that an import would write for the server.

    `known` holds the names of the known capabilities. Raises ImportRefused.
    """
    sidecar = entry_id(name)
    if not sidecar:
        raise ImportRefused(
            "its name has no letter or digit that an id may have", "give it another name in that file"
        )
    notes: list[str] = []
    if is_builtin(f"{sidecar}."):
        # A tool with such a name is the kernel's own, so none of the server's would be in the catalog.
        free = free_id(sidecar)
        notes.append(f"{sidecar} → {free}: names that begin with {sidecar}. belong to the kernel's tools")
        sidecar = free
    draft = _EntryDraft(sidecar, app_root, notes=notes)
    if isinstance(raw.get("url"), str):
        _remote(draft, raw)
    else:
        _local(draft, raw)
    permissions: dict[str, Any] = {"network": True} if draft.network else {}
    files = {key: list(paths) for key, paths in (("read", draft.read), ("write", draft.write)) if paths}
    if files:
        permissions["fs"] = files
    if draft.secrets:
        permissions["secrets"] = list(dict.fromkeys(draft.secrets))
    draft.entry["permissions"] = permissions
    _check_with_registry(sidecar, draft.entry, known)
    entry: JsonObject = draft.entry
    return Import(
        id=sidecar, entry=entry, digest=import_digest(sidecar, entry), notes=tuple(dict.fromkeys(draft.notes))
    )


def import_digest(sidecar: str, entry: JsonObject) -> str:
    """Return the digest of the id and the entry that would be written."""
    return digest([sidecar, entry])


def _local(draft: _EntryDraft, raw: dict[str, Any]) -> None:
    command = raw.get("command")
    if not isinstance(command, str) or not command.strip():
        raise ImportRefused(
            "it has neither a command nor an address", 'write "command" or "url" in that file'
        )
    args = tuple(arg for arg in raw.get("args", ()) if isinstance(arg, str))
    _check_plain("its command", command)
    for arg in args:
        _check_plain(_ARGUMENT, arg)
    hidden = secret_arguments(args)
    if hidden:
        raise ImportRefused(
            f"argument {hidden[0] + 1} looks like a secret, and a registry must not hold secrets",
            "pass it to the server in a variable of its env instead",
        )
    draft.entry["command"] = _command(command, draft)
    if args:
        draft.entry["args"] = list(args)
    if raw.get("cwd") not in (None, "", ".", draft.app_root, "${workspaceFolder}"):
        raise ImportRefused("it is started in another folder", "start it in the project's own folder")
    _propose_permissions(draft, os.path.basename(command), args)
    _variables(draft, _texts(raw.get("env")))


def _propose_permissions(draft: _EntryDraft, runner: str, args: tuple[str, ...]) -> None:
    """Propose what the server may reach: the network and a cache for what downloads its program, and the
    folders that its arguments name. A person sees all of it before it is written."""
    if runner in FETCHERS:
        draft.network = True
        draft.notes.append(f"network is permitted: {runner} downloads the program that it starts")
    else:
        draft.notes.append("network is not permitted: add it to permissions if the server needs it")
    draft.write = CACHES.get(runner, ())
    if draft.write:
        draft.notes.append(f"{runner} may write where it keeps downloads: {', '.join(draft.write)}")
    named = (value for arg in args if (value := _path_in(arg)))
    draft.read = tuple(path for path in dict.fromkeys(named) if path.rstrip("/") not in ("", "~"))
    if draft.read:
        draft.notes.append(
            f"it may read what its arguments name, but not write it: {shorten(', '.join(draft.read), 200)}"
        )


def _path_in(argument: str) -> str:
    """Return the path that the argument is or sets; empty where it is none, or one that leads upwards."""
    value = argument.partition("=")[2] if argument.startswith("-") else argument
    is_path = value.startswith(("/", "~/", "./")) or value == "."
    return value if is_path and ".." not in value.split("/") else ""


def _command(command: str, draft: _EntryDraft) -> str:
    """Return the command as a registry writes it: a name on PATH, or a path below the app root."""
    if ".." in command.split("/"):
        raise ImportRefused(
            "its command leads outside the project", "write the bare name of a program in that file"
        )
    if command.startswith("/"):
        below = f"{draft.app_root}/"
        if not command.startswith(below):
            raise ImportRefused(
                f"its command is the absolute path {command[:80]}",
                "write the bare name of a program on PATH in that file, or put the program into the project",
            )
        command = command.removeprefix(below)
        draft.notes.append("its absolute path becomes a path below the project's folder")
        return f"./{command}"
    if "/" in command and not command.startswith("./"):
        return f"./{command}"
    return command


def _variables(draft: _EntryDraft, env: dict[str, str]) -> None:
    kept: dict[str, str] = {}
    passed: list[str] = []
    for name, value in sorted(env.items()):
        whole = _WHOLE.fullmatch(value)
        if _VARIABLE.fullmatch(name) is None or name.startswith(RESERVED_PREFIX):
            draft.notes.append(
                f"its variable {name[:80]} is left out: flytui cannot set a variable of that name"
            )
        elif secret_variable(name, "" if whole else value):
            draft.secrets.append(name)
            draft.notes.append(_secret_note(name, whole[1] if whole else ""))
        elif whole and whole[1] == name:
            passed.append(name)
            if name in CERTIFICATE_FILES:
                draft.notes.append(
                    f"{name} names certificates: add the file that it names in your environment to "
                    "permissions.fs.read"
                )
        elif _PLACEHOLDER.search(value):
            raise ImportRefused(
                f"its variable {name[:80]} is made from other variables", "write its value in that file"
            )
        else:
            kept[name] = value
            if name in CERTIFICATE_FILES and _path_in(value):
                draft.read = tuple(dict.fromkeys((*draft.read, _path_in(value))))
                draft.notes.append(f"it may read the certificates that {name} names: {shorten(value, 200)}")
    if kept:
        draft.entry["env"] = kept
    if passed:
        draft.entry["passEnv"] = passed
        names = shorten(", ".join(passed), 200)
        draft.notes.append(f"it gets from the environment of flytui, if they are set there: {names}")
    if kept or passed:
        names = ", ".join(sorted((*kept, *passed)))
        draft.notes.append(
            f"it sets environment variables, which may change what runs: {shorten(names, 200)}"
        )


def _secret_note(name: str, other: str) -> str:
    note = f"the value of {name} is not copied: set {name} where flytui is started"
    return f"{note} (that file takes it from {other})" if other and other != name else note


def _remote(draft: _EntryDraft, raw: dict[str, Any]) -> None:
    url = raw["url"]
    _check_plain("its address", url)
    if secret_url(url):
        raise ImportRefused("its address contains a probable secret", "send it in a header instead")
    if not re.match(r"https?://[^/]", url):
        raise ImportRefused("its address is neither http nor https", "write an address that is")
    if raw.get("type") == "sse" or raw.get("transport") == "sse":
        raise ImportRefused(
            "it uses the older transport sse", "write the address at which it uses streamable HTTP"
        )
    draft.entry["url"] = url
    draft.network = True
    headers = {
        name: _header(draft, name, value) for name, value in sorted(_texts(raw.get("headers")).items())
    }
    if headers:
        draft.entry["headers"] = headers


def _header(draft: _EntryDraft, name: str, value: str) -> str:
    """Return the value of the header for the registry, with a placeholder in place of a secret."""
    scheme = _SCHEME.match(value)
    prefix, rest = (scheme[0], value[scheme.end() :]) if scheme else ("", value)
    whole = _WHOLE.fullmatch(rest)
    if whole:
        draft.secrets.append(whole[1])
        return f"{prefix}${{{whole[1]}}}"
    if _PLACEHOLDER.search(value):
        raise ImportRefused(
            f"its header {name[:80]} is made from several parts", "write a single placeholder in that file"
        )
    if not secret_header(name, value):
        return value
    variable = re.sub(r"[^A-Z0-9]+", "_", f"{draft.server}_{name}".upper()).strip("_")
    variable = variable if looks_secret(variable) else f"{variable}_SECRET"
    variable = variable if variable[0].isalpha() else f"MCP_{variable}"
    draft.secrets.append(variable)
    draft.notes.append(
        f"the value of the header {name[:80]} is not copied: set {variable} where flytui is started"
    )
    return f"{prefix}${{{variable}}}"


def _check_plain(what: str, text: str) -> None:
    """Raise ImportRefused for text with placeholders, or with characters that a person cannot see."""
    if not text.isprintable() and what != _ARGUMENT:
        raise ImportRefused(f"{what} has invisible characters", "remove them in that file")
    if _PLACEHOLDER.search(text):
        raise ImportRefused(
            f"{what} has a placeholder, which flytui replaces in headers only",
            "write its value in that file",
        )


def _texts(value: object) -> dict[str, str]:
    items: Iterator[tuple[object, object]] = iter(value.items() if isinstance(value, dict) else ())
    return {name: text for name, text in items if isinstance(name, str) and isinstance(text, str)}


def _check_with_registry(sidecar: str, entry: JsonObject, known: frozenset[str]) -> None:
    """Parse the entry as a registry would. Raises ImportRefused where that finds an error."""
    import json

    text = json.dumps({"schemaVersion": 2, "sidecars": {sidecar: entry}})
    if len(text) > MOST_ENTRY:
        raise ImportRefused("it is too large for an entry", "shorten it in that file")
    entries, found = parse_registry(text, REGISTRY_FILE, Source.PROJECT, known)
    problems = [*found, *(problem for one in entries or () for problem in one.problems)]
    fault = next((problem for problem in problems if problem.severity is Severity.ERROR), None)
    if fault is not None:
        raise ImportRefused(f"a registry does not accept it: {fault.message}", fault.remedy)
