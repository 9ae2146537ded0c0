"""The sidecar `media.local`: tools for pictures and speech, by a provider, a delegate or a program."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, Unavailable, healthy, unavailable

sidecar = Sidecar("media.local")


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report the state of each tool. No request is sent to a provider, and no delegate is started."""
    from flysidecars.media.engines import PROGRAMS

    return {"tools": {tool: _state(tool, question) for tool in PROGRAMS}}


def _state(tool: str, question: Probe) -> JsonObject:
    from flysidecars.media.probe import degradation

    try:
        less = degradation(tool, question.config, question.delegates)
    except Unavailable as missing:
        return unavailable(
            missing.message, missing.remedy, str(missing.fields.get("reasonCode", "tool-unavailable"))
        )
    return healthy() if less is None else {"status": "degraded", "reason": less[0], "remedy": less[1]}


@sidecar.tool("vision.analyze")
def vision_analyze(call: Call) -> JsonObject:
    """Describe a picture below the project, or answer a question about it."""
    from flysidecars.media.tools import analyze

    return analyze(call)


@sidecar.tool("vision.ocr")
def vision_ocr(call: Call) -> JsonObject:
    """Read the text in a picture below the project."""
    from flysidecars.media.tools import ocr

    return ocr(call)


@sidecar.tool("audio.transcribe")
def audio_transcribe(call: Call) -> JsonObject:
    """Write down the speech in a recording below the project."""
    from flysidecars.media.tools import transcribe

    return transcribe(call)


@sidecar.tool("audio.speak")
def audio_speak(call: Call) -> JsonObject:
    """Say text aloud, or save it as a WAV file below the project."""
    from flysidecars.media.tools import speak

    return speak(call)
