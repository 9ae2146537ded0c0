"""Results of calls as answers to `tools/call`, shortened where they are larger than an agent should get.

A success holds the output as text and, where it is an object that fits its schema, as structured content. It
is never a tool error (`isError`), whatever its output is: an agent that is told of an error repeats the act.
Every other outcome is a tool error, also a call that waits for a person, because it has not run. What an MCP
server answered, errors included, is handed on block by block as the server sent it. Each answer has the
kernel's own result under `_meta["flytui/result"]`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    ImageContent,
    TextContent,
)
from pydantic import TypeAdapter, ValidationError

from flycore.catalog.schemas import accepts
from flycore.model.call import Artifact, ToolResult
from flycore.model.catalog import Capability
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject
from flycore.model.json_pieces import encode
from flycore.server.mcp.media import MAX_BYTES_IN_ALL, Media, ReadMedia
from flycore.server.mcp.tool_list import output_schema_of
from flysafe.text import safe_block, safe_text

_CONTENT: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_UNICODE = json.JSONEncoder(ensure_ascii=False)
_MAX_STRING_CHARS = 65_536
_MAX_LIST_ITEMS = 4_096
_MIN_STRING_CHARS = 32


def as_text(output: Json) -> str:
    """Return the output as JSON for a model to read. Letters beyond ASCII are not escaped."""
    return encode(_UNICODE, output)


def size_of(output: Json) -> int:
    """Return the bytes of the output's text in UTF-8."""
    return len(as_text(output).encode("utf-8"))


def fit_to_limit(output: Json, limit: int) -> Json:
    """Return the output, shortened to at most `limit` bytes of text. The argument is not changed.

    Long strings lose their ends first, then long lists; the shape stays. Where that is not enough, as for an
    object with very many keys, the result is a string: the beginning of the output's text.
    """
    if size_of(output) <= limit:
        return output
    longest = _MAX_STRING_CHARS
    while longest >= _MIN_STRING_CHARS:
        if size_of(cut := _shorten(output, longest, None)) <= limit:
            return cut
        longest //= 2
    most = _MAX_LIST_ITEMS
    while most >= 1:
        if size_of(cut := _shorten(output, _MIN_STRING_CHARS, most)) <= limit:
            return cut
        most //= 2
    return as_text(output).encode("utf-8")[: max(0, limit - 8)].decode("utf-8", "ignore") + "…"


def _shorten(value: Json, longest: int, most: int | None) -> Json:
    if isinstance(value, str):
        return value if len(value) <= longest else value[: longest - 1] + "…"
    if isinstance(value, list):
        return [_shorten(item, longest, most) for item in value[:most]]
    if isinstance(value, dict):
        return {name: _shorten(item, longest, most) for name, item in value.items()}
    return value


META = "flytui/result"
MAX_VIOLATIONS = 50
STDERR_TAIL = 2_000
DEFAULT_LIMIT = 65_536
_SCHEMA_MISMATCH = (
    "warning: the tool has run; its output does not match its output schema and is told as it is"
)
_TOO_LARGE = "warning: the tool has run; its output is too large to keep the form of its schema and is cut"
OUTPUT_FITS = "outputFits"
"""Field of `_meta["flytui/result"]`: whether the output that was sent matches the listed output schema."""


def call_result(result: ToolResult, capability: Capability | None, read_media: ReadMedia) -> CallToolResult:
    """Return the MCP answer for the result of a call. Blocks, because it reads files.

    `capability` is None where the catalog has no tool of that name.
    """
    if result.status is not Status.SUCCESS:
        return _error_result(result, capability, read_media)
    limit = capability.result_limit if capability else DEFAULT_LIMIT
    output = fit_to_limit(result.output, limit)
    cut = output is not result.output or (result.text is not None and size_of(result.text) > limit)
    schema = output_schema_of(capability) if capability else None
    # Shortening may break a minimum length or a pattern of the schema. Clients reject structured content
    # that does not match, so it is sent only where it does.
    fits = schema is None or accepts(schema, output)
    # Text of an MCP server stays text. Where its tool has an output schema, clients expect the structure.
    structured = schema is not None or result.structured
    lines = [] if fits else [_TOO_LARGE if cut else _SCHEMA_MISMATCH]
    lines += [f"warning: {safe_block(warning)}" for warning in result.warnings]
    if cut:
        lines.append("the output was larger than the result limit of the tool; … marks where it was cut")
    if result.content:
        content = _as_sent(result, limit, read_media)
    elif result.text is None:
        content = [_text(as_text(output))]
    else:
        content = [_text(str(fit_to_limit(result.text, limit)))] if result.text else []
    content += [_text(line) for line in lines]
    content += _files(result, read_media)
    return CallToolResult(
        content=content,
        structured_content=output if fits and structured and isinstance(output, dict) else None,
        _meta={**result.meta, META: {**_meta(result), "cut": cut, OUTPUT_FITS: fits}},
    )


def text_result(output: Json) -> CallToolResult:
    """Return an answer that is only a value, as text."""
    return CallToolResult(content=[_text(as_text(output))])


def tool_error(code: str, message: str, hint: str = "") -> CallToolResult:
    """Return a tool error for a request that did not become a call of the kernel."""
    lines = [f"{code}: {safe_block(message)}", safe_block(hint)]
    error: JsonObject = {"code": code, "message": message, "hint": hint}
    return CallToolResult(
        content=[_text("\n".join(line for line in lines if line))],
        is_error=True,
        _meta={META: {"status": Status.FAILED.value, "error": error}},
    )


