"""The states of the media tools for a probe."""

from __future__ import annotations

from flysidecars.media.engines import choose_engine, whisper_model
from flysidecars.sdk import JsonObject


def degradation(tool: str, config: JsonObject, delegates: JsonObject | None) -> tuple[str, str] | None:
    """The reason and the remedy if the tool works only in part; None if it works. Raises `Unavailable` if it
    cannot work."""
    engine = choose_engine(tool, config, delegates)
    if engine.kind == "provider":
        from flysidecars.media.provider import read_provider

        read_provider(config)
    elif engine.name == "tesseract":
        from flysidecars.media.recognition import languages

        languages(engine.argv[0])
    elif engine.kind == "program" and tool == "audio.transcribe":
        whisper_model(config)
    elif engine.name == "espeak-ng":
        from flysidecars.media.speech import NO_SPEAKER, has_speaker

        return None if has_speaker() else NO_SPEAKER
    return None
