"""Suite S13 through a real kernel: a secret in any spelling, written in random pieces, shows nowhere.

One sidecar is given the secret and says it in every spelling, in pieces cut at random, on stdout, on stderr,
in progress, in an error, in a crash. Then everything that anybody could read is searched.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import msgspec
import pytest

from flycore.audit.export import Format, export
from flycore.audit.projection import Projection
from flycore.audit.prometheus import exposition
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import Progress, ToolResult
from flycore.model.enums import Level
from flycore.model.events import Event
from flycore.server.queries import redacted_ask
from flytui.text.card import render_card
from kits.kernel import Root, a_caller, answered_call, approve, kernel_of, request, tool
from kits.sandbox_levels import LEVELS, hold_level

pytestmark = pytest.mark.anyio

FULL = os.environ.get("FLYTUI_SUITES") == "full"
SPLITS = 500 if FULL else 50
WAYS = ("answer", "error", "garbage", "crash", "exit")
AT_ONCE = 4
SECRET = 'pa+ss wörd/"\\=&\n€-0123456789'
"""No two spellings of it are the same."""
ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": lambda secret: secret,
    "JSON ASCII": lambda secret: json.dumps(secret)[1:-1],
    "JSON UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "URL quote": quote,
    "quote_plus": quote_plus,
    "hex": lambda secret: secret.encode().hex(),
    "reversed": lambda secret: secret[::-1],
    **{
        f"base64 at {before}": lambda secret, before=before: base64.b64encode(  # type: ignore[misc] # a default
            b"abc"[:before] + secret.encode() + b"tail"
        ).decode()
        for before in range(3)
    },
}
SIDECAR = f"""#!{sys.executable} -IS
import json, os, signal, sys
order = json.loads(sys.stdin.readline())["input"]

def write(fd, text, cuts):
    data = text.encode()
    cuts = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in zip(cuts, cuts[1:]):
        os.write(fd, data[start:end])

said = order["said"]
cuts = order["cuts"]
way = order["way"]
for text in said.values():
    event = {{"event": "progress", "progress": 1, "total": 2, "message": "so far " + text}}
    write(1, json.dumps(event) + chr(10), cuts)
    event = {{"event": "log", "level": "info", "message": text}}
    write(1, json.dumps(event, ensure_ascii=False) + chr(10), cuts)
    write(2, "stderr says " + text + " and goes on" + chr(10), cuts)
shown = {{"texts": list(said.values()), "nested": {{text: [text] for text in said.values()}}}}
line = " ".join(said.values())
if way == "answer":
    write(1, json.dumps({{"ok": True, **shown}}, ensure_ascii=len(cuts) % 2 == 0), cuts)
elif way == "error":
    write(1, json.dumps({{"ok": False, "error": line, "hint": line, "code": line[:90], **shown}}), cuts)
elif way == "garbage":
    write(1, "no answer but " + line, cuts)
elif way == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
else:
    write(1, json.dumps({{"ok": True, **shown}}), cuts)
    sys.exit(3)
"""


def leaks(text: str) -> list[str]:
    """Spellings of which a run of twelve characters of the secret's own part can be read."""
    found = []
    for name, encode in ENCODINGS.items():
        spelled = encode(SECRET)[4:-8] if name.startswith("base64") else encode(SECRET)
        runs = {spelled[at : at + 12] for at in range(len(spelled) - 11)}
        if any(run in text for run in runs):
            found.append(name)
    return found


def test_the_search_finds_what_it_looks_for() -> None:
    for name, encode in ENCODINGS.items():
        assert name in leaks(f"x{encode(SECRET)}y"), name
    assert leaks("nothing here but pa+ss and wörd") == []


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Level:
    """Each level that this machine has; the strongest one that there is."""
    wanted: Level = request.param
    hold_level(wanted, monkeypatch, by_rule=True)
    return wanted


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    settings = tmp_path / "config" / "flytui" / "config.jsonc"
    settings.parent.mkdir(parents=True)
    minimum = {"leaky.free": "none", "leaky.ask": "none"}
    # Of outputs most is kept.
    settings.write_text(json.dumps({"audit": {"outputs": True}, "sandbox": {"minimum": minimum}}))
    made.environ["THE_SECRET"] = SECRET
    made.sidecar(
        "leaky",
        SIDECAR,
        tool("leaky.free"),
        tool(
            "leaky.ask",
            risk="high",
            outputSchema={"type": "object", "properties": {"texts": {"type": "integer"}}},
        ),
        permissions={"secrets": ["THE_SECRET"]},
    )
    made.policy({"tool": "leaky.free", "decision": "allow", "because": "test"})
    return made


