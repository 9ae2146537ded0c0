"""Detects probable secrets in the configuration of other programs, by their names or by their form."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flycore.model.json import MASK
from flycore.registry.names import looks_secret

_KNOWN = re.compile(
    r"(?:sk-|sk_|pk_|rk_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|eyJ|npm_|pypi-|hf_|dop_v1_|shpat_)"
    r"[A-Za-z0-9._-]{8,}"
)
_LONG = re.compile(r"[A-Za-z0-9+/=_-]{20,}")
_USERINFO = re.compile(r"://[^/?#@\s]*:[^/?#@\s]*@")
_HEADERS = ("authorization", "cookie", "proxy-authorization")
_FLAG = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)(?:=(.*))?", re.DOTALL)
_QUERY = re.compile(r"[?&]([A-Za-z0-9_.-]+)=[^&#]")


def secret_variable(name: str, value: str) -> bool:
    """Return whether the value of an environment variable is probably a secret."""
    return looks_secret(name) or secret_value(value)


def secret_header(name: str, value: str) -> bool:
    """Return whether the value of an HTTP header is probably a secret."""
    return name.lower() in _HEADERS or looks_secret(name) or secret_value(value)


def secret_value(value: str) -> bool:
    """Return whether a text has the form of a secret key, whatever its name is. In doubt it has."""
    if _KNOWN.search(value) or _USERINFO.search(value):
        return True
    return any(_looks_random(found) for found in _LONG.findall(value))


def secret_arguments(args: Iterable[str]) -> list[int]:
    """Return the indexes of arguments that are probably secrets, by their form or by the flag before them."""
    found: list[int] = []
    named = False
    for at, arg in enumerate(args):
        flag = _FLAG.fullmatch(arg)
        name, equals, value = (flag[1], flag[2] is not None, flag[2] or "") if flag else arg.partition("=")
        assigned = looks_secret(_upper(name)) and bool(equals) and bool(value)
        if (named and flag is None) or assigned or secret_url(arg):
            found.append(at)
        named = flag is not None and not equals and looks_secret(_upper(name))
    return found


def masked_arguments(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments with a mask in place of each probable secret."""
    hidden = set(secret_arguments(args))
    return tuple(_mask(arg) if at in hidden else arg for at, arg in enumerate(args))


def _mask(arg: str) -> str:
    name, equals, _ = arg.partition("=")
    return f"{name}={MASK}" if equals and not secret_value(name) else MASK


def secret_url(url: str) -> bool:
    """Return whether an address contains a user name and password, or a secret in its query."""
    return secret_value(url) or any(looks_secret(_upper(name)) for name in _QUERY.findall(url))


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()


def _looks_random(text: str) -> bool:
    """Return whether letters and digits alternate as in a key, unlike in a path or the name of a package."""
    if "/" in text and not text.endswith("="):
        text = max(text.split("/"), key=len)
    if len(text) < 20:
        return False
    digits, letters = sum(map(str.isdigit, text)), sum(map(str.isalpha, text))
    return digits >= 4 and letters >= 4 and len(re.findall(r"[A-Za-z]\d|\d[A-Za-z]", text)) >= 4
