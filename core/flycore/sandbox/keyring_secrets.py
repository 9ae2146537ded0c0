"""Declared secrets from the system's keyring, for which the package `keyring` has to be installed.

A locked keyring waits for a person, and a backend is code of somebody else: each question is put by a process
of its own, which has a time limit. This module is both sides: `python -m flycore.sandbox.keyring_secrets`
reads a request as one line of JSON and writes its answer as one. No value is ever on a command line.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

SERVICE = "flytui"
"""Under this name the keyring keeps flytui's secrets; the name of the variable is the user name."""
SECONDS = 10.0
"""How long one question may take. A keyring that asks a person for its password takes longer: it is asked
again later."""
RETRY_SECONDS = 30.0
"""After how long a secret that was not found is looked for again."""
MAX_ANSWER = 1_048_576
INSTALL = "install it with pip install 'flytui[keyring]'"
_PASSED = ("HOME", "PATH", "LANG", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY")
_PASSED_BEGINNING = ("XDG_", "LC_", "KEYRING_", "PYTHON_KEYRING_")


class KeyringAnswer(msgspec.Struct, frozen=True):
    """The values that were found by name; and what went wrong, in words without any value."""

    values: dict[str, str] = {}  # msgspec gives each instance its own
    problem: str = ""


class _Request(msgspec.Struct, frozen=True):
    names: list[str]
    value: str | None = None
    """To be kept under the one name; None where values are wanted."""
    remove: bool = False
    """Whether what is kept under the names is removed."""


def installed() -> bool:
    """Whether the package `keyring` is there. It is not loaded."""
    return importlib.util.find_spec("keyring") is not None


def ask_keyring(names: Collection[str], environ: Mapping[str, str]) -> KeyringAnswer:
    """Return what the keyring has under these names. This blocks, so it must not be called on an event
    loop."""
    return _ask(_Request(sorted(names)), environ)


def keep_in_keyring(name: str, value: str, environ: Mapping[str, str]) -> str:
    """Keep the value under the name. Return why it could not be kept, else nothing. This blocks."""
    return _ask(_Request([name], value), environ).problem


def remove_from_keyring(name: str, environ: Mapping[str, str]) -> str:
    """Remove what is kept under the name. Return why it could not be removed, else nothing. This blocks."""
    return _ask(_Request([name], remove=True), environ).problem


def _ask(request: _Request, environ: Mapping[str, str], seconds: float = SECONDS) -> KeyringAnswer:
    if not installed():
        return KeyringAnswer(problem=f"the package keyring is not installed: {INSTALL}")
    passed = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name.startswith(_PASSED_BEGINNING)
    }
    try:
        process = subprocess.Popen(
            (sys.executable, "-I", "-m", "flycore.sandbox.keyring_secrets"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=passed,
            cwd="/",
        )
    except OSError as error:
        return KeyringAnswer(problem=f"the keyring could not be asked: {error.strerror or error}")
    with process:
        try:
            written = process.communicate(msgspec.json.encode(request) + b"\n", timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return KeyringAnswer(problem=f"the keyring did not answer within {seconds:g} s; it may be locked")
    try:
        return msgspec.json.decode(written[:MAX_ANSWER], type=KeyringAnswer)
    except (msgspec.DecodeError, ValueError):
        return KeyringAnswer(problem="the keyring's backend ended without an answer")


@dataclass(slots=True)
class KeyringSecrets:
    """What the keyring gave to this process. `look_up` runs in worker threads, and values are only added."""

    _values: dict[str, str] = field(default_factory=dict, repr=False)
    _tried: dict[str, float] = field(default_factory=dict)
    problem: str = ""
    """Why the keyring gave nothing the last time; empty where it was asked and answered."""

    def look_up(self, names: Collection[str], environ: Mapping[str, str]) -> None:
        """Ask for the names that neither the environment nor an earlier answer has. This blocks."""
        now = time.monotonic()
        wanted = [
            name
            for name in names
            if not environ.get(name)
            and name not in self._values
            and now - self._tried.get(name, -RETRY_SECONDS) >= RETRY_SECONDS
        ]
        if not wanted or not installed():
            return
        answer = ask_keyring(wanted, environ)
        self.problem = answer.problem
        self._tried |= dict.fromkeys(wanted, time.monotonic())
        self._values |= {name: value for name, value in answer.values.items() if name in wanted}

    def over(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables together with what the keyring gave. For declared secrets alone: whatever
        else is handed to a tool comes from the environment."""
        return {**environ, **self._values} if self._values else environ

    def forget_missing(self) -> None:
        """Have names that were not found looked up again."""
        self._tried.clear()


def _answer(request: _Request) -> KeyringAnswer:
    try:
        import keyring

        if request.remove:
            for name in request.names:
                keyring.delete_password(SERVICE, name)
            return KeyringAnswer()
        if request.value is not None:
            keyring.set_password(SERVICE, request.names[0], request.value)
            return KeyringAnswer()
        found = {name: keyring.get_password(SERVICE, name) for name in request.names}
    except Exception as error:  # noqa: BLE001  # a backend may raise anything; this process is its boundary
        # The words of the error may quote a value.
        return KeyringAnswer(problem=f"the keyring's backend failed: {type(error).__name__}")
    return KeyringAnswer({name: value for name, value in found.items() if isinstance(value, str)})


def main() -> None:
    """Answer one request."""
    # What a backend prints must not be taken for the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Request)
    written = json.dumps(msgspec.to_builtins(_answer(request))).encode("ascii")
    with open(answer_to, "wb") as file:
        file.write(written)


if __name__ == "__main__":
    main()
