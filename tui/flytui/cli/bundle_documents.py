"""The documents of `flytui bundle`."""

from __future__ import annotations

from flycore.model.base import Value
from flytui.cli.document_base import Document


class BundleDocument(Document, frozen=True, kw_only=True, tag="flytui.bundle/1"):
    """One team bundle, and what the command did with it."""

    name: str = ""
    number: int | None = None
    fingerprint: str = ""
    """SHA-256 of the public key, in groups of four hex digits."""
    key_trusted: bool = False
    digest: str = ""
    """The digest over key and content; `flytui bundle apply --digest` applies exactly this."""
    standing: str = ""
    """`new`, `newer`, `same`, `older`, `other` or `foreign`, compared with the one of its name that is
    applied."""
    applied_number: int | None = None
    changes: tuple[str, ...] = ()
    """What applying or removing it changes."""
    outcome: str
    """`shown`, `made`, `applied`, `removed`, `refused`, `key-made` or `key-forgotten`."""
    message: str = ""


class ListedBundle(Value, frozen=True, kw_only=True):
    """A bundle that is applied."""

    name: str
    number: int
    fingerprint: str
    key_trusted: bool


class ListedKey(Value, frozen=True, kw_only=True):
    """A key that a person trusts."""

    fingerprint: str
    name: str
    """The name of the bundle that it came with first."""
    at: float
    """Unix time, seconds."""


class BundlesDocument(Document, frozen=True, kw_only=True, tag="flytui.bundles/1"):
    """The applied bundles and the trusted keys."""

    bundles: tuple[ListedBundle, ...]
    keys: tuple[ListedKey, ...]
