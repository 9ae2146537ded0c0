"""`web.download`: a body into a new file below the project, which appears when it is whole."""

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
"""Progress is told each time so many bytes are saved."""


def web_download(call: Call) -> JsonObject:
    """Save what an address answers. Raises, besides what the exchange raises: `http-status`, `too-big`,
    `exists`, `outside-project`; none of them leaves a file."""
    settings = read_settings(call.config)
    target, path = parse_url(call.text("url")), call.text("path")
    _refuse_taken(call, path)
    times = TimeLimits(settings.read_timeout_ms / 1000, settings.download_timeout_ms / 1000)
    with exchange(network_of(settings), HttpRequest(target), times, "identity") as reply:
        _refuse(reply, settings.max_download_bytes)
        digest = hashlib.sha256()
        new = NewFile(call, in_project(call, path))
        with new as file:
            _save(call, reply, file, digest.update, settings.max_download_bytes)
    artifact = {"path": new.path, "mimeType": _kind(reply), "bytes": new.size}
    return {
        **reply_facts(reply),
        "path": path,
        "bytes": new.size,
        "sha256": digest.hexdigest(),
        "artifacts": [artifact],
    }


def _save(call: Call, reply: HttpReply, file: BinaryIO, feed: Callable[[bytes], object], limit: int) -> None:
    done = told = 0
    for piece in reply.body(limit):
        call.raise_if_cancelled()
        done += len(piece)
        if done > limit:
            raise _too_big(limit)
        file.write(piece)
        feed(piece)
        if done - told >= PROGRESS_BYTES:
            call.progress(done, reply.length, f"{done // 1048576} MiB")
            told = done


def _refuse(reply: HttpReply, limit: int) -> None:
    if not 200 <= reply.status < 300:
        raise ToolFailed("http-status", f"{reply.target.host} answers {reply.status}", **reply_facts(reply))
    if reply.length is not None and reply.length > limit:
        raise _too_big(limit)


def _refuse_taken(call: Call, path: str) -> None:
    """Say before anything is loaded what the end would say: the name is taken, or leads out."""
    try:
        os.close(open_project_file(call, path)[0])
    except ToolFailed as failure:
        if failure.code == "not-found":
            return
        if failure.code != "not-a-file":
            raise
    raise ToolFailed("exists", f"{path} is there already", path=path)


def _too_big(limit: int) -> ToolFailed:
    return ToolFailed("too-big", f"more than {limit} bytes; nothing was saved", limit=limit)


def _kind(reply: HttpReply) -> str:
    return reply.content_type.partition(";")[0].strip().lower() or "application/octet-stream"
