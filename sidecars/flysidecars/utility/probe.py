"""The states of the tools of `utility.local` for a probe, read from the configuration only."""

from __future__ import annotations

from flysidecars.sdk import JsonObject, Probe, ToolFailed, Unavailable, healthy, unavailable
from flysidecars.sdk.call import delegate_argv
from flysidecars.utility.tasks.settings import NO_TASKS_ALLOWED, TaskSettings

NO_SERVER = (
    "no language server is configured",
    'install one and name it in delegates.lsp of the entry, such as {"command": "pylsp"}',
)
"""Reason and remedy."""


def tool_states(question: Probe) -> JsonObject:
    """The state of each tool. If the delegates are unknown (`--probe`), the tools that need one are
    healthy."""
    lsp = healthy()
    if question.delegates is not None and delegate_argv(question.delegates, "lsp") is None:
        lsp = unavailable(*NO_SERVER, "delegate-missing")
    plain = ("file.hash", "archive.create", "archive.extract", "data.convert")
    configured = {"lsp.symbols": lsp, "lsp.diagnostics": lsp, "task.background": _tasks(question)}
    return {"tools": {**dict.fromkeys(plain, healthy()), **configured}}


def _tasks(question: Probe) -> JsonObject:
    if question.delegates is None or delegate_argv(question.delegates, "task") is not None:
        return healthy()
    try:
        TaskSettings(question.config)
    except Unavailable as missing:
        return unavailable(missing.message, missing.remedy)
    except ToolFailed as broken:
        return unavailable(broken.message, NO_TASKS_ALLOWED[1])
    return healthy()
