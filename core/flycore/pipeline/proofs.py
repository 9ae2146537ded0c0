"""Compares a successful output with the input: whether it shows that something else was done, or nothing.

A program that does not know a field of the input ignores it, and answers success. Where the capability says
which fields of its output prove the act, a contradiction makes the call a failure, `not-done`.
"""

from __future__ import annotations

import os

from flycore.model.catalog import Capability, Proof
from flycore.model.json import Json, JsonObject


def contradiction(capability: Capability, input: JsonObject, output: Json, project_dir: str) -> str:
    """Return why the output shows that the act was not done as it was asked; empty where it does not.

    Looks at the paths that should be read or written.
    """
    if not isinstance(output, dict):
        return ""
    for proof in capability.proofs:
        asked, said = input.get(proof.of), output.get(proof.field)
        if asked is None:
            continue
        if proof.relation in ("read", "written"):
            why = _missing_file(proof, asked, said, project_dir)
        else:
            why = (
                "" if said is None or _agrees(proof, asked, said) else f"it says {proof.field} {said!r:.200}"
            )
        if why:
            return f"{proof.of} was {asked!r:.200}, and {why}"
    return ""


def _says(proof: Proof, said: Json) -> str:
    return f"it says {proof.field} {said!r:.200}"


def _agrees(proof: Proof, asked: Json, said: Json) -> bool:
    if proof.relation == "length":
        return not isinstance(asked, str) or not isinstance(said, int) or said in _lengths(asked)
    if proof.relation == "window":
        return not isinstance(asked, str) or _is_window(asked, said)
    if isinstance(asked, str) and isinstance(said, str):
        return asked.casefold() == said.casefold()
    return type(asked) is not type(said) or asked == said


def _lengths(text: str) -> tuple[int, ...]:
    """How many characters a text has: code points, as most count, UTF-16 units in JavaScript, or bytes."""
    return (
        len(text),
        len(text.encode("utf-16-le", "surrogatepass")) // 2,
        len(text.encode("utf-8", "replace")),
    )


def _is_window(named: str, said: Json) -> bool:
    """Whether a window, given by its id, title or both, can be the one that was named by its id, its title or
    a part of that."""
    fields = said if isinstance(said, dict) else {"id": said, "title": said}
    number, title = fields.get("id"), fields.get("title")
    ids = (str(number), hex(number)) if isinstance(number, int) else (str(number),)
    if number is None and title is None:
        return True
    return named.strip() in ids or (isinstance(title, str) and named in title)


def _missing_file(proof: Proof, asked: Json, said: Json, project_dir: str) -> str:
    if not isinstance(asked, str) or "\0" in asked:
        return ""
    path = os.path.join(project_dir, asked)
    if isinstance(said, str) and "\0" not in said and not _same_path(path, os.path.join(project_dir, said)):
        return _says(proof, said)
    return "" if os.path.lexists(path) else "there is no such file"


def _same_path(one: str, other: str) -> bool:
    return os.path.normpath(one) == os.path.normpath(other) or os.path.realpath(one) == os.path.realpath(
        other
    )
