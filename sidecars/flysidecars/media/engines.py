"""What does the work of a media tool: a provider, else a delegate, else a known program. The first that is
configured or found is used, named in the answer, and nothing else is tried when it fails."""

from __future__ import annotations

import os

from flysidecars.run_program import find_program
from flysidecars.sdk import JsonObject, Unavailable
from flysidecars.sdk.call import delegate_argv

PROGRAMS: dict[str, tuple[str, ...]] = {
    "vision.analyze": (),
    "vision.ocr": ("tesseract",),
    "audio.transcribe": ("whisper-cli", "whisper-cpp"),
    "audio.speak": ("espeak-ng", "say"),
}
"""Tool to the programs that are known to do it, in the order in which they are looked for on PATH."""
REMEDIES = {
    "vision.analyze": "set config.providerUrl of the entry, or delegates.analyze",
    "vision.ocr": "install tesseract (Debian and Ubuntu: apt install tesseract-ocr), or set "
    "config.providerUrl or delegates.ocr of the entry",
    "audio.transcribe": "install whisper.cpp, which brings whisper-cli, and set config.whisperModel of the "
    "entry to a model file; or set config.providerUrl or delegates.transcribe",
    "audio.speak": "install espeak-ng (Debian and Ubuntu: apt install espeak-ng), or set delegates.speak "
    "of the entry",
}
WHISPER_COMMANDS = ("whisper-cli", "whisper-cpp", "main")
"""What `config.whisperCommand` may name: `main` is what older builds are called, too common a name to be
looked for unasked."""


class Engine:
    """What was chosen. `kind` is `provider`, `delegate` or `program`; `argv` is that of the latter two, for a
    program its absolute path alone."""

    __slots__ = ("argv", "kind", "name")

    def __init__(self, kind: str, name: str, argv: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.argv = argv

    def __str__(self) -> str:
        return self.name if self.kind == "program" else f"{self.kind} {self.name}".strip()


def choose_engine(tool: str, config: JsonObject, delegates: JsonObject | None) -> Engine:
    """What does the work of `tool`. `delegates` is None where nobody said which there are. Raises
    `Unavailable` where nothing is there, `ToolFailed` for a delegate that is none."""
    if config.get("providerUrl") is not None:
        return Engine("provider", "")
    for name in (tool, tool.partition(".")[2], "delegate"):
        argv = delegate_argv(delegates or {}, name)
        if argv is not None:
            return Engine("delegate", name, argv)
    for name in _programs(tool, config):
        path = find_program(name)
        if path is not None:
            return Engine("program", name, (path,))
    wanted = " or ".join(PROGRAMS[tool])
    lack = f", and {wanted} is not installed" if wanted else ""
    raise Unavailable(f"{tool} has no provider and no delegate{lack}", REMEDIES[tool])


def _programs(tool: str, config: JsonObject) -> tuple[str, ...]:
    wanted = config.get("whisperCommand")
    if tool != "audio.transcribe" or wanted is None:
        return PROGRAMS[tool]
    if wanted not in WHISPER_COMMANDS:
        raise Unavailable(
            "config.whisperCommand names no known program", f"write one of {', '.join(WHISPER_COMMANDS)}"
        )
    return (str(wanted),)


def whisper_model(config: JsonObject) -> str:
    """The model file of whisper.cpp, which the entry names by an absolute path or from `~`. Raises
    `Unavailable`."""
    named = config.get("whisperModel")
    remedy = (
        "set config.whisperModel of the entry to a model file of whisper.cpp, such as ~/models/ggml-base.bin"
    )
    if not isinstance(named, str) or not named:
        raise Unavailable("whisper.cpp has no model: config.whisperModel is not set", remedy)
    path = os.path.expanduser(named)
    if not os.path.isabs(path) or not os.path.isfile(path):
        raise Unavailable("config.whisperModel does not name a file", remedy)
    return path
