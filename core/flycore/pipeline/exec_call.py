"""Steps 4 and 13 for the kinds http, command and python: the values of a call in their entry's templates."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.model.enums import Code
from flycore.model.json import Json, JsonObject
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.tool_exec import SecretType
from flycore.pipeline.call import Rejection, failed
from flycore.runners.exec_values import Filled, InvalidValue, fill_exec
from flycore.sandbox.environment import typed_secret


def exec_values(entry: SidecarEntry, input: JsonObject, secrets: Mapping[str, str]) -> dict[str, Json]:
    """The values that placeholders stand for: the input, and the secrets with their declared types."""
    types = dict(entry.permissions.secret_types)
    typed = {name: typed_secret(text, types.get(name, SecretType.STRING)) for name, text in secrets.items()}
    # The registry lets no input have the name of a secret; if one had, it must not take the secret's place.
    return {**input, **typed}


def filled_exec(entry: SidecarEntry, input: JsonObject, secrets: Mapping[str, str]) -> Filled | Rejection:
    """What the entry's `exec` runs with these values, or why they have no place in it."""
    if entry.exec is None:
        raise TypeError("the entry has no exec")
    try:
        return fill_exec(entry.exec, entry.args, exec_values(entry, input, secrets))
    except InvalidValue as refused:
        return failed(Code.INVALID_INPUT, str(refused), refused.hint)


def value_refusal(entry: SidecarEntry, input: JsonObject, secrets: Mapping[str, str]) -> Rejection | None:
    """Why a value of the call has no place in the entry's `exec`; None where each has one.

    This is found out before anybody is asked, because such a call never runs.
    """
    if entry.exec is None:
        return None
    filled = filled_exec(entry, input, secrets)
    return filled if isinstance(filled, Rejection) else None


def own_argv(entry: SidecarEntry, program: ResolvedProgram) -> tuple[str, ...]:
    """The command line of the program; for an entry with an `exec` without its templates, which stand at the
    end."""
    count = len(entry.args)
    if entry.exec is None or not count:
        return program.argv
    if program.argv[-count:] != entry.args:
        raise ValueError("the command line does not end with the entry's arguments")
    return program.argv[:-count]
