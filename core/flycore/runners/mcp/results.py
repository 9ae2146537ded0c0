"""Turns an MCP server's answer to a call into an outcome: structured content or text, files, errors."""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import TYPE_CHECKING, Any

from flycore.model.call import Artifact
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject, StrictJsonError, canonical_json, read_strict
from flycore.runners.artifacts import MAX_ARTIFACTS
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome

if TYPE_CHECKING:
    from mcp_types import CallToolResult

TOOL_ERROR = "tool-error"
"""`details.code` where the tool itself reports an error."""
LONGEST_ERROR = 4_000
"""How many characters of a tool's own error go into the message."""
MOST_WARNINGS = 20
"""How many parts that were left out get a warning of their own."""
_PROTOCOL_META = "io.modelcontextprotocol/"
_TYPE = re.compile(r"[a-z]{1,16}/[a-z0-9.+-]{1,64}")
_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "application/pdf": "pdf",
    "application/json": "json",
    "text/plain": "txt",
}


def outcome_of_result(result: CallToolResult, job: ProcessJsonJob, roles: tuple[str, ...] = ()) -> RunOutcome:
    """The outcome of a call with this answer. `roles` has the role of each block, for the messages of a
    prompt. Files in the answer are written to `job.artifact_dir`; what was
    sent, files included, has at most `job.max_output_bytes`."""
    read = _Contents(job)
    for number, block in enumerate(result.content):
        before = len(read.blocks)
        read.take(block)
        if roles and len(read.blocks) > before:
            read.blocks[-1]["role"] = roles[number]
    read.close()
    output = _output(result, read)
    structured = result.structured_content is not None
    # Without any text block, the door makes the text of structured content from the output, as it does for
    # every other tool.
    text = None if structured and not read.texts else "\n".join(read.texts)
    try:
        # Where there is no structured content, the output is made from the blocks, which are counted once.
        sizes = [len(canonical_json(output)), len(canonical_json(list(read.blocks)))]
        size = (sum(sizes) if structured else max(sizes)) + read.bytes
        meta = _meta_of(result)
        canonical_json(meta)
    except (ValueError, TypeError, RecursionError):
        return RunOutcome(
            status=Status.FAILED,
            code=Code.INVALID_OUTPUT,
            message="the answer has values that JSON cannot express, or is nested too deeply",
            warnings=tuple(read.warnings),
        )
    if size > job.max_output_bytes or read.over:
        return too_long(job)
    warnings = tuple(read.warnings)
    if result.is_error:
        details: JsonObject = {"code": TOOL_ERROR}
        if isinstance(result.structured_content, dict):
            details["output"] = output
        return RunOutcome(
            status=Status.FAILED,
            code=Code.FAILED,
            message="\n".join(read.texts)[:LONGEST_ERROR] or "the tool reported an error without a reason",
            details=details,
            content=tuple(read.blocks),
            meta=meta,
            artifacts=tuple(read.artifacts),
            warnings=warnings,
        )
    return RunOutcome(
        status=Status.SUCCESS,
        output=output,
        text=text,
        structured=structured,
        content=() if _is_only_text(read.blocks) else tuple(read.blocks),
        meta=meta,
        artifacts=tuple(read.artifacts),
        warnings=warnings,
    )


def too_long(job: ProcessJsonJob) -> RunOutcome:
    """The outcome of an answer that is larger than the entry allows."""
    return RunOutcome(
        status=Status.FAILED,
        code=Code.OUTPUT_LIMIT,
        message=f"the answer is more than {job.max_output_bytes} bytes",
        hint="raise maxOutputBytes of the entry, or ask the tool for less",
        details={"maxOutputBytes": job.max_output_bytes},
    )


def _output(result: CallToolResult, read: _Contents) -> JsonObject:
    structured: Json = result.structured_content
    if isinstance(structured, dict):
        return structured
    if structured is not None:
        return {"result": structured}
    text = "\n".join(read.texts)
    output: JsonObject = _object(text) if len(read.texts) == 1 and not read.linked else {}
    if not output and (text or not read.artifacts):
        output = {"text": text}
    if read.linked:
        output["resources"] = read.linked
    if read.artifacts and "artifacts" not in output:
        output["artifacts"] = [
            {"path": item.path, "mimeType": item.mime_type, "bytes": item.bytes} for item in read.artifacts
        ]
    return output