def _error_result(result: ToolResult, capability: Capability | None, read_media: ReadMedia) -> CallToolResult:
    """Return why there is no output: code, message, hint, and the details that an agent can act on. The error
    of an MCP server's tool is in the server's words."""
    error = result.error
    if error is None:
        return tool_error(Code.FAILED, "the call ended without a result")
    if result.content:
        limit = capability.result_limit if capability else DEFAULT_LIMIT
        warnings: list[ContentBlock] = [_text(f"warning: {safe_block(one)}") for one in result.warnings]
        structured = fit_to_limit(error.details.get("output"), limit)
        return CallToolResult(
            content=[*_as_sent(result, limit, read_media), *warnings, *_files(result, read_media)],
            structured_content=structured if isinstance(structured, dict) else None,
            is_error=True,
            _meta={**result.meta, META: _meta(result)},
        )
    lines = [f"{error.code}: {error.message}", error.hint, *_details(result, error.details)]
    lines += [f"warning: {warning}" for warning in result.warnings]
    return CallToolResult(
        content=[_text("\n".join(safe_block(line) for line in lines if line))],
        is_error=True,
        _meta={META: _meta(result)},
    )


def _details(result: ToolResult, details: JsonObject) -> list[str]:
    lines: list[str] = []
    if result.status is Status.PENDING:
        lines.append(f"ticket: {details.get('ticket')}")
    violations = details.get("violations")
    if isinstance(violations, list):
        lines += [_violation(item) for item in violations[:MAX_VIOLATIONS]]
    if result.exit_code not in (None, 0) and result.stderr_tail:
        lines.append(f"stderr: {result.stderr_tail[-STDERR_TAIL:]}")
    return lines


def _violation(item: Json) -> str:
    if not isinstance(item, dict):
        return str(item)
    return f"{item.get('pointer') or '(the input)'}: {item.get('message')}"


def blocks_of(result: ToolResult, limit: int, read_media: ReadMedia) -> list[ContentBlock]:
    """Return the blocks of an answer of an MCP server, with the files among them. Blocks, because it reads
    files."""
    return _as_sent(result, limit, read_media)


def _as_sent(result: ToolResult, limit: int, read_media: ReadMedia) -> list[ContentBlock]:
    """Return the blocks of an MCP server's answer, which have at most about `limit` bytes without their
    files. A file that is too large to hand on has a line with its name instead."""
    blocks: list[ContentBlock] = []
    bytes_left, files_left = limit, MAX_BYTES_IN_ALL
    for sent in result.content:
        number = sent.get("artifact")
        block = fit_to_limit(
            {key: value for key, value in sent.items() if key not in ("artifact", "role")}, bytes_left
        )
        bytes_left = max(0, bytes_left - size_of(sent))
        media = None
        if isinstance(number, int) and isinstance(block, dict):
            artifact = result.artifacts[number]
            media = read_media(artifact, files_left)
            if media is None or not _put_media(block, media):
                blocks.append(_file_line(artifact))
                continue
            files_left -= _bytes_of(media)
        try:
            blocks.append(_CONTENT.validate_python(block))
        except ValidationError:
            # Its address, name or type alone is longer than what is left of the limit.
            blocks.append(_text("a part of the answer is larger than the result limit of the tool"))
    return blocks


def _put_media(block: JsonObject, media: Media) -> bool:
    """Put the file into its block. Return False where the block is one of an image or a sound that the file
    is not: the interface of a model would refuse the whole request for it."""
    resource = block.get("resource")
    if isinstance(resource, dict):
        block["resource"] = {**resource, "blob": media.data}
        return True
    block.update(data=media.data, mimeType=media.mime_type)
    return media.mime_type.startswith(f"{block.get('type')}/")


def _files(result: ToolResult, read_media: ReadMedia) -> list[ContentBlock]:
    """Return one text block for each file that no block of the server stands for, and another block for each
    image and sound within the limits."""
    blocks: list[ContentBlock] = []
    bytes_left = MAX_BYTES_IN_ALL
    for artifact in () if result.content else result.artifacts:
        blocks.append(_file_line(artifact))
        media = read_media(artifact, bytes_left)
        if media is not None and media.mime_type:
            bytes_left -= _bytes_of(media)
            kind = ImageContent if media.mime_type.startswith("image/") else AudioContent
            blocks.append(kind(data=media.data, mime_type=media.mime_type))
    return blocks


def _bytes_of(media: Media) -> int:
    return len(media.data) * 3 // 4  # Base64 spells 3 bytes with 4 characters


def _file_line(artifact: Artifact) -> TextContent:
    return _text(safe_text(f"file: {artifact.path} ({artifact.mime_type}, {artifact.bytes} bytes)"))


def _meta(result: ToolResult) -> dict[str, Any]:
    """Return the kernel's result without the parts that are elsewhere in the answer."""
    whole: dict[str, Any] = msgspec.to_builtins(result)
    for name in ("output", "text", "structured", "content", "meta", "stderrTail"):
        whole.pop(name)
    if result.error is not None:
        whole["error"]["details"] = fit_to_limit(result.error.details, DEFAULT_LIMIT)
    return whole


def _text(text: str) -> TextContent:
    return TextContent(text=text)
