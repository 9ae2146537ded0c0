"""Speech by espeak-ng, or by `say` of macOS: saved as a WAV file, or played over the loudspeaker.

The use of `say` follows its manual and has never been tried.
"""

from __future__ import annotations

import os
import re

from flysidecars.media.engines import Engine
from flysidecars.run_program import ProgramResult, environment, heartbeat, run
from flysidecars.sdk import Call, InvalidInput, ToolFailed, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT_S = 1800.0
MAX_WAV_BYTES = 128 * 1024 * 1024
"""About 50 minutes in the format of espeak-ng."""
_VOICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()+_.-]{0,127}")
_SOUND_VARIABLES = ("XDG_RUNTIME_DIR", "PULSE_SERVER", "ALSA_CONFIG_PATH")
"""The environment variables by which programs find the sound server."""
NO_SPEAKER = (
    "there is no sound device that can be reached",
    "give a path to save a WAV file; or let the entry pass XDG_RUNTIME_DIR, by which a sound server is found",
)


def to_wav(call: Call, engine: Engine, text: str) -> bytes:
    """The spoken text as a complete WAV file. Raises `ToolFailed` (`speech-failed`)."""
    if engine.name == "say":
        return _say_to_wav(call, engine, text)
    ran = _speak(call, (*_espeak(call, engine), "--stdout"), text)
    return _wav_of(ran)


def play_aloud(call: Call, engine: Engine, text: str) -> None:
    """Speak the text over the loudspeaker and wait for its end. Raises `Unavailable` if there is no
    loudspeaker, and `ToolFailed` (`speech-failed`)."""
    if engine.name == "say":
        ran = _speak(call, (*_say(call, engine), "-f", "-"), text)
    elif not has_speaker():
        raise Unavailable(*NO_SPEAKER)
    else:
        ran = _speak(call, _espeak(call, engine), text)
    # espeak-ng exits with 0 if it finds no sound device; only its stderr shows it.
    if not ran.ok or b"snd_pcm_open" in ran.stderr or b"rror:" in ran.stderr:
        raise _failed(ran)


def has_speaker(environ: Mapping[str, str] = os.environ, devices: str = "/dev/snd") -> bool:
    """Whether this process can reach a sound server or a sound card with an output."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    served = [os.path.join(runtime, name) for name in ("pulse/native", "pipewire-0")] if runtime else []
    if environ.get("PULSE_SERVER") or any(map(os.path.exists, served)):
        return True
    names = os.listdir(devices) if os.path.isdir(devices) else []
    return any(name.startswith("pcm") and name.endswith("p") for name in names)


def _voice(call: Call) -> tuple[str, ...]:
    voice = call.optional_text("voice")
    if voice is None:
        return ()
    if not _VOICE.fullmatch(voice):
        raise InvalidInput("voice", "the name of a voice is needed, such as en or de+f2")
    return ("-v", voice)


def _espeak(call: Call, engine: Engine) -> tuple[str, ...]:
    return (*engine.argv, "--stdin", "-b", "1", *_voice(call))


def _say(call: Call, engine: Engine) -> tuple[str, ...]:
    return (*engine.argv, *_voice(call))


def _speak(call: Call, argv: tuple[str, ...], text: str) -> ProgramResult:
    beat = heartbeat(call, "speaking")
    return run(
        argv,
        text.encode(),
        LIMIT_S,
        environment(*_SOUND_VARIABLES),
        max_output_bytes=MAX_WAV_BYTES,
        check_cancelled=beat,
    )


def _say_to_wav(call: Call, engine: Engine, text: str) -> bytes:
    folder = call.artifact_dir or call.project_dir
    path = os.path.join(folder, f".say-{os.urandom(8).hex()}.wav")
    options = ("--file-format=WAVE", "--data-format=LEI16@22050", "-o", path, "-f", "-")
    try:
        ran = _speak(call, (*_say(call, engine), *options), text)
        with open(path, "rb") as file:
            ran.out = file.read(MAX_WAV_BYTES)
    except FileNotFoundError as missing:
        raise _failed(ran) from missing
    finally:
        if os.path.lexists(path):
            os.unlink(path)
    return _wav_of(ran)


def _wav_of(ran: ProgramResult) -> bytes:
    wav = repair_wav(ran.out) if ran.ok else None
    if wav is None:
        raise _failed(ran)
    return wav


def repair_wav(data: bytes) -> bytes | None:
    """The WAV file with correct sizes in its headers; None for anything else, or without samples.

    A program that writes to a pipe cannot know the sizes when it writes the headers.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    place = 12
    while place + 8 <= len(data):
        size = int.from_bytes(data[place + 4 : place + 8], "little")
        if data[place : place + 4] == b"data":
            samples = data[place + 8 :][:size]
            head = data[12 : place + 4] + len(samples).to_bytes(4, "little")
            pad = b"\0" * (len(samples) % 2)
            body = b"WAVE" + head + samples + pad
            return b"RIFF" + len(body).to_bytes(4, "little") + body if samples else None
        place += 8 + size + size % 2
    return None


def _failed(ran: ProgramResult) -> ToolFailed:
    if ran.timed_out or ran.too_much:
        return ToolFailed("speech-failed", "the text takes too long to be spoken")
    return ToolFailed("speech-failed", "the text was not spoken", exitCode=ran.code, stderr=ran.stderr_text())
