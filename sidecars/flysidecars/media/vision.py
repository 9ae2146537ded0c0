"""`vision.analyze` and `vision.ocr`."""

from __future__ import annotations

from flysidecars.media.answers import from_delegate, from_provider
from flysidecars.media.engines import choose_engine
from flysidecars.media.files import FOR_PEOPLE, MAX_PICTURE_BYTES, PICTURES, InputFile, require_pixels
from flysidecars.sdk import Call, JsonObject


def analyze(call: Call) -> JsonObject:
    """What a provider or delegate says of a picture."""
    call.optional_text("prompt")
    engine = choose_engine(call.tool, call.config, call.delegates)
    with InputFile(call, FOR_PEOPLE, MAX_PICTURE_BYTES) as picture:
        if engine.kind == "provider":
            return from_provider(call, picture, MAX_PICTURE_BYTES)
        return from_delegate(call, engine, picture)


def ocr(call: Call) -> JsonObject:
    """The text in a picture."""
    call.optional_text("language")
    engine = choose_engine(call.tool, call.config, call.delegates)
    with InputFile(call, PICTURES, MAX_PICTURE_BYTES) as picture:
        if engine.kind == "provider":
            return from_provider(call, picture, MAX_PICTURE_BYTES)
        require_pixels(picture)
        if engine.kind == "delegate":
            return from_delegate(call, engine, picture)
        from flysidecars.media.tesseract import recognise

        return recognise(call, engine.argv[0], picture) | {"engine": str(engine)}
