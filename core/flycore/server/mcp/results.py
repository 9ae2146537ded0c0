"""Results of calls as answers to `tools/call`, shortened where they are larger than an agent should get.

A success holds the output as text and, where it is an object that fits its schema, as structured content. It
is never a tool error (`isError`), whatever its output is: an agent that is told of an error repeats the act.
Every other outcome is a tool error, also a call that waits for a person, because it has not run. Each answer
has the kernel's own result under `_meta["flytui/result"]`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from pydantic import ValidationError

from flycore.catalog.schemas import check_output
from flycore.model.call import ToolResult
from flycore.model.catalog import Capability
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject
from flycore.model.json_pieces import encode
from flycore.server.mcp.media import MAX_BYTES_IN_ALL, ReadMedia
from flycore.server.mcp.tool_list import output_schema_of
from flysafe.text import safe_block, safe_text

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
        return _error_result(result)
    limit = capability.result_limit if capability else DEFAULT_LIMIT
    output = fit_to_limit(result.output, limit)
    cut = output is not result.output or (result.text is not None and size_of(result.text) > limit)
    schema = output_schema_of(capability) if capability else None
    # Shortening may break a minimum length or a pattern of the schema. Clients reject structured content
    # that does not match, so it is sent only where it does.
    fits = schema is None or not check_output(schema, output)
    # Text of an MCP server stays text. Where its tool has an output schema, clients expect the structure.
    structured = schema is not None or result.structured
    lines = [] if fits else [_TOO_LARGE if cut else _SCHEMA_MISMATCH]
    lines += [f"warning: {safe_block(warning)}" for warning in result.warnings]
    if cut:
        lines.append("the output was larger than the result limit of the tool; … marks where it was cut")
    content: list[ContentBlock] = [_text(text) for text in _output_texts(result, output, limit) if text]
    content += _resources(result, limit)
    content += [_text(line) for line in lines]
    content += _files(result, read_media)
    return CallToolResult(
        content=content,
        structured_content=output if fits and structured and isinstance(output, dict) else None,
        _meta={META: {**_meta(result), "cut": cut, OUTPUT_FITS: fits}},
    )


def _output_texts(result: ToolResult, output: Json, limit: int) -> list[str]:
    """Return the output as text: the text of an MCP server as it is, everything else as JSON."""
    if result.text is None:
        return [as_text(output)]
    if result.structured or not isinstance(output, dict):
        return [str(fit_to_limit(result.text, limit))]
    # Resources and files are no part of the text: each has a block of its own below it.
    return [str(fit_to_limit(result.text, limit))]


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


def _error_result(result: ToolResult) -> CallToolResult:
    """Return why there is no output: code, message, hint, and the details that an agent can act on."""
    error = result.error
    if error is None:
        return tool_error(Code.FAILED, "the call ended without a result")
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


def _resources(result: ToolResult, limit: int) -> list[ContentBlock]:
    """Return the links and the resources of text as the server sent them, each with at most `limit` bytes."""
    blocks: list[ContentBlock] = []
    for sent in result.resources:
        kind = EmbeddedResource if sent.get("type") == "resource" else ResourceLink
        try:
            blocks.append(kind.model_validate(fit_to_limit(sent, limit)))
        except ValidationError:
            # Its address, name or type alone is longer than the limit.
            blocks.append(_text("a resource of the answer is larger than the result limit of the tool"))
    return blocks


def _files(result: ToolResult, read_media: ReadMedia) -> list[ContentBlock]:
    """Return one text block for each file, and another block for each image and sound within the limits."""
    blocks: list[ContentBlock] = []
    bytes_left = MAX_BYTES_IN_ALL
    for artifact in result.artifacts:
        blocks.append(
            _text(safe_text(f"file: {artifact.path} ({artifact.mime_type}, {artifact.bytes} bytes)"))
        )
        media = read_media(artifact, bytes_left)
        if media is not None:
            bytes_left -= len(media.data) * 3 // 4  # Base64 spells 3 bytes with 4 characters
            kind = ImageContent if media.mime_type.startswith("image/") else AudioContent
            blocks.append(kind(data=media.data, mime_type=media.mime_type))
    return blocks


def _meta(result: ToolResult) -> dict[str, Any]:
    """Return the kernel's result without the parts that are elsewhere in the answer."""
    whole: dict[str, Any] = msgspec.to_builtins(result)
    for name in ("output", "text", "structured", "resources", "stderrTail"):
        whole.pop(name)
    if result.error is not None:
        whole["error"]["details"] = fit_to_limit(result.error.details, DEFAULT_LIMIT)
    return whole


def _text(text: str) -> TextContent:
    return TextContent(text=text)