def _object(text: str) -> JsonObject:
    """The JSON object that the text is, because servers without structured content write it as text; else
    empty."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = read_strict(text.encode())
    except (StrictJsonError, UnicodeEncodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _as_sent(value: Any, **left_out: Any) -> JsonObject:
    sent: JsonObject = value.model_dump(mode="json", by_alias=True, exclude_none=True, **left_out)
    return sent


def _meta_of(result: CallToolResult) -> JsonObject:
    # The protocol's own keys are about this connection, such as the name of the server.
    return {key: value for key, value in (result.meta or {}).items() if not key.startswith(_PROTOCOL_META)}


def _is_only_text(blocks: list[JsonObject]) -> bool:
    """Whether the text alone says all that was sent."""
    if not blocks:
        return True
    return len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and blocks[0]["text"] != ""


class _Contents:
    """Collects the blocks of one answer."""

    def __init__(self, job: ProcessJsonJob) -> None:
        self._folder, self._most = job.artifact_dir, job.max_output_bytes
        self.texts: list[str] = []
        self.linked: list[Json] = []
        """Links and resources of text, as they become a part of the output."""
        self.blocks: list[JsonObject] = []
        """Every block as the server sent it, with the number of its artifact in place of its base64."""
        self.artifacts: list[Artifact] = []
        self.warnings: list[str] = []
        self.bytes = 0
        """The size of all files together."""
        self.over = False
        self._left_out = 0

    def take(self, block: Any) -> None:
        """Add one block of any kind."""
        match block.type:
            case "text":
                self.texts.append(block.text)
                self.blocks.append(_as_sent(block))
            case "image" | "audio":
                number = self._file(block.type, block.data, block.mime_type)
                if number is not None:
                    self.blocks.append({**_as_sent(block, exclude={"data"}), "artifact": number})
            case "resource_link":
                self.linked.append({"uri": str(block.uri), "name": block.name})
                self.blocks.append(_as_sent(block))
            case "resource":
                self._resource(block)
            case _:
                self._leave_out("a part of the answer is of an unknown kind and was left out")

    def close(self) -> None:
        """Add a warning with the number of parts that were left out without one."""
        if self._left_out > MOST_WARNINGS:
            self.warnings.append(f"{self._left_out - MOST_WARNINGS} more parts of the answer were left out")

    def _leave_out(self, why: str) -> None:
        self._left_out += 1
        if self._left_out <= MOST_WARNINGS:
            self.warnings.append(why)

    def _resource(self, block: Any) -> None:
        resource = block.resource
        uri = str(resource.uri)
        if (text := getattr(resource, "text", None)) is not None:
            self.linked.append({"uri": uri, "text": text})
            self.blocks.append(_as_sent(block))
            return
        number = self._file("resource", resource.blob, resource.mime_type or "")
        if number is not None:
            sent = _as_sent(block, exclude={"resource": {"blob"}})
            self.blocks.append({**sent, "artifact": number})

    def _file(self, kind: str, data: str, mime_type: str) -> int | None:
        """Write the data into a file. Return the number of its artifact; None where it was left out."""
        if len(self.artifacts) >= MAX_ARTIFACTS or self.over:
            self.over = True
            return None
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self._leave_out(f"a part of the answer, {kind}, cannot be decoded and was left out")
            return None
        self.bytes += len(content)
        if self.bytes > self._most:
            self.over = True
            return None
        # Name and type are ours: what the server writes there never becomes a part of a path.
        mime_type = mime_type if _TYPE.fullmatch(mime_type) else "application/octet-stream"
        path = os.path.join(
            self._folder, f"{kind}-{len(self.artifacts) + 1}.{_ENDINGS.get(mime_type, 'bin')}"
        )
        try:
            with open(path, "xb") as file:
                file.write(content)
        except OSError as error:
            self._leave_out(f"a part of the answer, {kind}, could not be written: {error.strerror}")
            return None
        self.artifacts.append(Artifact(path=path, mime_type=mime_type, bytes=len(content)))
        return len(self.artifacts) - 1
