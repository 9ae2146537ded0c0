"""Team bundles: what makes one, what applying one would change, and the keys that a person trusts.

Applying changes two files in the person's config folder: `bundles.json` with the bundles, and
`bundle-keys.json` with the keys. Nothing of a bundle runs because it is applied: its entries wait for trust
in each root.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from flycore.catalog.builtin import KNOWN
from flycore.discovery.kits import parse_kits
from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.described import Origin
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Decision, Source
from flycore.model.errors import BundleRefused
from flycore.model.json import Json, JsonObject, indented_json
from flycore.model.json_diff import json_difference
from flycore.offline.bundle_signature import check_signature, fingerprint, normal_fingerprint, read_key, sign
from flycore.policy.files import read_policy
from flycore.policy.looser_rules import keyed, rule_text
from flycore.policy.rules import Rule, RuleLayer
from flycore.registry.bundles import (
    MAX_APPLIED_BYTES,
    MAX_BYTES,
    MOST_BUNDLES,
    BundleFormatError,
    applied_document,
    check_payload,
    parse_bundle,
    read_applied,
)
from flycore.registry.bundles import Bundle as Bundle
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import BUNDLE_KEYS_FILE, BUNDLES_FILE
from flycore.registry.read_file import read_text
from flycore.store.json_store import Store
from flysafe.atomic import write_atomic
from flysafe.beneath import read_beneath

MAX_KEYS_BYTES = 262_144
MOST_PROBLEMS = 20
"""Problems of a bundle that are said."""
CHANGED = "not applied: the bundle has another digest than the one named; flytui bundle verify shows it"


class Standing(StrEnum):
    """How a bundle stands to the one of its name that is applied."""

    NEW = "new"
    """None of that name is applied."""
    NEWER = "newer"
    SAME = "same"
    """Exactly this one is applied."""
    OLDER = "older"
    """It has a lower number than the applied one."""
    OTHER = "other"
    """It has the number of the applied one and another content."""
    FOREIGN = "foreign"
    """It is signed by another key than the applied one."""

    @property
    def is_expected(self) -> bool:
        """Whether it is what a team does when it publishes a bundle."""
        return self in (Standing.NEW, Standing.NEWER, Standing.SAME)


class TrustedKey(Value, frozen=True, kw_only=True):
    """A public key that a person trusts to sign bundles."""

    key: str
    name: str
    """The name of the bundle that it came with first."""
    at: float
    """Unix time, seconds."""


class BundlePlan(Value, frozen=True, kw_only=True):
    """A verified bundle, and what applying it would change."""

    bundle: Bundle
    standing: Standing
    applied_number: int | None
    """The number of the bundle of that name that is applied."""
    key_trusted: bool
    changes: tuple[str, ...]
    """Lines that begin with `+`, `-` or `±`, and with two spaces what differs in an entry."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the key."""
        return fingerprint(self.bundle.key)


def make_bundle(name: str, number: int, parts: Mapping[str, Path], key_file: Path, out: Path) -> Bundle:
    """Write a signed bundle with these files as its parts (`registry`, `policy`, `kits`), and return it.

    Raises BundleRefused where a file could not be applied, or the key cannot be used; OSError where a file
    cannot be read or written.
    """
    payload: JsonObject = {"name": name, "number": number}
    for part, path in parts.items():
        payload[part] = _read_part(path)
    try:
        check_payload(payload)
    except BundleFormatError as error:
        raise BundleRefused(f"the bundle {error}") from None
    bundle = sign(payload, read_key(key_file))
    _refuse_problems(bundle)
    data = indented_json(bundle.document()).encode("ascii") + b"\n"
    try:
        parse_bundle(data)
        applied_document((bundle,))
    except BundleFormatError as error:
        raise BundleRefused(f"the bundle {error}: divide it into two, or nest less") from None
    write_atomic(out, data, 0o644)
    return bundle


def _read_part(path: Path) -> Json:
    text, _, problem = read_text(path.parent, path.name, str(path))
    if text is None and problem is None:
        raise BundleRefused(f"{path} is not there")
    value, fault = parse_jsonc(text, str(path)) if text is not None else (None, problem)
    if fault is not None:
        raise BundleRefused(f"{fault.position or path}: {fault.message} → {fault.remedy}")
    if isinstance(value, dict):
        value.pop("$schema", None)  # a path or an address for editors
    return value


def read_bundle(path: Path) -> Bundle:
    """Return the bundle in a file, with its signature and its content checked. Raises BundleRefused, and
    OSError where the file cannot be read."""
    try:
        bundle = parse_bundle(read_beneath(path.parent, path.name, MAX_BYTES, links=True))
    except BundleFormatError as error:
        raise BundleRefused(f"{path} {error}") from None
    check_signature(bundle)
    _refuse_problems(bundle)
    return bundle