class Watch:
    """Everything there is to see while calls run, as texts."""

    def __init__(self, root: Root, kernel: Kernel) -> None:
        self.root, self.kernel = root, kernel
        self.steps: list[Progress] = []
        self.events: list[Event] = []
        self.results: list[ToolResult] = []
        self.cards: list[str] = []

    async def listen(self) -> None:
        with self.kernel.bus.subscribe() as heard:
            async for event in heard:
                self.events.append(event)

    def card(self, ask: Ask) -> None:
        """What the person is shown of it."""
        self.cards += [f"{line.label} {line.text}" for line in render_card(ask.request, 4_000)]

    def texts(self) -> dict[str, str]:
        """By place."""
        folder = self.root.places.audit_dir
        made = Projection(folder)
        made.update()
        projected = [made.metrics(), made.approvals(), made.history()]
        values = {
            "results": self.results,
            "progress": self.steps,
            "events": self.events,
            "cards": self.cards,
            "activity": self.kernel.activity(),
            "asks": [redacted_ask(ask, viewer=True) for ask in self.kernel.asks()],
            "catalog": self.kernel.catalog(),
            "projections": projected,
        }
        found = {
            name: json.dumps(msgspec.to_builtins(value), ensure_ascii=False) for name, value in values.items()
        }
        found |= {f"{name}, as text": _flat(msgspec.to_builtins(value)) for name, value in values.items()}
        found["audit"] = "".join(path.read_text("ascii") for path in sorted(folder.glob("*.jsonl")))
        found |= {f"audit as {form}": "\n".join(export(folder, form)) for form in Format}
        found["prometheus"] = exposition(made.metrics(), made.approvals())
        return found


def _flat(value: Any) -> str:
    """All texts in it, unescaped."""
    if isinstance(value, dict):
        return "\n".join(f"{key}\n{_flat(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "\n".join(map(_flat, value))
    return str(value)


def order(chance: random.Random) -> dict[str, Any]:
    """What the sidecar is told to say: the spellings in any order, the cuts, and how to end."""
    names = list(ENCODINGS)
    chance.shuffle(names)
    return {
        "said": {name: ENCODINGS[name](SECRET) for name in names},
        "cuts": [chance.randrange(4_000) for _ in range(chance.randrange(1, 12))],
        "way": chance.choice(WAYS),
    }


@pytest.mark.suite
async def test_nothing_leaks_however_it_is_spelled_and_cut(root: Root, level: Level) -> None:
    chance = random.Random(13)
    splits = SPLITS if FULL or level is Level.ENFORCED else SPLITS // 5
    orders = [order(chance) for _ in range(splits)]
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        watch = Watch(root, kernel)
        group.start_soon(watch.listen)
        room = anyio.Semaphore(AT_ONCE)

        async def call(number: int) -> None:
            async with room:
                who = a_caller(pid=5_000 + number // 50)
                asked = request(kernel, "leaky.free", orders[number], said=quote(SECRET), caller=who)
                watch.results.append(await kernel.call(asked, watch.steps.append))

        async with anyio.create_task_group() as calls:
            for number in range(splits):
                calls.start_soon(call, number)
        found = watch.texts()
        group.cancel_scope.cancel()
    assert {result.sandbox for result in watch.results} == {level}, "all of them ran, and so"
    assert len(watch.steps) > splits * len(ENCODINGS), "every spelling was told as progress, too"
    assert {name: leaks(text) for name, text in found.items() if leaks(text)} == {}


async def test_nothing_leaks_on_a_card_or_where_the_output_does_not_fit(root: Root) -> None:
    chance = random.Random(14)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        watch = Watch(root, kernel)
        group.start_soon(watch.listen)

        async def answer(ask: Ask) -> None:
            watch.card(ask)
            await approve(kernel, ask)

        given = {**order(chance), "way": "answer"}
        result = await answered_call(kernel, answer, "leaky.ask", given, said=f"with {SECRET}")
        watch.results.append(result)
        found = watch.texts()
        group.cancel_scope.cancel()
    assert any("output /texts" in warning for warning in result.warnings)
    assert watch.cards
    assert {name: leaks(text) for name, text in found.items() if leaks(text)} == {}


async def test_an_input_that_does_not_fit_quotes_no_piece(root: Root) -> None:
    long_secret = "".join(random.Random(15).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=90))
    root.environ["THE_SECRET"] = long_secret
    schema = {"type": "object", "properties": {"given": {"type": "integer"}, "said": {"maxLength": 3}}}
    root.sidecars["leaky"]["tools"][0]["inputSchema"] = schema
    root.write()
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "leaky.free", {"given": long_secret, "said": "abcd"}))
        assert result.error is not None
        told = json.dumps(msgspec.to_builtins([result, kernel.activity(), root.audit()]))
    assert "/given" in result.error.message
    assert "abcd" in result.error.message, "what is no secret is quoted"
    assert not [at for at in range(80) if long_secret[at : at + 8] in told]


async def test_secrets_too_short_to_be_masked_are_refused(root: Root) -> None:
    root.environ["THE_SECRET"] = "1234567"
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "leaky.free", {}))
    assert result.error is not None
    assert "shorter than 8 characters" in result.error.message
