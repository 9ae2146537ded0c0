"""One executable, asked and called outside of any folder of tools, for whoever writes it.

No kernel takes part, and nothing is written to the log. It runs in the sandbox without any permission, as it
would in a folder.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import msgspec

from flycore.catalog.executable_tools import with_executable_tools
from flycore.catalog.mcp_capabilities import offered_capability
from flycore.discovery.executables import entry_of_file
from flycore.kernel.load_state import find_environment, read_files, resolve_programs
from flycore.kernel.probe_runner import program_job, settled
from flycore.kernel.schema_asker import ask
from flycore.model.enums import Code, Envelope, Status
from flycore.model.executable import ExecutableTrial, TrialCall
from flycore.model.json import JsonObject
from flycore.model.session import new_session
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import McpToolList, McpToolOffer
from flycore.pipeline.call import Rejection
from flycore.pipeline.confine import confined
from flycore.pipeline.context import Files, RootEnvironment
from flycore.pipeline.execute import TOOL_NAME
from flycore.pipeline.validate import validated
from flycore.registry.load import add_discovered
from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import RunOutcome, call_sidecar
from flycore.sandbox.secret_masks import Masks


async def try_executable(
    places: RootPaths,
    environ: Mapping[str, str],
    path: Path,
    tool: str = "",
    input: JsonObject | None = None,
) -> ExecutableTrial:
    """Ask the file for its schema and, with an input, call the tool: the named one, or the first.

    Raises OSError where there is no executable at that path.
    """
    environment = find_environment(places, environ)
    entry = await anyio.to_thread.run_sync(entry_of_file, path, environ)
    files = await anyio.to_thread.run_sync(_files_with, environment, entry)
    entry = files.registry.entries[0]
    session = new_session()
    answer = await ask(environment, files, entry, session, time.time())
    listing = answer.listing or McpToolList()
    call = None
    if input is not None:
        call = await _call(environment, files, entry, listing, tool, input, session)
    return ExecutableTrial(
        path=entry.file,
        tools=listing.tools,
        refused=listing.refused,
        problem=answer.why_not,
        stderr_tail=answer.evidence.stderr_tail,
        call=call,
    )


def _files_with(environment: RootEnvironment, entry: SidecarEntry) -> Files:
    """Return the root's files with this entry in the place of all others."""
    files = read_files(environment, None)
    bare = msgspec.structs.replace(files.registry, entries=(), replaced=(), diagnostics=())
    registry = add_discovered(bare, (entry,))
    programs, delegates = resolve_programs(environment, registry, registry.entries)
    return msgspec.structs.replace(files, registry=registry, programs=programs, delegates=delegates)


async def _call(
    environment: RootEnvironment,
    files: Files,
    entry: SidecarEntry,
    listing: McpToolList,
    tool: str,
    input: JsonObject,
    session: str,
) -> TrialCall:
    found = next((item for item in listing.tools if not tool or item.name == tool), None)
    if tool and found is None:
        return TrialCall(status=Status.FAILED, code=Code.NOT_FOUND, message=f"it describes no tool {tool}")
    name, sent = entry.file_alias if found is None else found.name, input
    if found is not None:
        offers = {entry.id: McpToolOffer(accepted=(found,))}
        described = with_executable_tools(files.registry, offers).entries[0]
        if not described.tools:
            return TrialCall(
                status=Status.FAILED, code=Code.NOT_FOUND, message=f"no tool may be named {name}"
            )
        capability = offered_capability(described.tools[0], entry.id)
        checked = await validated(capability, input, Masks({}))
        if isinstance(checked, Rejection):
            return TrialCall(status=checked.status, code=checked.code, message=checked.message)
        sent = checked
    try:
        confining, job = await anyio.to_thread.run_sync(
            program_job, environment, files, entry, name, f"{session}-trial"
        )
    except OSError as error:
        return TrialCall(status=Status.FAILED, code=Code.SPAWN, message=str(error.strerror or error))
    envelope = found.envelope if found is not None else Envelope.UNKNOWN
    limit = found.timeout_ms if found is not None and found.timeout_ms else entry.timeout_ms
    job = replace(job, input=sent, envelope=envelope, timeout_ms=limit, env={**job.env, TOOL_NAME: name})
    outcome = await call_sidecar(confined(confining, job))
    return _told(await settled(environment.places, (confining, job), outcome))


def _told(outcome: RunOutcome) -> TrialCall:
    return TrialCall(
        status=outcome.status,
        code=outcome.code,
        message=outcome.message,
        output=outcome.output,
        duration_ms=outcome.duration_ms,
    )
