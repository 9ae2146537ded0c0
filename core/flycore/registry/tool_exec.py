"""The `exec` of an entry or a manifest: what is run, with the checks that no schema can express.

A registry and a manifest have the same `exec`, and both are read here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

import msgspec

from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.placeholders import malformed, names_in, pieces_of, templates_in, whole_name
from flycore.model.sidecar import DEFAULT_TIMEOUT_MS, Permissions
from flycore.model.tool_exec import (
    CommandExec,
    HttpExec,
    OutputFormat,
    PythonExec,
    ResponseField,
    SecretType,
    ToolExec,
)
from flycore.model.url_template import parse_template
from flysafe.web_requests import InvalidHeader, read_headers
from flysafe.web_urls import InvalidWebUrl

PYTHON = "python3"
"""The interpreter of a function whose `exec` names no virtual environment."""
_FORMATS = {item.value: item for item in OutputFormat}


class Findings(Protocol):
    """Collects problems of one entry or manifest; `below` is a pointer that starts at its value."""

    def add(self, below: str, rule: str, message: str, remedy: str) -> None:
        """Add an error."""
        ...

    def warn(self, below: str, rule: str, message: str, remedy: str) -> None:
        """Add a finding that does not make it invalid."""
        ...


class ExecParts(NamedTuple):
    """What an `exec` gives to its entry."""

    exec: ToolExec
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    working_dir: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS


class ExecNames(NamedTuple):
    """The names that placeholders may have."""

    inputs: frozenset[str]
    secrets: frozenset[str]


def names_of(input_schema: Json, permissions: Permissions) -> ExecNames:
    """Return the names that an `exec` may use: the properties of the input, and the declared secrets."""
    properties = input_schema.get("properties") if isinstance(input_schema, dict) else None
    inputs = frozenset(properties) if isinstance(properties, dict) else frozenset[str]()
    return ExecNames(inputs, frozenset(permissions.secrets))


def parse_exec(raw: JsonObject, output_format: OutputFormat | None = None) -> ExecParts:
    """Return what the `exec` says, which the schema and `check_exec` have accepted.

    `output_format` is what the tool says of its output; the format of the `exec` itself wins.
    """
    ((kind, value),) = raw.items()
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    timeout = fields.get("timeout_ms", DEFAULT_TIMEOUT_MS)
    if kind == "http":
        parsed = _http(fields, output_format or OutputFormat.JSON)
        return ExecParts(parsed, url=parsed.url, headers=parsed.headers, timeout_ms=timeout)
    folder = _folder(fields.get("cwd", "."))
    if kind == "command":
        stated = _FORMATS.get(fields.get("stdout", {}).get("format", ""))
        return ExecParts(
            CommandExec(
                format=stated or output_format or OutputFormat.TEXT,
                exit_codes_ok=tuple(fields.get("exit_codes_ok", (0,))),
            ),
            command=_entrypoint(fields["entrypoint"]),
            args=tuple(_argument(item) for item in fields.get("args", ())),
            working_dir=folder,
            timeout_ms=timeout,
        )
    python = PythonExec(
        module=fields["module"],
        function=fields["function"],
        args=fields.get("args", []),
        venv=_folder(fields.get("venv", "")),
        format=_FORMATS.get(fields.get("return", "")) or output_format or OutputFormat.JSON,
    )
    command = f"./{python.venv}/bin/python" if python.venv else PYTHON
    return ExecParts(python, command=command, working_dir=folder, timeout_ms=timeout)


def _http(fields: dict[str, Any], output_format: OutputFormat) -> HttpExec:
    response = fields.get("response", {})
    return HttpExec(
        method=fields.get("method", "GET"),
        url=fields["url"],
        headers=fields.get("headers", {}),
        query=fields.get("query", {}),
        body=fields.get("body", msgspec.UNSET),
        json_path=response.get("json_path", ""),
        fields=tuple(ResponseField(name=one["name"], path=one["path"]) for one in response.get("fields", ())),
        format=output_format,
    )


def _folder(path: str) -> str:
    """Return a relative folder in its shortest form; empty for the app root itself."""
    made = posixpath.normpath(path) if path else "."
    return "" if made == "." else made


def _entrypoint(text: str) -> str:
    """Return the program as the registry writes commands: a path with `./`, or a bare name."""
    return text if "/" not in text or text.startswith("./") else f"./{text}"


def _argument(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


SecretFields = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, SecretType], ...]]


def secret_fields(declared: Json) -> SecretFields:
    """Return the names of the declared secrets, those that are optional, and the types of those that are no
    plain text. `declared` is a list of names, or an object of names with `type` and `required`."""
    if not isinstance(declared, dict):
        names = declared if isinstance(declared, list) else []
        return tuple(str(name) for name in names), (), ()
    facts = {name: value if isinstance(value, dict) else {} for name, value in declared.items()}
    optional = tuple(name for name, fact in facts.items() if fact.get("required") is False)
    types = ((name, SecretType(str(fact.get("type", "string")))) for name, fact in facts.items())
    return tuple(facts), optional, tuple(pair for pair in types if pair[1] is not SecretType.STRING)


# Checks.


def check_exec(
    raw: dict[str, Any], kind: str, names: ExecNames, permissions: Permissions, findings: Findings
) -> None:
    """Add every problem of an `exec` that the schema accepts. `kind` is that of the entry or manifest."""
    if set(raw) != {kind}:
        remedy = f"write exec.{kind} and nothing beside it, or correct kind"
        findings.add("/exec", "exec-kind", f"must hold exactly {kind}, which kind names", remedy)
        return
    below, fields = f"/exec/{kind}", raw[kind]
    _check_templates(fields, below, kind, names, findings)
    for name in sorted(names.inputs & names.secrets):
        remedy = "rename the input"
        findings.add("", "placeholder-ambiguous", f"{name} is both an input and a secret", remedy)
    if kind == "http":
        _check_http(fields, below, names, permissions, findings)
    elif kind == "command":
        _check_entrypoint(fields["entrypoint"], f"{below}/entrypoint", findings)
        _check_relative(fields.get("cwd", "."), f"{below}/cwd", findings)
        _check_arguments(fields.get("args", []), f"{below}/args", names, findings)
    else:
        _check_relative(fields.get("cwd", "."), f"{below}/cwd", findings)
        _check_relative(fields.get("venv", "."), f"{below}/venv", findings)


_FILLED = {
    "http": ("url", "headers", "query", "body"),
    "command": ("args",),
    "python": ("args",),
}
"""The keys whose texts are templates."""


def _check_templates(
    fields: dict[str, Any], below: str, kind: str, names: ExecNames, findings: Findings
) -> None:
    known = names.inputs | names.secrets
    for pointer, text in templates_in(fields, below):
        key = pointer.removeprefix(f"{below}/").partition("/")[0]
        if malformed(text):
            remedy = "write ${name}, with letters, digits and _ . - in the name"
            findings.add(pointer, "placeholder-form", "has a ${ that begins no placeholder", remedy)
        used = [name for name in names_in(text) if name not in known]
        if key not in _FILLED[kind] and names_in(text):
            allowed = ", ".join(_FILLED[kind])
            findings.add(pointer, "placeholder-place", "may hold no placeholder", f"only {allowed} may")
        elif used:
            remedy = "add it to the properties of the input, or to permissions.secrets"
            said = f"{', '.join(used)} is neither an input nor a declared secret"
            findings.add(pointer, "placeholder-unknown", said, remedy)


def _check_http(
    fields: dict[str, Any], below: str, names: ExecNames, permissions: Permissions, findings: Findings
) -> None:
    if not permissions.network:
        remedy = "write network: true in permissions"
        findings.add("/permissions", "network-undeclared", "does not declare the network it uses", remedy)
    if permissions.read or permissions.write:
        said = "names files, but an HTTP request reads and writes none"
        findings.warn("/permissions/fs", "no-files", said, "remove fs")
    try:
        parse_template(fields["url"])
    except InvalidWebUrl as refused:
        remedy = "write it as https://host/path; a value belongs into the path, the query or the body"
        findings.add(f"{below}/url", "url", str(refused), remedy)
    if secrets := [name for name in names_in(fields["url"]) if name in names.secrets]:
        said = f"puts the secret {secrets[0]} into the address, which servers write into their logs"
        findings.warn(f"{below}/url", "secret-in-url", said, "send it in a header")
    _check_headers(fields.get("headers", {}), f"{below}/headers", findings)
    body = fields.get("body")
    if isinstance(body, str) and names_in(body) and not whole_name(body):
        remedy = "write the body as keys and values, each with its placeholder"
        said = "mixes text and placeholders, so that a value could change its structure"
        findings.add(f"{below}/body", "body-text", said, remedy)
    if body is not None and fields.get("method", "GET") in ("GET", "HEAD"):
        findings.add(f"{below}/body", "body-of-get", "a GET or HEAD has no body", "remove it, or write POST")
    path = fields.get("response", {}).get("json_path", "")
    if "" in path.split(".") and path:
        pointer = f"{below}/response/json_path"
        findings.add(pointer, "json-path", "has a step without a name", "remove the extra dot")


def _check_headers(headers: dict[str, str], below: str, findings: Findings) -> None:
    seen: dict[str, str] = {}
    for name, text in headers.items():
        literal = "".join(piece.text for piece in pieces_of(text))
        try:
            read_headers({name: literal})
        except InvalidHeader as refused:
            remedy = "write one line of ASCII, and leave the headers to flytui that carry the message"
            findings.add(pointer_join(below, name), "header", str(refused), remedy)
        if name.lower() in seen:
            said = f"is the same header as {seen[name.lower()]}"
            findings.add(pointer_join(below, name), "header", said, "keep one of the two")
        seen[name.lower()] = name


def _check_entrypoint(text: str, below: str, findings: Findings) -> None:
    if names_in(text):
        return  # reported by the check of the templates
    if text.startswith(("/", "~")):
        remedy = "write a path below the app root, such as ./scripts/run.sh, or a bare name that is on PATH"
        findings.add(below, "absolute-path", "is absolute, and never runs", remedy)
    elif ".." in text.split("/"):
        findings.add(below, "outside-root", "leads out of the app root", "write a path below the app root")


def _check_relative(path: str, below: str, findings: Findings) -> None:
    if path.startswith(("/", "~")):
        remedy = "write a path that starts at the app root"
        findings.add(below, "absolute-path", "is absolute, and is refused", remedy)
    elif ".." in path.split("/"):
        findings.add(below, "outside-root", "leads out of the app root", "write a path below the app root")


def _check_arguments(args: list[Json], below: str, names: ExecNames, findings: Findings) -> None:
    for number, item in enumerate(args):
        used = names_in(item) if isinstance(item, str) else ()
        if secrets := [name for name in used if name in names.secrets]:
            said = f"puts the secret {secrets[0]} on the command line, which other programs can read"
            remedy = "the program is given it as a variable of its environment"
            findings.warn(pointer_join(below, number), "secret-in-argument", said, remedy)


def check_files(paths: Collection[str], below: str, findings: Findings) -> None:
    """Add a problem for each path of a manifest's permissions that does not start at the app root."""
    for number, path in enumerate(paths):
        _check_relative(path, pointer_join(below, number), findings)


def check_approval(approval: dict[str, Any], below: str, findings: Findings) -> None:
    """Add an error where an approval is required and no reason is given."""
    if approval.get("required") is True and not approval.get("reason", "").strip():
        remedy = "write reason: and, in words for a person, why each call is asked about"
        findings.add(below, "approval-reason", "is required, but gives no reason", remedy)
