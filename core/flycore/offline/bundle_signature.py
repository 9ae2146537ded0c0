"""Signatures of team bundles: Ed25519 keys, and the bytes that are signed.

What is signed begins with `DOMAIN`, so that a signature that the key made over anything else is none over a
bundle. The package `cryptography` is an extra of flytui and is imported when it is needed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from flycore.model.errors import BundleRefused
from flycore.model.json import JsonObject, canonical_json
from flycore.registry.bundles import Bundle

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DOMAIN = b"flytui team bundle, version 1\0"
MISSING = "signatures need the package cryptography → pip install 'flytui[bundle]'"
MAX_KEY_BYTES = 16_384
FINGERPRINT_GROUP = 4
_SMALL_ORDER = frozenset(
    (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
"""The points of small order, without the bit of their sign. Under such a key, anybody can make signatures."""


def signed_bytes(payload: JsonObject) -> bytes:
    """Return what a signature covers: the domain and the canonical JSON of the content."""
    return DOMAIN + canonical_json(payload).encode("ascii")


def fingerprint(key: str) -> str:
    """Return the SHA-256 of a public key, in groups that a person can compare."""
    import hashlib

    digits = hashlib.sha256(bytes.fromhex(key)).hexdigest()
    groups = range(0, len(digits), FINGERPRINT_GROUP)
    return " ".join(digits[at : at + FINGERPRINT_GROUP] for at in groups)


def normal_fingerprint(text: str) -> str:
    """Return a fingerprint as digits only, however a person wrote it."""
    return "".join(text.split()).replace(":", "").lower()


def create_key(path: Path) -> str:
    """Write a new private key to a file that only this user can read, and return the public key. Raises
    BundleRefused where the file exists, or the package is missing."""
    kind = _library()
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = kind.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise BundleRefused(f"{path} exists already: name a file that does not, or remove it") from None
    with os.fdopen(fd, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    return public_hex(key)


def read_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in a file.

    Raises BundleRefused for a file that others can read, and for anything but an Ed25519 key without a
    password; OSError where it cannot be read.
    """
    kind = _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise BundleRefused(f"{path} is not a regular file")
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise BundleRefused(
                f"{path} is not yours alone: chmod 600 {path}, and make a new key if it was read"
            )
        data = file.read(MAX_KEY_BYTES + 1)
    try:
        key = load_pem_private_key(data[:MAX_KEY_BYTES], password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BundleRefused(f"{path} holds no private key: flytui bundle key FILE makes one") from None
    if not isinstance(key, kind):
        raise BundleRefused(
            f"{path} holds a key of another kind than Ed25519: flytui bundle key FILE makes one"
        )
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public key of a private one: 64 hex digits."""
    return key.public_key().public_bytes_raw().hex()


def sign(payload: JsonObject, key: Ed25519PrivateKey) -> Bundle:
    """Return the bundle with that content, signed."""
    return Bundle(payload=payload, key=public_hex(key), signature=key.sign(signed_bytes(payload)).hex())


def check_signature(bundle: Bundle) -> None:
    """Raise BundleRefused where the bundle's key did not sign exactly its content as a bundle."""
    _library()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = bytes.fromhex(bundle.key)
    if (raw[:-1] + bytes([raw[-1] & 0x7F])).hex() in _SMALL_ORDER:
        raise BundleRefused("the key in the bundle is one under which anybody can sign")
    try:
        key = Ed25519PublicKey.from_public_bytes(raw)
        key.verify(bytes.fromhex(bundle.signature), signed_bytes(bundle.payload))
    except (InvalidSignature, ValueError):
        raise BundleRefused(
            "the signature is not that of the key in it: the bundle was changed after it was signed → get it"
            " again from whoever made it"
        ) from None


def _library() -> type[Ed25519PrivateKey]:
    """Return the class of private keys. Raises BundleRefused where the extra is not installed."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise BundleRefused(MISSING) from None
    return Ed25519PrivateKey
