"""Recognition by installed programs: tesseract reads pictures, whisper.cpp transcribes recordings."""

from __future__ import annotations

from flysidecars.media.engines import whisper_model
from flysidecars.media.files import InputFile
from flysidecars.run_program import ProgramResult, environment, heartbeat, run
from flysidecars.sdk import Call, JsonObject, ToolFailed, Unavailable

TESSERACT_LIMIT_S = 600.0
LIST_LIMIT_S = 10.0
MAX_TSV_BYTES = 16 * 1024 * 1024
_VARIABLES = ("TESSDATA_PREFIX", "OMP_THREAD_LIMIT")
_NOT_A_LANGUAGE = ("osd", "equ")
"""Data files that detect orientation and formulas and read no text."""
_WORD = "5"
_COLUMNS = 12


def languages(program: str) -> tuple[str, ...]:
    """The installed languages of tesseract. Raises `Unavailable` if there are none."""
    ran = run((program, "--list-langs"), b"", LIST_LIMIT_S, environment(*_VARIABLES))
    lines = ran.out.decode("utf-8", "replace").splitlines()[1:] if ran.ok else []
    found = tuple(line for line in map(str.strip, lines) if line and line not in _NOT_A_LANGUAGE)
    if not found:
        raise Unavailable(
            "tesseract has no language data",
            "install some (Debian and Ubuntu: apt install tesseract-ocr-eng)",
        )
    return found


def choose_language(language: str | None, installed: tuple[str, ...]) -> str:
    """The language option for tesseract. Raises `ToolFailed` (`language-missing`) for a missing language."""
    if language is None:
        return "eng" if "eng" in installed else installed[0]
    missing = [name for name in language.split("+") if name not in installed]
    if missing:
        package = missing[0].replace("_", "-").lower()
        raise ToolFailed(
            "language-missing",
            f"tesseract has no {' and no '.join(name or 'empty name' for name in missing)}",
            languages=list(installed),
            remedy=f"install it (Debian and Ubuntu: apt install tesseract-ocr-{package})" if package else "",
        )
    return language


def recognise(call: Call, program: str, picture: InputFile) -> JsonObject:
    """Read a picture with tesseract. Returns text, language and confidence."""
    language = choose_language(call.optional_text("language"), languages(program))
    argv = (program, "stdin", "stdout", "-l", language, "-c", "tessedit_create_tsv=1")
    beat = heartbeat(call, "tesseract reads")
    ran = run(
        argv,
        picture.rewind(),
        TESSERACT_LIMIT_S,
        environment(*_VARIABLES),
        max_output_bytes=MAX_TSV_BYTES,
        check_cancelled=beat,
    )
    if not ran.ok:
        raise _failed(ran)
    text, confidence = read_tsv(ran.out.decode("utf-8", "replace"))
    answer: JsonObject = {"text": text, "language": language}
    return answer if confidence is None else answer | {"confidence": confidence}


def read_tsv(table: str) -> tuple[str, float | None]:
    """The text and the mean confidence of its words (0 to 1, None without words) in tesseract's TSV table.

    Lines are kept, and an empty line separates paragraphs.
    """
    pieces: list[str] = []
    sure: list[float] = []
    last: tuple[list[str], str] | None = None
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) != _COLUMNS or cells[0] != _WORD or not cells[11].strip():
            continue
        paragraph, line = cells[1:4], cells[4]
        if last is not None:
            same = last[0] == paragraph
            pieces.append(" " if same and last[1] == line else "\n" if same else "\n\n")
        last = (paragraph, line)
        pieces.append(cells[11])
        sure.append(float(cells[10]))
    return "".join(pieces), round(sum(sure) / len(sure) / 100, 4) if sure else None


def _failed(ran: ProgramResult) -> ToolFailed:
    if ran.timed_out or ran.too_much:
        return ToolFailed("tesseract-failed", "tesseract takes too long or writes too much")
    return ToolFailed(
        "tesseract-failed", "tesseract cannot read the picture", exitCode=ran.code, stderr=ran.stderr_text()
    )


WHISPER_LIMIT_S = 3600.0
MAX_TEXT_BYTES = 4 * 1024 * 1024


def transcribe(call: Call, program: str, recording: InputFile) -> JsonObject:
    """Transcribe a recording with whisper.cpp. Returns the text, and the language if the caller named it."""
    model = whisper_model(call.config)
    language = call.optional_text("language")
    argv = (program, "-m", model, "-l", language or "auto", "-nt", "-np", "-f", "-")
    beat = heartbeat(call, "whisper.cpp listens")
    ran = run(
        argv,
        recording.rewind(),
        WHISPER_LIMIT_S,
        environment(),
        max_output_bytes=MAX_TEXT_BYTES,
        check_cancelled=beat,
    )
    if not ran.ok:
        raise ToolFailed(
            "whisper-failed",
            "whisper.cpp cannot read the recording; it reads WAV, FLAC, MP3 and Ogg",
            exitCode=ran.code,
            stderr=ran.stderr_text(),
        )
    lines = map(str.strip, ran.out.decode("utf-8", "replace").splitlines())
    answer: JsonObject = {"text": "\n".join(line for line in lines if line)}
    return answer if language is None else answer | {"language": language}
