"""The removal of passwords, tokens, cookies and keys from inputs before they are logged.

The kernel masks the exact values of the secrets that it injects before an input reaches this module. This
module finds the others by their names: a member, header, assignment, option or address that names a secret.
It rather removes too much than too little, as only the log is affected, never a card or the call itself.

A removed value is replaced by `•••(LENGTH:DIGEST)`, with the first 8 digits of its SHA-256, so that equal
values can be recognised. Numbers are removed like texts; true, false and null stay. The time is linear in
the size of the input.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from itertools import pairwise

from flycore.model.json import MASK, Json, canonical_json

_DEEPEST = 100
"""The levels that are searched; a value below them is replaced as a whole."""

_WORDS = frozenset(
    (
        *("password", "passwords", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "pin", "otp"),
        *("secret", "secrets", "token", "tokens", "jwt", "bearer", "authorization", "authentication"),
        *("cookie", "cookies", "credential", "credentials", "creds", "apikey", "apikeys", "sig", "signature"),
        *("auth", "userpwd", "mnemonic"),
    )
)
_PAIRS = frozenset(
    (
        *("apikey", "accesskey", "privatekey", "secretkey", "signingkey", "encryptionkey", "authkey"),
        *("masterkey", "sharedkey", "sharekey", "accountkey", "sshkey", "recoverycode", "verificationcode"),
        *("sessionid", "sessionkey", "authcode", "securitycode", "accesscode", "passkey", "seedphrase"),
    )
)
_COUNTS = frozenset(("max", "min", "count", "total", "num", "limit", "budget", "used", "usage", "tokens"))
"""In a name with one of these and `token`, a number is a count of tokens."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LONGEST_NAME = 128

_MARK = re.compile(rf"{MASK}(?:\(\d+:[0-9a-f]{{8}}\))?")
_USERINFO = re.compile(r"(?<=://)[^/?#\s]+(?=@)")
_SCHEME = re.compile(r"(?i)(?<![\w-])(bearer|basic|digest|token|negotiate)([ \t]{1,4})([\w.~+/=-]{8,})")
_HEADER = re.compile(
    r"""(?i)(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie)"""
    r"""(["']?[ \t]{0,4}:[ \t]{0,4}["']?)([^"'\r\n]+)"""
)
_NAMED = re.compile(
    r"""(?<![\w.-])(?:-{0,2}(?P<name>[A-Za-z_][\w.-]{0,63})\\?["']?\]?[ \t]{0,4}(?:=|:(?!//))[ \t]{0,4}"""
    r"""|--?(?P<option>[A-Za-z][\w-]{0,63})[ \t]{1,4}(?=[^\s-]))"""
)
_VALUE = re.compile(
    r"""\\"(?P<escaped>(?:[^"\\]|\\[^"])*)|"(?P<double>(?:[^"\\]|\\.)*)|'(?P<single>[^']*)"""
    r"""|(?P<bare>[^\s&;,"'<>{}\[\]]+)""",
    re.DOTALL,
)
_OPTION = re.compile(r"--?([A-Za-z][\w.-]{0,63})")
_HAS_ANY = re.compile(r"[=:]|--?[A-Za-z]|(?i:bearer|basic|digest|token|negotiate)")


def redact(value: Json) -> Json:
    """Return a copy of the value without what looks like a secret."""
    return _redacted(value, secret=False, depth=0)


def redact_text(text: str) -> str:
    """Return the text without secrets in addresses, headers and assignments."""
    if not _HAS_ANY.search(text):
        return text
    if "://" in text:
        text = _USERINFO.sub(lambda found: _mark(found[0]), text)
    text = _HEADER.sub(lambda found: found[1] + found[2] + _mark(found[3]), text)
    text = _SCHEME.sub(lambda found: found[1] + found[2] + _mark(found[3]), text)
    return _assignments(text)


def names_secret(name: str) -> bool:
    """Whether a member, option or header of that name has a secret as its value."""
    return _names_secret(name[:_LONGEST_NAME])


@lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    words = [word.lower() for word in _PART.findall(name)]
    return not _WORDS.isdisjoint(words) or any(first + second in _PAIRS for first, second in pairwise(words))


def _redacted(value: Json, *, secret: bool, depth: int) -> Json:
    if isinstance(value, dict | list) and depth >= _DEEPEST:
        return _mark(canonical_json(value))
    if isinstance(value, dict):
        return _redacted_object(value, secret, depth)
    if isinstance(value, list):
        return _redacted_list(value, secret, depth)
    if value is None or isinstance(value, bool):
        return value
    if secret:
        return _mark(value if isinstance(value, str) else canonical_json(value))
    return redact_text(value) if isinstance(value, str) else value


def _redacted_object(value: dict[str, Json], secret: bool, depth: int) -> dict[str, Json]:
    named = value.get("name") or value.get("key") or value.get("header")
    pair = "value" in value and isinstance(named, str) and names_secret(named)
    kept: dict[str, Json] = {}
    for key, item in value.items():
        hides = (names_secret(key) and not _is_count(key, item)) or (pair and key == "value")
        kept[redact_text(key)] = _redacted(item, secret=secret or hides, depth=depth + 1)
    return kept


def _redacted_list(value: list[Json], secret: bool, depth: int) -> list[Json]:
    """Redact a list; in a list of arguments, the item after `--password` is a secret."""
    kept: list[Json] = []
    hides = False
    for item in value:
        kept.append(_redacted(item, secret=secret or hides, depth=depth + 1))
        option = _OPTION.fullmatch(item) if isinstance(item, str) else None
        hides = option is not None and names_secret(option[1])
    return kept


def _is_count(key: str, value: Json) -> bool:
    """Whether the value is a count of tokens, as in `maxTokens: 4096`, and no token."""
    words = {word.lower() for word in _PART.findall(key[:_LONGEST_NAME])}
    return isinstance(value, int | float) and bool(words & {"token", "tokens"}) and bool(words & _COUNTS)


def _assignments(text: str) -> str:
    """Redact values after a name with `=` or `:`, and after an option."""
    shown: list[str] = []
    done = 0
    named = _NAMED.search(text)
    while named is not None:
        value = _VALUE.match(text, named.end()) if names_secret(named["name"] or named["option"]) else None
        if value is not None and value.lastgroup is not None:
            shown += (text[done : value.start(value.lastgroup)], _mark(value[value.lastgroup]))
            done = value.end()
        # After a name that is no secret's the search goes on inside its value, which may have names itself.
        named = _NAMED.search(text, max(named.end(), done))
    return "".join((*shown, text[done:]))


def _mark(text: str) -> str:
    if not text or _MARK.fullmatch(text):  # an injected secret is masked already; its mark stays as it is
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{MASK}({len(text)}:{digest[:8]})"
