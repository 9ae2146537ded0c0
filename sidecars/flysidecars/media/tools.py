"""The tools `vision.analyze`, `vision.ocr`, `audio.transcribe` and `audio.speak`."""

from __future__ import annotations

from flysidecars.media.engine_answers import build_provider_request, from_delegate, from_provider
from flysidecars.media.engines import Engine, choose_engine
from flysidecars.media.files import (
    COMMON_PICTURES,
    MAX_PICTURE_BYTES,
    MAX_RECORDING_BYTES,
    MAX_SENT_BYTES,
    PICTURES,
    RECORDINGS,
    InputFile,
    require_pixels,
)
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed


def analyze(call: Call) -> JsonObject:
    """Describe a picture, by a provider or a delegate."""
    call.optional_text("prompt")
    engine = choose_engine(call.tool, call.config, call.delegates)
    with InputFile(call, COMMON_PICTURES, MAX_PICTURE_BYTES) as picture:
        if engine.kind == "provider":
            return from_provider(call, picture, MAX_PICTURE_BYTES)
        return from_delegate(call, engine, picture)


def ocr(call: Call) -> JsonObject:
    """Read the text in a picture."""
    call.optional_text("language")
    engine = choose_engine(call.tool, call.config, call.delegates)
    with InputFile(call, PICTURES, MAX_PICTURE_BYTES) as picture:
        if engine.kind == "provider":
            return from_provider(call, picture, MAX_PICTURE_BYTES)
        require_pixels(picture)
        if engine.kind == "delegate":
            return from_delegate(call, engine, picture)
        from flysidecars.media.recognition import recognise

        return recognise(call, engine.argv[0], picture) | {"engine": str(engine)}


MAX_TEXT = 10_000


def transcribe(call: Call) -> JsonObject:
    """Transcribe the speech in a recording."""
    call.optional_text("language")
    engine = choose_engine(call.tool, call.config, call.delegates)
    with InputFile(call, RECORDINGS, MAX_RECORDING_BYTES) as recording:
        if engine.kind == "provider":
            return from_provider(call, recording, MAX_SENT_BYTES)
        if engine.kind == "delegate":
            return from_delegate(call, engine, recording)
        from flysidecars.media.recognition import transcribe

        return transcribe(call, engine.argv[0], recording) | {"engine": str(engine)}


def speak(call: Call) -> JsonObject:
    """Speak the text, or save it as a WAV file at `path`. A provider is used only with a `path`."""
    text, path = call.text("text"), call.optional_text("path")
    if not 1 <= len(text) <= MAX_TEXT:
        raise InvalidInput("text", f"1 to {MAX_TEXT} characters are needed")
    if path is not None and not path.lower().endswith(".wav"):
        raise InvalidInput("path", "a name that ends with .wav is needed")
    config = {key: value for key, value in call.config.items() if path is not None or key != "providerUrl"}
    engine = choose_engine(call.tool, config, call.delegates)
    if engine.kind == "delegate":
        from flysidecars.media.delegate import ask_delegate

        return ask_delegate(call, engine) | {"engine": str(engine)}
    if path is None:
        from flysidecars.media.speech import play_aloud

        play_aloud(call, engine, text)
        return {"spoken": True, "engine": str(engine)}
    return _save(call, path, _wav(call, engine, text)) | {"engine": str(engine)}


def _wav(call: Call, engine: Engine, text: str) -> bytes:
    from flysidecars.media.speech import MAX_WAV_BYTES, repair_wav, to_wav

    if engine.kind == "program":
        return to_wav(call, engine, text)
    from base64 import b64decode

    from flysidecars.media.http_post import ask_provider
    from flysidecars.media.provider import read_provider

    call.permissions.require_network()
    answer = ask_provider(
        read_provider(call.config), build_provider_request(call, None, 0), max_bytes=MAX_WAV_BYTES * 4 // 3
    )
    sound = answer.get("base64")
    try:
        wav = repair_wav(b64decode(sound if isinstance(sound, str) else "", validate=True))
    except ValueError:
        wav = None
    if wav is None:
        raise ToolFailed("provider-failed", "the provider answers without a WAV file in `base64`")
    return wav


def _save(call: Call, path: str, wav: bytes) -> JsonObject:
    """Save a new file and return the fields of the answer. No existing file is replaced."""
    from flysidecars.sdk.paths import NewFile

    new = NewFile(call, path)
    with new as file:
        file.write(wav)
    artifact = {"path": new.path, "mimeType": "audio/wav", "bytes": new.size}
    return {"spoken": False, "path": path, "artifacts": [artifact]}
