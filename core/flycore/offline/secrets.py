"""The secrets that the entries of a root declare, and the values that the system's keyring keeps for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flycore.kernel.load_state import find_environment, read_files
from flycore.model.sidecar import Permissions
from flycore.registry.paths import RootPaths
from flycore.sandbox.environment import LONGEST_SECRET, declared_secrets
from flycore.sandbox.keyring_secrets import ask_keyring, keep_in_keyring

LONGEST = LONGEST_SECRET


class DeclaredSecret(NamedTuple):
    """A declared secret without its value."""

    name: str
    found_in: str
    """`environment`, `keyring`, or empty where it is missing."""
    sidecars: tuple[str, ...]


def keep_secret(name: str, value: str, environ: Mapping[str, str]) -> str:
    """Keep the value in the keyring. Return why it could not be kept, else nothing. This blocks."""
    why = declared_secrets(Permissions(secrets=(name,)), {name: value})[1].get(name, "")
    return f"the value is {why}" if why else keep_in_keyring(name, value, environ)


def list_secrets(places: RootPaths, environ: Mapping[str, str]) -> tuple[DeclaredSecret, ...]:
    """Return the declared secrets in the order of their names. This asks the keyring, and blocks."""
    by_name: dict[str, list[str]] = {}
    for entry in read_files(find_environment(places, environ), None).registry.entries:
        for name in entry.permissions.secrets:
            by_name.setdefault(name, []).append(entry.id)
    absent = [name for name in by_name if not environ.get(name)]
    kept = ask_keyring(absent, environ).values if absent else {}
    return tuple(
        DeclaredSecret(
            name, "keyring" if name in kept else "" if name in absent else "environment", tuple(by)
        )
        for name, by in sorted(by_name.items())
    )
