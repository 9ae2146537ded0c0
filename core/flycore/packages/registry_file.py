"""The registry file that has the entries of an area's packages: its text now, and as it will be."""

from __future__ import annotations

import os
import stat
from typing import Any

import msgspec

from flycore.model.json import Json, JsonObject
from flycore.packages.area import NEXT, OpenArea, PackageRefused
from flycore.registry.edits import (
    EntryEdit,
    entry_text,
    first_registry,
    put_in_text,
    put_text_in_text,
    remove_from_text,
)
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.read_file import MAX_FILE_BYTES
from flysafe.atomic import write_in
from flysafe.beneath import open_beneath

NEW_FILE_MODE = 0o644
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class RegistryText(msgspec.Struct, frozen=True):
    """A registry file as it is. All fields are empty where there is none."""

    text: str = ""
    mark: bytes = b""
    mode: int = NEW_FILE_MODE
    sidecars: JsonObject = msgspec.field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """Whether there is a file with anything in it."""
        return bool(self.text)

    def spelled(self, sidecar: str) -> str:
        """Return the entry as the text spells it; empty where there is none."""
        return (entry_text(self.text, sidecar) or "") if sidecar in self.sidecars else ""


def read_registry_text(opened: OpenArea) -> RegistryText:
    """Read the registry of an area. Raises PackageRefused (`registry`) where it cannot be edited."""
    shown = opened.area.shown_registry
    try:
        fd = open_beneath(opened.registry, opened.registry_name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return RegistryText()
    except OSError as error:
        message = f"{shown} cannot be read, or is a link, which an edit would replace: {error.strerror}"
        raise PackageRefused("registry", message) from error
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise PackageRefused("registry", f"{shown} is not a regular file")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise PackageRefused("registry", f"{shown} is too large")
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b""
    try:
        text = data[len(mark) :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise PackageRefused("registry", f"{shown} is not UTF-8") from error
    return RegistryText(text, mark, stat.S_IMODE(facts.st_mode), _sidecars(text, shown))


def _sidecars(text: str, shown: str) -> JsonObject:
    value: Any
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        raise PackageRefused("registry", f"correct {shown} first: {problem.position} {problem.message}")
    sidecars = value.get("sidecars", {}) if isinstance(value, dict) else None
    if not isinstance(sidecars, dict):
        raise PackageRefused("registry", f"correct {shown} first: it is not a registry")
    return sidecars


def entry_of_package(registry: RegistryText, package: str, shown: str) -> tuple[str, JsonObject | None]:
    """Return the id and the value of the entry of a package; the value is None where it has none yet.

    Raises PackageRefused (`registry`) where two entries name it, or its id is that of another entry.
    """
    found = [
        sidecar
        for sidecar, entry in registry.sidecars.items()
        if isinstance(entry, dict) and entry.get("packageId") == package
    ]
    if len(found) > 1:
        raise PackageRefused("registry", f"{shown}: {' and '.join(found)} both name the package {package}")
    if found:
        entry = registry.sidecars[found[0]]
        return found[0], entry if isinstance(entry, dict) else None
    if package in registry.sidecars:
        message = f"{shown} already has an entry {package}, which is not of this package"
        remedy = f'write "packageId": "{package}" into it, or give it another id'
        raise PackageRefused("registry", message, remedy)
    return package, None


def with_entry(registry: RegistryText, sidecar: str, after: JsonObject | str | None, shown: str) -> str:
    """Return the text of the registry with that entry: a value, a text with comments, or none.

    Every byte outside of the entry stays. Raises PackageRefused (`registry`).
    """
    if after is None:
        edit = remove_from_text(registry.text, sidecar, shown) if registry.exists else EntryEdit()
    elif not registry.exists:
        entry: Json = parse_jsonc(after, shown)[0] if isinstance(after, str) else after
        edit = EntryEdit(text=first_registry(sidecar, entry if isinstance(entry, dict) else {}))
    elif isinstance(after, str):
        edit = put_text_in_text(registry.text, sidecar, after, shown)
    else:
        edit = put_in_text(registry.text, sidecar, after, shown)
    if edit.why_not:
        raise PackageRefused("registry", edit.why_not)
    if len(edit.text.encode("utf-8")) + len(registry.mark) > MAX_FILE_BYTES:
        raise PackageRefused("registry", f"{shown} would become too large to be read")
    return edit.text


def write_next(opened: OpenArea, registry: RegistryText, text: str) -> None:
    """Write the registry as it will be beside the present one. Raises OSError."""
    data = registry.mark + text.encode("utf-8")
    write_in(opened.registry, opened.registry_name + NEXT, data, registry.mode)


def remove_next(opened: OpenArea) -> None:
    """Remove the registry as it would have been. Raises OSError, but not where there is none."""
    try:
        os.unlink(opened.registry_name + NEXT, dir_fd=opened.registry)
    except FileNotFoundError:
        return


def commit_next(opened: OpenArea) -> None:
    """Put the registry as it will be in the place of the present one: the change is made by this rename.
    Raises OSError."""
    name = opened.registry_name
    os.rename(name + NEXT, name, src_dir_fd=opened.registry, dst_dir_fd=opened.registry)
