"""Team bundles: registry entries, policy and kits in one signed file, and those that a person applied.

The applied ones lie in one file in the person's config folder. They are a layer below the person's own files:
their entries wait for trust as those of a project do, and their policy only makes things stricter. Their
signatures were verified when they were applied; no library is needed to read them.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic
from flycore.model.json import JsonObject, StrictJsonError, canonical_json, digest, read_strict
from flycore.registry.paths import BUNDLES_FILE
from flycore.registry.read_file import unreadable, whole_file
from flysafe.beneath import read_beneath

KIND = "flytui.bundle"
SCHEMA_VERSION = 1
MAX_BYTES = 4_194_304
"""Bytes of one bundle."""
MAX_APPLIED_BYTES = 16_777_216
MOST_BUNDLES = 16
LONGEST_NAME = 64
PARTS = ("registry", "policy", "kits")
"""What a bundle may hold, each as the document that such a file is."""
_NAME = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
_MOST_NUMBER = 2**53


class BundleFormatError(ValueError):
    """The bytes are no bundle."""


class Bundle(Value, frozen=True, kw_only=True):
    """One bundle as it is written. Nothing here says that its signature is good."""

    payload: JsonObject
    """What is signed: `name`, `number` and the parts."""
    key: str
    """The public key: 64 hex digits."""
    signature: str
    """128 hex digits."""

    @property
    def name(self) -> str:
        """The name, by which a later bundle replaces this one."""
        return str(self.payload["name"])

    @property
    def number(self) -> int:
        """The number, which rises with each bundle of that name."""
        number = self.payload["number"]
        return number if isinstance(number, int) else 0

    @property
    def shown(self) -> str:
        """What stands for the file where places in it are named."""
        return f"bundle {self.name}"

    @property
    def digest(self) -> str:
        """SHA-256 over key and content: 64 hex digits."""
        return digest([self.key, self.payload])

    def part(self, name: str) -> JsonObject | None:
        """One of `PARTS`; None where the bundle does not have it."""
        part = self.payload.get(name)
        return part if isinstance(part, dict) else None

    def document(self) -> JsonObject:
        """The bundle as it is written to a file."""
        return {
            "kind": KIND,
            "schemaVersion": SCHEMA_VERSION,
            "payload": self.payload,
            "key": self.key,
            "signature": self.signature,
        }


def parse_bundle(data: bytes) -> Bundle:
    """Return the bundle in these bytes. Raises BundleFormatError, and looks at no signature."""
    if len(data) > MAX_BYTES:
        raise BundleFormatError(f"is larger than {MAX_BYTES:,} bytes")
    try:
        value = read_strict(data)
    except StrictJsonError as error:
        raise BundleFormatError(error.reason) from None
    return bundle_of(value)


def bundle_of(value: object) -> Bundle:
    """Return the bundle that this JSON is. Raises BundleFormatError."""
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise BundleFormatError(f'is no bundle: its "kind" is not "{KIND}"')
    if type(value.get("schemaVersion")) is not int or value["schemaVersion"] != SCHEMA_VERSION:
        raise BundleFormatError(
            f"has a schemaVersion that this flytui does not read; it reads {SCHEMA_VERSION}"
        )
    if value.keys() != {"kind", "schemaVersion", "payload", "key", "signature"}:
        raise BundleFormatError("has other keys than a bundle")
    payload, key, signature = value["payload"], value["key"], value["signature"]
    if not _is_hex(key, 64) or not _is_hex(signature, 128):
        raise BundleFormatError("has no key or no signature of Ed25519 in hex digits")
    check_payload(payload)
    return Bundle(payload=payload, key=key, signature=signature)


def check_payload(payload: object) -> None:
    """Raise BundleFormatError where the content has not the form of a bundle's."""
    if not isinstance(payload, dict) or not payload.keys() <= {"name", "number", *PARTS}:
        raise BundleFormatError("has a content with other keys than name, number, registry, policy and kits")
    name, number = payload.get("name"), payload.get("number")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise BundleFormatError(f"has no name of 1 to {LONGEST_NAME} of a-z 0-9 . _ -")
    if type(number) is not int or not 0 < number < _MOST_NUMBER:
        raise BundleFormatError("has no number, which is a whole one from 1 on")
    if any(not isinstance(payload[part], dict) for part in PARTS if part in payload):
        raise BundleFormatError("has a part that is no object")
    if not any(part in payload for part in PARTS):
        raise BundleFormatError("holds no registry, no policy and no kits")


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


class AppliedBundles(Value, frozen=True, kw_only=True):
    """The bundles that a person applied, in the order of their names."""

    bundles: tuple[Bundle, ...] = ()
    problem: Diagnostic | None = None
    """Why the file cannot be used; then there are none."""
    data: bytes = b""
    """The bytes of the file, for digests."""


def read_applied(config_dir: Path) -> AppliedBundles:
    """Return the applied bundles. Never raises for the file."""
    file = str(config_dir / BUNDLES_FILE)
    try:
        data = read_beneath(config_dir, BUNDLES_FILE, MAX_APPLIED_BYTES, links=True)
    except FileNotFoundError:
        return AppliedBundles()
    except OSError as error:
        said, remedy = unreadable(error, MAX_APPLIED_BYTES)
        return AppliedBundles(problem=whole_file(file, "unreadable", said, remedy), data=said.encode())
    try:
        found = _bundles_of(read_strict(data))
    except (BundleFormatError, StrictJsonError) as error:
        remedy = "remove the file, and apply the bundles again: flytui bundle apply FILE"
        return AppliedBundles(problem=whole_file(file, "schema", str(error), remedy), data=data)
    return AppliedBundles(bundles=found, data=data)


def _bundles_of(value: object) -> tuple[Bundle, ...]:
    listed = value.get("bundles") if isinstance(value, dict) else None
    if not isinstance(listed, list) or len(listed) > MOST_BUNDLES:
        raise BundleFormatError(f"is no list of at most {MOST_BUNDLES} bundles")
    found = tuple(sorted(map(bundle_of, listed), key=lambda bundle: bundle.name))
    if len({bundle.name for bundle in found}) != len(found):
        raise BundleFormatError("has two bundles of one name")
    return found


def applied_document(bundles: tuple[Bundle, ...]) -> JsonObject:
    """Return the document of the file with these bundles. Raises BundleFormatError where it would hold more,
    or be deeper, than is read again."""
    document = _document(bundles)
    try:
        _bundles_of(read_strict(canonical_json(document).encode("ascii")))
    except StrictJsonError as error:
        raise BundleFormatError(f"cannot be read among the applied ones: {error.reason}") from None
    return document


def _document(bundles: tuple[Bundle, ...]) -> JsonObject:
    return {"bundles": [msgspec.to_builtins(bundle.document()) for bundle in bundles]}
