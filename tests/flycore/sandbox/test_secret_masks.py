"""Suite S13: a secret in any of its spellings, split anywhere, is masked."""

from __future__ import annotations

import base64
import html
import json
import os
import random
import re
from urllib.parse import quote, quote_plus

import pytest

from flycore.model.json import MASK
from flycore.sandbox.secret_masks import Masks
from kits.tables import each_row

SPLITS = 500 if os.environ.get("FLYTUI_SUITES") == "full" else 50
SECRETS = {
    "PLAIN": "sk-0123456789abcdef",
    "ODD": 'p@ss wörd/"\\+=&\n\u20ac',
    "LONGER": "sk-0123456789abcdef-and-more",
    "DIGITS": "4929123456781234",
}
ENCODINGS = {
    "raw": lambda secret: secret,
    "JSON ASCII": lambda secret: json.dumps(secret)[1:-1],
    "JSON UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "URL quote": quote,
    "URL quote all": lambda secret: quote(secret, safe=""),
    "quote_plus": quote_plus,
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "reversed": lambda secret: secret[::-1],
    **{
        f"base64 at {before}": lambda secret, before=before: base64.b64encode(
            b"abc"[:before] + secret.encode() + b"tail"
        ).decode()
        for before in range(3)
    },
    "base64 url": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
}
CASES = [(name, encoding) for name in SECRETS for encoding in ENCODINGS]


@each_row(("name", "encoding"), CASES)
def test_every_spelling_is_masked_in_text_and_json(name: str, encoding: str) -> None:
    spelled = ENCODINGS[encoding](SECRETS[name])
    masks = Masks(SECRETS)
    text = f"before {spelled} after"
    for shown in (masks.text(text), json.dumps(masks.json({text: [text, {"a": text}]}), ensure_ascii=False)):
        assert MASK in shown
        assert leaked(shown, spelled) is None
        assert "before" in shown
        assert "after" in shown


@pytest.mark.suite
@each_row(("name", "encoding"), CASES)
def test_a_text_cut_anywhere_shows_no_piece(name: str, encoding: str) -> None:
    spelled = ENCODINGS[encoding](SECRETS[name])
    masks = Masks(SECRETS)
    chance = random.Random(13)
    text = f"{'x' * 40} {spelled} between {spelled}{spelled}"
    pieces = {spelled[at : at + 10] for at in range(4, len(spelled) - 17)}
    for _ in range(SPLITS):
        start, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        shown = masks.text(text[start:end], cut=True)
        assert not [piece for piece in pieces if piece in shown]


def test_a_piece_at_the_edge_is_masked_only_where_the_text_was_cut() -> None:
    secret = "abcdefghijkl"
    masks = Masks({"S": secret})
    assert masks.text("said abcdef") == "said abcdef"
    assert masks.text("said abcdef", cut=True) == f"said {MASK}"
    assert masks.text("ghijkl said", cut=True) == f"{MASK} said"
    assert masks.text("\ufffdijkl said", cut=True) == f"{MASK} said"
    assert masks.text("jkl said abc", cut=True) == "jkl said abc"
    assert masks.json({"a": ["xx abcdef"]}, cut=True) == {"a": [f"xx {MASK}"]}


def leaked(shown: str, spelled: str) -> str | None:
    """A run of twelve characters of the spelling's middle that can still be read."""
    middle = spelled[4:-8]
    runs = (middle[start : start + 12] for start in range(max(1, len(middle) - 11)))
    return next((run for run in runs if len(run) >= 8 and run in shown), None)


def test_the_longer_secret_leaves_no_rest() -> None:
    assert Masks(SECRETS).text(f"[{SECRETS['LONGER']}]") == f"[{MASK}]"


def test_numbers_that_are_secrets_are_masked_and_others_are_not() -> None:
    masks = Masks(SECRETS)
    value = {"card": 4929123456781234, "n": 42, "ok": True, "none": None, "f": 1.5}
    assert masks.json(value) == {"card": MASK, "n": 42, "ok": True, "none": None, "f": 1.5}


def test_structure_paths_and_hosts_are_never_masked() -> None:
    value = {"path": "/home/me/x", "host": "api.example.org", "list": [1, "sk-", "0123456789"]}
    assert Masks(SECRETS).json(value) == value


def test_without_secrets_everything_passes() -> None:
    assert Masks({}).text("at once", cut=True) == "at once"
    assert Masks({"EMPTY": ""}).text("as it is") == "as it is"


NESTED = {
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret)),
    "JSON in JSON in JSON": lambda secret: json.dumps(json.dumps(json.dumps(secret))),
    "HTML": html.escape,
    "HTML, decimal": lambda secret: "".join(f"&#{ord(sign)};" for sign in secret),
    "HTML, hexadecimal": lambda secret: "".join(f"&#x{ord(sign):X};" for sign in secret),
    "JSON escapes only": lambda secret: "".join(f"\\u{ord(sign):04x}" for sign in secret),
    "JSON escapes, escaped": lambda secret: "".join(f"\\\\u{ord(sign):04X}" for sign in secret),
    "hexadecimal escapes": lambda secret: "".join(f"\\x{byte:02x}" for byte in secret.encode()),
    "newline inside": lambda secret: f"{secret[:5]}\n{secret[5:9]}\r\n{secret[9:]}",
    "escaped newline inside": lambda secret: f"{secret[:5]}\\n{secret[5:]}",
    "zero-width inside": lambda secret: "\u200b".join(secret),
    "soft hyphens inside": lambda secret: f"{secret[:6]}\u00ad{secret[6:]}\ufeff",
    "percent signs, lower case": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
    "percent signs, mixed": lambda secret: quote(secret, safe="").replace("%C3", "%c3").replace("%2F", "%2f"),
    "percent signs twice": lambda secret: quote(quote(secret, safe=""), safe=""),
    "wrapped base64": lambda secret: "\n".join(
        re.findall(".{1,10}", base64.b64encode(secret.encode()).decode())
    ),
}


@each_row("encoding", NESTED)
@each_row("name", SECRETS)
def test_a_secret_in_escapes_is_masked_and_nothing_beside_it(name: str, encoding: str) -> None:
    spelled = NESTED[encoding](SECRETS[name])
    shown = Masks(SECRETS).text(f"before\n{spelled}\nafter, 100 % & \\ done")
    assert MASK in shown
    assert leaked(shown, spelled) is None
    assert shown.startswith("before")
    assert shown.endswith("after, 100 % & \\ done")


def test_escapes_without_a_secret_stay_as_they_are() -> None:
    text = 'C:\\new\\table "\\u0041\\" &amp; 50%41 \ud83d &#99999999; \u200b\r\n' * 20
    assert Masks(SECRETS).text(text) == text


@each_row("left", range(1, 8))
def test_a_few_characters_at_the_border_of_a_long_text_are_masked(left: int) -> None:
    secret = "Zq7-Xw9_Kp3!"
    lines = "the sidecar said something\n" * 3_000
    masks = Masks({"S": secret})
    assert masks.text(secret[-left:] + lines, cut=True) == MASK + lines
    assert masks.text(lines + secret[:left], cut=True) == lines + MASK
