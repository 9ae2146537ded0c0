"""Chooses the engine of a media tool: a provider, else a delegate, else a known program.

The first one that is configured or installed is used, and the answer names it. If it fails, no other is
tried.
"""

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
"""The programs that can do a tool's work, in the order in which they are looked for on PATH."""
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
"""The programs that `config.whisperCommand` may name. Older builds are called `main`; that name is too common
to look for it on PATH without being asked."""


class Engine:
    """The engine of a tool. `kind` is `provider`, `delegate` or `program`. `argv` is the delegate's command,
    the program's absolute path, or empty for a provider."""

    __slots__ = ("argv", "kind", "name")

    def __init__(self, kind: str, name: str, argv: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.argv = argv

    def __str__(self) -> str:
        return self.name if self.kind == "program" else f"{self.kind} {self.name}".strip()


def choose_engine(tool: str, config: JsonObject, delegates: JsonObject | None) -> Engine:
    """The engine for `tool`. `delegates` is None if they are unknown.

    Raises `Unavailable` if there is no engine, and `ToolFailed` for an invalid delegate.
    """
    if config.get("providerUrl") not in (None, ""):  # empty in a registry that was filled in by half
        return Engine("provider", "")
    for name in (tool, tool.partition(".")[2], "delegate"):
        argv = delegate_argv(delegates or {}, name)
        if argv is not None:
            return Engine("delegate", name, argv)
    for name in _programs(tool, config):
        path = find_program(name)
        if path is not None:
            return Engine("program", name, (path,))
    programs = " or ".join(PROGRAMS[tool])
    lack = f", and {programs} is not installed" if programs else ""
    raise Unavailable(f"{tool} has no provider and no delegate{lack}", REMEDIES[tool])


def _programs(tool: str, config: JsonObject) -> tuple[str, ...]:
    command = config.get("whisperCommand")
    if tool != "audio.transcribe" or command in (None, ""):
        return PROGRAMS[tool]
    if command not in WHISPER_COMMANDS:
        raise Unavailable(
            "config.whisperCommand names no known program", f"write one of {', '.join(WHISPER_COMMANDS)}"
        )
    return (str(command),)


def whisper_model(config: JsonObject) -> str:
    """The path of the model file for whisper.cpp, from the entry's config: absolute, or beginning with `~`.
    Raises `Unavailable`."""
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
