"""The metadata of a package: `sidecar.json`, or `package.json` or `package.jsonc` of kind `process-json`."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, NamedTuple

from flycore.catalog.version import PROTOCOLS
from flycore.model.base import Value
from flycore.model.diagnostics import Severity
from flycore.model.enums import Anchor, Source
from flycore.model.json import Json, JsonObject
from flycore.packages.area import PACKAGE_ID, VERSION, PackageArea, PackageRefused
from flycore.packages.tree import TreeFile, checksum, read_tree
from flycore.registry.edits import first_registry
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.package_metadata import LARGEST_METADATA, METADATA_FILES
from flycore.registry.parse_registry import parse_registry
from flycore.registry.version_range import is_in_range, version_range
from flysafe.beneath import open_beneath

KIND = "process-json"
ENTRY_KEYS = (
    *("args", "env", "passEnv", "config", "delegates", "timeoutMs", "maxOutputBytes", "maxInputBytes"),
    *("instances", "idleMs", "permissions", "limits", "probe", "dialect", "tools"),
)
"""Keys of the metadata that become keys of the entry as they are."""
_CHECKSUM = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
MOST_PROBLEMS = 5
"""Problems of the metadata in one refusal."""


class PackageMetadata(Value, frozen=True, kw_only=True):
    """What a package says of itself, checked."""

    file: str
    """The name of the file that says it."""
    id: str
    version: str
    command: str
    """The program, relative to the package, without `./` at its beginning."""
    entry: JsonObject
    """The entry of the registry that it asks for."""
    stated_checksum: str = ""
    runtime: str = ""


class ReadPackage(NamedTuple):
    """A package as its folder has it."""

    metadata: PackageMetadata
    files: tuple[TreeFile, ...]
    checksum: str
    """Over all files but the metadata, as the metadata states it."""
    whole: str
    """Over all files with the metadata: the identity of what is installed."""


def read_package(folder: int, area: PackageArea, *, core: str, known: frozenset[str]) -> ReadPackage:
    """Read and check the package in an open folder. `core` is the version of flytui, `known` holds the names
    of the known capabilities.

    Raises PackageRefused: `metadata`, `command`, `checksum`, `version`, `tools`, and what `read_tree` raises.
    """
    files = read_tree(folder)
    metadata = _read_metadata(folder, files, area, core, known)
    found = checksum(files, metadata.file)
    if metadata.stated_checksum and metadata.stated_checksum != found:
        message = (
            f"its files have the checksum {found}, and {metadata.file} states {metadata.stated_checksum}"
        )
        raise PackageRefused("checksum", message, "get the package again from where it was made")
    return ReadPackage(metadata, files, found, checksum(files))


def _read_metadata(
    folder: int, files: tuple[TreeFile, ...], area: PackageArea, core: str, known: frozenset[str]
) -> PackageMetadata:
    there = {file.path for file in files}
    for name in METADATA_FILES:
        if name not in there:
            continue
        value = _parsed(folder, name)
        if name == METADATA_FILES[0] or value.get("kind") == KIND:
            metadata = _metadata(value, name, area)
            _check_program(metadata, files)
            _check_versions(value, core)
            _check_entry(metadata, area, known)
            return metadata
    names = f'{METADATA_FILES[0]}, or {" or ".join(METADATA_FILES[1:])} with "kind": "{KIND}"'
    raise PackageRefused("metadata", f"the package has no metadata: {names}")


def _parsed(folder: int, name: str) -> dict[str, Any]:
    fd = open_beneath(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file:
        data = file.read(LARGEST_METADATA + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    if len(data) > LARGEST_METADATA:
        raise PackageRefused("metadata", f"{name} is larger than {LARGEST_METADATA // 1024} KiB")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PackageRefused("metadata", f"{name} is not UTF-8") from error
    value, problem = parse_jsonc(text, name)
    if problem is not None:
        raise PackageRefused("metadata", f"{problem.position} {problem.message}")
    if not isinstance(value, dict):
        raise PackageRefused("metadata", f"{name} is not an object")
    return value


def _metadata(value: dict[str, Any], name: str, area: PackageArea) -> PackageMetadata:
    def wrong(key: str, words: str) -> PackageRefused:
        return PackageRefused("metadata", f'{name}: "{key}" {words}')

    if value.get("schemaVersion") != 1 or isinstance(value.get("schemaVersion"), bool):
        raise wrong("schemaVersion", "must be 1")
    if value.get("kind") != KIND:
        raise wrong("kind", f"must be {KIND}")
    package, version, command = value.get("id"), value.get("packageVersion"), value.get("command")
    if not isinstance(package, str) or not PACKAGE_ID.fullmatch(package):
        raise wrong("id", "must be 1 to 64 of a-z 0-9 . _ -, and begin and end with a letter or digit")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        raise wrong("packageVersion", "must be a version, such as 1.4.0")
    inside = _inside(command)
    if not inside:
        raise PackageRefused(
            "command", f'{name}: "command" must be a path inside of the package, such as ./bin/{package}'
        )
    stated = value.get("checksum", "")
    match = _CHECKSUM.fullmatch(stated) if isinstance(stated, str) else None
    if stated and match is None:
        raise wrong("checksum", "must be 64 hexadecimal digits")
    runtime = value.get("runtime", "")
    return PackageMetadata(
        file=name,
        id=package,
        version=version,
        command=inside,
        entry=_entry(value, package, version, area.command(package, inside), area),
        stated_checksum=match[1] if match else "",
        runtime=runtime if isinstance(runtime, str) else _words(runtime),
    )


def _words(value: Json) -> str:
    if not isinstance(value, dict):
        return ""
    return ", ".join(f"{name} {item}" for name, item in value.items() if isinstance(item, str))


def _inside(command: object) -> str:
    """Return the command without `./`; empty where it is none inside of the package."""
    if not isinstance(command, str) or "\\" in command or "\0" in command or command.startswith("/"):
        return ""
    parts = [part for part in command.split("/") if part not in ("", ".")]
    return "" if ".." in parts or command.endswith("/") else "/".join(parts)


def _entry(value: dict[str, Any], package: str, version: str, command: str, area: PackageArea) -> JsonObject:
    # In an empty folder its seal is complete: nothing decides what runs but the files of the package.
    cwd = Anchor.DATA.value if area.source is Source.USER else value.get("cwd", Anchor.EMPTY.value)
    entry: JsonObject = {"command": command, "cwd": cwd}
    entry |= {"kind": KIND, "packageId": package, "packageVersion": version}
    entry |= {key: value[key] for key in ("protocolVersion", "compatibleCore") if key in value}
    return entry | {key: value[key] for key in ENTRY_KEYS if key in value}


def _check_program(metadata: PackageMetadata, files: tuple[TreeFile, ...]) -> None:
    program = next((file for file in files if file.path == metadata.command), None)
    if program is None:
        raise PackageRefused("command", f"the package has no file {metadata.command}, which is its command")
    if not program.mode & 0o100:
        raise PackageRefused("command", f"{metadata.command}, its command, is not executable")


def _check_versions(value: dict[str, Any], core: str) -> None:
    wanted = value.get("compatibleCore")
    if wanted is not None and (not isinstance(wanted, str) or version_range(wanted) is None):
        raise PackageRefused("version", '"compatibleCore" must be a range of versions, such as >=0.1,<1')
    if isinstance(wanted, str) and not is_in_range(core, wanted):
        raise PackageRefused("version", f"it is made for flytui {wanted}, and this is {core}")
    protocol = value.get("protocolVersion")
    if protocol is None:
        return
    spoken = protocol.removeprefix("process-json/") if isinstance(protocol, str) else ""
    if spoken not in PROTOCOLS and not any(is_in_range(own, spoken) for own in PROTOCOLS if spoken):
        raise PackageRefused(
            "version", f"it speaks protocol {protocol}, and this flytui {', '.join(PROTOCOLS)}"
        )


def _check_entry(metadata: PackageMetadata, area: PackageArea, known: frozenset[str]) -> None:
    """Refuse an entry that the registry would call invalid."""
    if not metadata.entry.get("tools"):
        raise PackageRefused("tools", f'{metadata.file}: "tools" names no tool')
    text = first_registry(metadata.id, metadata.entry)
    entries, findings = parse_registry(text, metadata.file, area.source, known)
    found = [*findings, *(problem for entry in entries or () for problem in entry.problems)]
    problems = [item.message for item in found if item.severity is Severity.ERROR]
    if entries is None or problems:
        more = f" (and {len(problems) - MOST_PROBLEMS} more)" if len(problems) > MOST_PROBLEMS else ""
        message = "; ".join(problems[:MOST_PROBLEMS])
        raise PackageRefused("metadata", f"{metadata.file}: {message}{more}")
