"""Suite S13: a secret in any of its spellings, split anywhere, is masked."""

from __future__ import annotations

import base64
import json
import os
import random
from urllib.parse import quote, quote_plus

import pytest

from flycore.sandbox.masks import MASK, Masks, StreamMask

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


@pytest.mark.parametrize(("name", "encoding"), CASES)
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
@pytest.mark.parametrize(("name", "encoding"), CASES)
def test_random_splits_do_not_leak(name: str, encoding: str) -> None:
    spelled = ENCODINGS[encoding](SECRETS[name])
    masks = Masks(SECRETS)
    chance = random.Random(13)
    text = f"{'x' * 200} {spelled} between {spelled}{spelled}"
    for _ in range(SPLITS):
        stream = StreamMask(masks)
        cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randint(0, 12)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        shown = "".join(map(stream.feed, pieces)) + stream.flush()
        assert shown == masks.text(text)


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
    stream = StreamMask(Masks({}))
    assert stream.feed("at once") == "at once"
    assert stream.flush() == ""
    assert Masks({"EMPTY": ""}).text("as it is") == "as it is"
