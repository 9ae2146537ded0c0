"""The tool `web.download`: saves a body as a new file below the project, once it is complete."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import BinaryIO

from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.sdk.paths import NewFile, in_project, open_project_file
from flysidecars.web.fetch import network_of, reply_facts
from flysidecars.web.http_client import HttpReply, TimeLimits, exchange
from flysidecars.web.http_request import HttpRequest
from flysidecars.web.settings import read_settings
from flysidecars.web.urls import parse_url

PROGRESS_BYTES = 1024 * 1024
"""Bytes between two progress events."""


def web_download(call: Call) -> JsonObject:
    """Save the answer of an address as a file.

    Raises what `exchange` raises, and `ToolFailed`: `http-status`, `too-big`, `exists`, `outside-project`.
    No failure leaves a file.
    """
    settings = read_settings(call.config)
    target, path = parse_url(call.text("url")), call.text("path")
    _check_path(call, path)
    times = TimeLimits(settings.read_timeout_ms / 1000, settings.download_timeout_ms / 1000)
    with exchange(network_of(settings), HttpRequest(target), times, "identity") as reply:
        _check_reply(reply, settings.max_download_bytes)
        digest = hashlib.sha256()
        new = NewFile(call, in_project(call, path))
        with new as file:
            _save(call, reply, file, digest.update, settings.max_download_bytes)
    artifact = {"path": new.path, "mimeType": _mime_type(reply), "bytes": new.size}
    return {
        **reply_facts(reply),
        "path": path,
        "bytes": new.size,
        "sha256": digest.hexdigest(),
        "artifacts": [artifact],
    }


def _save(call: Call, reply: HttpReply, file: BinaryIO, feed: Callable[[bytes], object], limit: int) -> None:
    done = reported = 0
    for piece in reply.body(limit):
        call.raise_if_cancelled()
        done += len(piece)
        if done > limit:
            raise _too_big(limit)
        file.write(piece)
        feed(piece)
        if done - reported >= PROGRESS_BYTES:
            call.progress(done, reply.length, f"{done // 1048576} MiB")
            reported = done


def _check_reply(reply: HttpReply, limit: int) -> None:
    if not 200 <= reply.status < 300:
        raise ToolFailed("http-status", f"{reply.target.host} answers {reply.status}", **reply_facts(reply))
    if reply.length is not None and reply.length > limit:
        raise _too_big(limit)


def _check_path(call: Call, path: str) -> None:
    """Raise `ToolFailed` if the name is taken, outside the project or not permitted.

    `NewFile` checks this again at the end. This check saves a download that would be in vain.
    """
    try:
        os.close(open_project_file(call, path)[0])
    except ToolFailed as failure:
        if failure.code == "not-found":
            whole = os.path.join(os.path.realpath(call.project_dir), in_project(call, path))
            call.permissions.require_write(call.project_dir, os.path.normpath(whole))
            return
        if failure.code != "not-a-file":
            raise
    raise ToolFailed("exists", f"{path} is there already", path=path)


def _too_big(limit: int) -> ToolFailed:
    return ToolFailed("too-big", f"more than {limit} bytes; nothing was saved", limit=limit)


def _mime_type(reply: HttpReply) -> str:
    return reply.content_type.partition(";")[0].strip().lower() or "application/octet-stream"