def plan_bundle(config_dir: Path, path: Path) -> BundlePlan:
    """Verify the bundle in a file and compare it with what is applied. Writes nothing. Raises as
    `read_bundle` does."""
    bundle = read_bundle(path)
    applied = next((one for one in applied_bundles(config_dir) if one.name == bundle.name), None)
    return BundlePlan(
        bundle=bundle,
        standing=_standing(bundle, applied),
        applied_number=applied.number if applied is not None else None,
        key_trusted=any(one.key == bundle.key for one in trusted_keys(config_dir)),
        changes=tuple(bundle_changes(applied, bundle)),
    )


def apply_bundle(config_dir: Path, path: Path, shown: str) -> Outcome:
    """Apply the bundle in a file, if it still has the digest that was shown and its key is trusted. Raises as
    `read_bundle` does."""
    # The file is read and verified again: it may have changed since it was shown.
    plan = plan_bundle(config_dir, path)
    if plan.bundle.digest != shown:
        return Outcome(accepted=False, why_not=CHANGED)
    if not plan.key_trusted:
        return Outcome(accepted=False, why_not="not applied: nobody trusts the key that signed it")
    others = [one for one in applied_bundles(config_dir) if one.name != plan.bundle.name]
    if len(others) >= MOST_BUNDLES:
        return Outcome(accepted=False, why_not=f"not applied: {MOST_BUNDLES} bundles are applied: remove one")
    return _write(config_dir, (*others, plan.bundle))


def remove_bundle(config_dir: Path, name: str) -> Outcome:
    """Remove the applied bundle of that name."""
    applied = applied_bundles(config_dir)
    kept = tuple(one for one in applied if one.name != name)
    if len(kept) == len(applied):
        return Outcome(accepted=False, why_not=f"no bundle {name} is applied: flytui bundle list")
    return _write(config_dir, kept)


def removal_changes(config_dir: Path, name: str) -> tuple[str, ...]:
    """Return what removing the applied bundle of that name would change."""
    applied = next((one for one in applied_bundles(config_dir) if one.name == name), None)
    return tuple(bundle_changes(applied, None))


def applied_bundles(config_dir: Path) -> tuple[Bundle, ...]:
    """Return the applied bundles. Raises BundleRefused where their file cannot be used."""
    found = read_applied(config_dir)
    if found.problem is not None:
        raise BundleRefused(f"{found.problem.message} → {found.problem.remedy}")
    return found.bundles


def _write(config_dir: Path, bundles: tuple[Bundle, ...]) -> Outcome:
    try:
        document = applied_document(bundles)
    except BundleFormatError as error:
        return Outcome(accepted=False, why_not=f"not applied: the bundle {error}")
    store = Store[JsonObject](config_dir / BUNDLES_FILE, JsonObject, {}, MAX_APPLIED_BYTES)
    if why := store.replace(document):
        return Outcome(accepted=False, why_not=f"{BUNDLES_FILE} cannot be written: {why}")
    return Outcome(accepted=True)


def _standing(bundle: Bundle, applied: Bundle | None) -> Standing:
    if applied is None:
        return Standing.NEW
    if bundle.key != applied.key:
        return Standing.FOREIGN
    if bundle.number != applied.number:
        return Standing.NEWER if bundle.number > applied.number else Standing.OLDER
    return Standing.SAME if bundle.payload == applied.payload else Standing.OTHER


# Keys.


def trusted_keys(config_dir: Path) -> tuple[TrustedKey, ...]:
    """Return the trusted keys. A file that cannot be relied on trusts none."""
    return _keys_store(config_dir).value


def _keys_store(config_dir: Path) -> Store[tuple[TrustedKey, ...]]:
    path = config_dir / BUNDLE_KEYS_FILE
    return Store[tuple[TrustedKey, ...]](path, tuple[TrustedKey, ...], (), MAX_KEYS_BYTES)


def trust_key(config_dir: Path, bundle: Bundle) -> Outcome:
    """Trust the key of that bundle. Only a person's answer, or the fingerprint that a person named, leads
    here."""
    kept = [one for one in trusted_keys(config_dir) if one.key != bundle.key]
    return _write_keys(config_dir, [*kept, TrustedKey(key=bundle.key, name=bundle.name, at=time.time())])


