"""whisper.cpp: the speech in a recording as text."""

from __future__ import annotations

from flysidecars.media.engines import whisper_model
from flysidecars.media.files import InputFile
from flysidecars.media.waiting import heartbeat
from flysidecars.programs import environment, run
from flysidecars.sdk import Call, JsonObject, ToolFailed

WHISPER_LIMIT_S = 3600.0
MAX_TEXT_BYTES = 4 * 1024 * 1024


def transcribe(call: Call, program: str, recording: InputFile) -> JsonObject:
    """Text, and the language where the caller named it. The recording is the program's stdin."""
    model = whisper_model(call.config)
    language = call.optional_text("language")
    argv = (program, "-m", model, "-l", language or "auto", "-nt", "-np", "-f", "-")
    beat = heartbeat(call, "whisper.cpp listens")
    ran = run(argv, recording.rewound(), WHISPER_LIMIT_S, environment(), most=MAX_TEXT_BYTES, heed=beat)
    if not ran.ok:
        raise ToolFailed(
            "whisper-failed",
            "whisper.cpp does not read the recording; it wants WAV, FLAC, MP3 or Ogg",
            exitCode=ran.code,
            stderr=ran.stderr_text(),
        )
    lines = map(str.strip, ran.out.decode("utf-8", "replace").splitlines())
    answer: JsonObject = {"text": "\n".join(line for line in lines if line)}
    return answer if language is None else answer | {"language": language}
