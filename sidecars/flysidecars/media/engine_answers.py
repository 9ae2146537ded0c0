"""What others answered, in the shape of the tool's own answer."""

from __future__ import annotations

from flysidecars.media.engines import Engine
from flysidecars.media.files import InputFile
from flysidecars.sdk import Call, JsonObject, ToolFailed

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_PASSED_ON = ("text", "language", "confidence")


def provider_question(call: Call, given: InputFile | None, most: int) -> JsonObject:
    """What a provider is asked, with the file as base64."""
    from base64 import b64encode

    asked: JsonObject = {key: value for key, value in call.input.items() if key != "path"}
    document: JsonObject = {"tool": call.tool, "input": asked}
    if given is not None:
        data = given.data(most)
        file = {"name": given.name, "mimeType": given.kind, "bytes": len(data)}
        document["file"] = {**file, "base64": b64encode(data).decode("ascii")}
    return document


def from_provider(call: Call, given: InputFile, most: int) -> JsonObject:
    """The provider's text; `most` bytes of the file are sent. Raises `ToolFailed`."""
    from flysidecars.media.http_post import ask_provider
    from flysidecars.media.provider import read_provider

    provider = read_provider(call.config)
    document = provider_question(call, given, most)
    call.progress(0, message=f"{given.size} bytes go to the provider")
    return _text_of(ask_provider(provider, document, most=MAX_ANSWER_BYTES), "provider", "provider-failed")


def from_delegate(call: Call, engine: Engine, given: InputFile) -> JsonObject:
    """The delegate's text. Raises `ToolFailed`."""
    from flysidecars.media.delegate import ask_delegate

    return _text_of(ask_delegate(call, engine, given.descriptor), str(engine), "delegate-failed")


def _text_of(answer: JsonObject, engine: str, code: str) -> JsonObject:
    kinds = {"text": str, "language": str, "confidence": (int, float)}
    kept = {key: answer[key] for key in _PASSED_ON if isinstance(answer.get(key), kinds[key])}  # type: ignore[arg-type]  # a type or a pair of them
    if "text" not in kept:
        raise ToolFailed(code, f"the {engine} answers without `text`")
    return {**kept, "engine": engine}