def forget_key(config_dir: Path, named: str) -> Outcome:
    """Trust the key with that fingerprint no longer. What it signed stays applied."""
    keys = trusted_keys(config_dir)
    digits = normal_fingerprint(named)
    kept = [one for one in keys if normal_fingerprint(fingerprint(one.key)) != digits]
    if len(kept) == len(keys):
        return Outcome(accepted=False, why_not="no key with that fingerprint is trusted: flytui bundle list")
    return _write_keys(config_dir, kept)


def is_key_of(bundle: Bundle, named: str) -> bool:
    """Whether that is the whole fingerprint of the bundle's key."""
    return normal_fingerprint(named) == normal_fingerprint(fingerprint(bundle.key))


def _write_keys(config_dir: Path, keys: Iterable[TrustedKey]) -> Outcome:
    if why := _keys_store(config_dir).replace(tuple(keys)):
        return Outcome(accepted=False, why_not=f"{BUNDLE_KEYS_FILE} cannot be written: {why}")
    return Outcome(accepted=True)


# What is in a bundle.


def bundle_problems(bundle: Bundle) -> Iterator[str]:
    """Yield why a bundle cannot be applied: faults of its parts, and rules that would loosen the policy."""
    shown = bundle.shown
    registry = bundle.part("registry")
    if registry is not None:
        text = indented_json(registry)
        entries, found = parse_registry(text, shown, Source.BUNDLE, frozenset(KNOWN))
        for one in (*found, *(problem for entry in entries or () for problem in entry.problems)):
            yield from _as_error(one)
        for entry in entries or ():
            if "/" in entry.command and not entry.problems:
                yield f"{entry.id}: its program is a path, and a bundle is the same for every project"
    policy = bundle.part("policy")
    if policy is not None:
        for one in _policy(bundle)[1]:
            yield from _as_error(one)
        listed = policy.get("rules")
        for at, rule in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(rule, dict) and rule.get("decision") == Decision.ALLOW.value:
                yield f"rule {at + 1} allows: a bundle's policy may only make things stricter, so take it out"
    kits = bundle.part("kits")
    if kits is not None:
        for kit in parse_kits(indented_json(kits), shown, Origin.BUNDLE):
            for one in kit.reasons:
                yield from _as_error(one)


def _as_error(found: Diagnostic) -> Iterator[str]:
    if found.severity is Severity.ERROR:
        place = f"{found.sidecar}: " if found.sidecar else ""
        yield f"{place}{found.pointer or '/'} {found.message} → {found.remedy}"


def _refuse_problems(bundle: Bundle) -> None:
    problems = list(bundle_problems(bundle))
    if problems:
        # One line each: the texts in a bundle must not look like lines of flytui's own.
        shown = "\n".join(f"  {problem}".replace("\n", " ") for problem in problems[:MOST_PROBLEMS])
        raise BundleRefused(f"the bundle {bundle.name} cannot be applied:\n{shown}")


def _policy(bundle: Bundle) -> tuple[tuple[Rule, ...], tuple[Diagnostic, ...]]:
    part = bundle.part("policy")
    if part is None:
        return (), ()
    data = indented_json(part).encode("ascii")
    file, found = read_policy(data, RuleLayer.BUNDLE, bundle.shown, frozenset())
    return file.rules, found


def bundle_changes(before: Bundle | None, after: Bundle | None) -> Iterator[str]:
    """Yield what differs between two bundles: entries, rules, kits. None stands for no bundle."""
    yield from _member_changes("entry", _entries(before), _entries(after))
    old, new = keyed(_rules(before)), keyed(_rules(after))
    yield from (f"+ rule {rule_text(rule)}" for key, rule in new.items() if key not in old)
    yield from (f"- rule {rule_text(rule)}" for key, rule in old.items() if key not in new)
    yield from _member_changes("kit", _kits(before), _kits(after))


def _member_changes(what: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if name not in old:
            yield f"+ {what} {name}"
            yield from (f"  {line}" for line in json_difference({}, new[name]))
        elif name not in new:
            yield f"- {what} {name}"
        elif old[name] != new[name]:
            yield f"± {what} {name}"
            yield from (f"  {line}" for line in json_difference(old[name], new[name]))


def _entries(bundle: Bundle | None) -> dict[str, Json]:
    part = bundle.part("registry") if bundle is not None else None
    sidecars = part.get("sidecars") if part is not None else None
    return dict(sidecars) if isinstance(sidecars, dict) else {}


def _rules(bundle: Bundle | None) -> tuple[Rule, ...]:
    return _policy(bundle)[0] if bundle is not None else ()


def _kits(bundle: Bundle | None) -> dict[str, Json]:
    part = bundle.part("kits") if bundle is not None else None
    listed = part.get("kits") if part is not None else None
    items = listed if isinstance(listed, list) else []
    return {str(item.get("id")): item for item in items if isinstance(item, dict)}
