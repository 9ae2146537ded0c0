"""The sidecar `utility.local`: tools for local files, language servers and background commands."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar

sidecar = Sidecar("utility.local")


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report for each tool whether it has what it needs."""
    from flysidecars.utility.probe import tool_states

    return tool_states(question)


@sidecar.tool("file.hash")
def file_hash(call: Call) -> JsonObject:
    """Digest of a file below the project."""
    from flysidecars.utility.file_hash import file_hash

    return file_hash(call)


@sidecar.tool("archive.create")
def archive_create(call: Call) -> JsonObject:
    """Pack files below the project."""
    from flysidecars.utility.archives import archive_create

    return archive_create(call)


@sidecar.tool("archive.extract")
def archive_extract(call: Call) -> JsonObject:
    """Unpack an archive below the project."""
    from flysidecars.utility.archives import archive_extract

    return archive_extract(call)


@sidecar.tool("data.convert")
def data_convert(call: Call) -> JsonObject:
    """Convert data between formats."""
    from flysidecars.utility.convert import data_convert

    return data_convert(call)


@sidecar.tool("lsp.symbols")
def lsp_symbols(call: Call) -> JsonObject:
    """Symbols of a file or of the project."""
    from flysidecars.utility.lsp import lsp_symbols

    return lsp_symbols(call)


@sidecar.tool("lsp.diagnostics")
def lsp_diagnostics(call: Call) -> JsonObject:
    """What a language server finds in a file."""
    from flysidecars.utility.lsp import lsp_diagnostics

    return lsp_diagnostics(call)


@sidecar.tool("task.background")
def task_background(call: Call) -> JsonObject:
    """Run commands that outlive the answer."""
    from flysidecars.utility.tasks.tool import task_background

    return task_background(call)
