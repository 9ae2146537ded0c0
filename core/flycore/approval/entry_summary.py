"""A summary of a registry entry: lines that say what trusting it would let run.

Each line holds one fact, and every value is whole. Strings are quoted as JSON, so that no value can pass for
another line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from flycore.model.enums import Kind, PathState
from flycore.model.json import Json
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.tool_exec import HttpExec, PythonExec
from flycore.model.url_template import literal_host
from flycore.registry.loader_environment import loader_of

COMMAND = ""
"""The key of the entry's own command among the resolved programs. Delegates are found by their names."""


def describe_entry(entry: SidecarEntry, resolutions: Mapping[str, ResolvedProgram]) -> tuple[str, ...]:
    """Return the lines: command and delegates with the programs they resolve to, tools, permissions,
    environment, and the rest of the entry."""
    return tuple(_lines(entry, resolutions))


def _lines(entry: SidecarEntry, resolutions: Mapping[str, ResolvedProgram]) -> Iterator[str]:
    if isinstance(entry.exec, HttpExec):
        yield from _request(entry.exec)
    elif isinstance(entry.exec, PythonExec):
        yield from _function(entry.exec, resolutions.get(COMMAND))
    elif entry.url:
        yield f"url {_quoted(entry.url)}"
    else:
        yield f"command {_command(entry.command, entry.args, resolutions.get(COMMAND))}"
    for name, value in sorted(entry.headers.items()):
        yield f"header {_quoted(name)} = {_quoted(value)}"
    for name, delegate in sorted(entry.delegates.items()):
        followed = _command(delegate.command, delegate.args, resolutions.get(name))
        yield f"delegate {_quoted(name)} {followed}"
    if isinstance(entry.exec, HttpExec):
        yield f"kind {entry.kind.value}, sent by flytui itself"
    else:
        within = f", in its folder {_quoted(entry.working_dir)}" if entry.working_dir else ""
        yield f"kind {entry.kind.value}, started in the {entry.cwd.value} folder{within}"
    yield f"tools {_tools(entry)}"
    for claim in entry.tools:
        approval = (claim.spec or {}).get("approval")
        if isinstance(approval, dict) and approval.get("required") is True:
            yield f"asks about each call of {_quoted(claim.name)}: {_quoted(approval.get('reason', ''))}"
    yield from _permissions(entry)
    for name, value in sorted(entry.env.items()):
        reader = loader_of(name)
        read = f", which {reader} reads to find code" if reader else ""
        yield f"environment {_quoted(name)} = {_quoted(value)}{read}"
    if entry.pass_env:
        yield f"environment taken from flytui's: {', '.join(_quoted(name) for name in entry.pass_env)}"
    if entry.config:
        yield f"config {_quoted(entry.config)}"
    for own, name in sorted(entry.rename.items()):
        yield f"its tool {_quoted(own)} is called {entry.id}.{name}"
    if entry.restarts_on_cancel:
        yield "restarted, for every caller, where it does not end a cancelled call"
    if entry.samples:
        yield "asks the models of the clients that call it, each time after your yes"
    if entry.seal_in_place:
        yield "runs in place: its seal is partial"
    if entry.creator:
        yield f"made by the agent {_quoted(entry.creator)}; what it wrote:"
        written = json.dumps(entry.raw, ensure_ascii=False, indent=2, sort_keys=True)
        yield from (f"  {line}" for line in written.splitlines())
    position = entry.position
    if entry.source.discovered:
        yield f"found in {_quoted(entry.file)}"
        return
    yield f"declared in {_quoted(position.file)} line {position.line}"


def _tools(entry: SidecarEntry) -> str:
    """Return the names of the tools; of an MCP server, those that the entry picks."""
    # What the program offers is known only when it runs, and it does not run before it is trusted.
    if entry.kind is Kind.EXECUTABLE and entry.picked is None:
        return (
            "those that it names when it is asked with --schema, once it is trusted; tools that are new or "
            "changed later wait for you"
        )
    if entry.kind is Kind.MCP and entry.picked is None:
        return (
            "all that the server offers when it is trusted; tools that are new or changed later wait for you"
        )
    described = entry.kind in (Kind.MCP, Kind.EXECUTABLE)
    names = entry.tool_names if not described else tuple(pick.name for pick in entry.picked or ())
    return ", ".join(_quoted(name) for name in names) or "none"


def _command(command: str, args: tuple[str, ...], program: ResolvedProgram | None) -> str:
    words = " ".join(_quoted(word) for word in (command, *args))
    if program is None:
        return words
    if program.state is PathState.UNRESOLVED:
        return f"{words} → not there now, but a program that is put there later would run"
    if program.state is not PathState.RESOLVED:
        return f"{words} → {program.state.value}"
    through = f", run by {_quoted(program.interpreter)}" if program.interpreter else ""
    return f"{words} → {_quoted(program.path)}{through}"


def _permissions(entry: SidecarEntry) -> Iterator[str]:
    permissions = entry.permissions
    if entry.config_address and not permissions.network:
        yield f"network yes: its config names {_quoted(entry.config_address)}, though it declares no network"
    elif isinstance(entry.exec, HttpExec):
        host = literal_host(entry.exec.url)
        yield f"network only {_quoted(host)}" if host else "network any public host that the input names"
    else:
        yield f"network {'yes: the whole network of this machine' if permissions.network else 'no'}"
    yield f"reads {', '.join(_quoted(path) for path in permissions.read) or 'no files'}"
    yield f"writes {', '.join(_quoted(path) for path in permissions.write) or 'no files'}"
    yield f"secrets {', '.join(_secret(permissions, name) for name in permissions.secrets) or 'none'}"
    yield f"desktop {'yes: screen, mouse and keyboard' if permissions.desktop else 'no'}"


def _secret(permissions: Permissions, name: str) -> str:
    facts = [kind.value for one, kind in permissions.secret_types if one == name]
    facts += ["not needed"] if name in permissions.optional_secrets else []
    return f"{_quoted(name)} ({', '.join(facts)})" if facts else _quoted(name)


def _request(request: HttpExec) -> Iterator[str]:
    yield f"request {request.method} {_quoted(request.url)}"
    if request.query:
        yield f"query {_quoted(request.query)}"
    if not isinstance(request.body, msgspec.UnsetType):
        yield f"body {_quoted(request.body)}"


def _function(function: PythonExec, program: ResolvedProgram | None) -> Iterator[str]:
    run_by = ""
    if program is not None and program.state is PathState.RESOLVED:
        run_by = f", run by {_quoted(program.interpreter_argv[0])} → {_quoted(program.interpreter)}"
    elif program is not None:
        run_by = f" → {program.state.value}"
    called = _quoted(f"{function.module}.{function.function}")
    yield f"function {called} with {_quoted(function.args)}{run_by}"


def _quoted(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
