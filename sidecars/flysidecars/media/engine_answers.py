"""Asks providers and delegates, and turns their answers into the tool's answer."""

from __future__ import annotations

from flysidecars.media.engines import Engine
from flysidecars.media.files import InputFile, picture_only, require_size
from flysidecars.sdk import Call, JsonObject, ToolFailed

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_ANSWER_FIELDS = ("text", "language", "confidence")


def build_provider_request(call: Call, file: InputFile | None, max_bytes: int) -> JsonObject:
    """The document for a provider, with the file as base64. Raises `ToolFailed` (`too-big`)."""
    from base64 import b64encode

    # The path is left out: it means nothing to a program elsewhere.
    fields: JsonObject = {key: value for key, value in call.input.items() if key != "path"}
    document: JsonObject = {"tool": call.tool, "input": fields}
    if file is not None:
        kind, data = file.kind, file.data(max_bytes)
        if kind.startswith("image/"):
            # What stands after a picture's end, and what it carries besides pixels, stays on this machine.
            kind, data = picture_only(file, data)
            require_size(len(data), max_bytes, file.name)
        about = {"name": file.name, "mimeType": kind, "bytes": len(data)}
        document["file"] = {**about, "base64": b64encode(data).decode("ascii")}
    return document


def from_provider(call: Call, file: InputFile, max_bytes: int) -> JsonObject:
    """The provider's text for a file of at most `max_bytes`. Raises `ToolFailed`."""
    from flysidecars.media.http_post import ask_provider
    from flysidecars.media.provider import read_provider

    call.permissions.require_network()
    provider = read_provider(call.config)
    document = build_provider_request(call, file, max_bytes)
    call.progress(0, message=f"{file.size} bytes go to the provider")
    return _text_of(
        ask_provider(provider, document, max_bytes=MAX_ANSWER_BYTES), "provider", "provider-failed"
    )


def from_delegate(call: Call, engine: Engine, file: InputFile) -> JsonObject:
    """The delegate's text for a file. Raises `ToolFailed`."""
    from flysidecars.media.delegate import ask_delegate

    return _text_of(ask_delegate(call, engine, file.descriptor), str(engine), "delegate-failed")


def _text_of(answer: JsonObject, engine: str, code: str) -> JsonObject:
    kinds = {"text": str, "language": str, "confidence": (int, float)}
    kept = {key: answer[key] for key in _ANSWER_FIELDS if isinstance(answer.get(key), kinds[key])}  # type: ignore[arg-type]  # a type or a pair of them
    if "text" not in kept:
        raise ToolFailed(code, f"the {engine} answers without `text`")
    return {**kept, "engine": engine}
