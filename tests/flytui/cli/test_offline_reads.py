"""The short way of `status`, `catalog` and `why` without a kernel: what it imports, and that it prints what
the ordinary command line prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kits.command import NAMING_MODULES, ORDINARY, SHORT
from kits.command_line import LONGEST, REGISTRY, Desk
from kits.packages import tree_facts

HEAVY = (
    "click", "asyncio", "anyio", "websockets", "rich", "textual", "jsonschema", "mcp", "importlib.metadata",
    "zipfile", "logging", "flycore.runners", "flycore.server", "flycore.pipeline.prepare",
    "flycore.kernel.refresh", "flytui.cli.root_command", "flytui.cli.commands",
)  # fmt: skip
"""What must not be imported: libraries, what runs calls, and the ordinary command line."""
READS = (
    ("status",),
    ("status", "--json"),
    ("catalog",),
    ("catalog", "--json"),
    ("why", "try.echo"),
    ("why", "try.echo", "--json"),
    ("why", "web.search"),
    ("why", "vision.ocr", "--json"),
    ("why", "workspace.read"),
    ("why", "no.such"),
)


def ran(desk: Desk, *words: str, program: str = SHORT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words], env=desk.environ, cwd=desk.root, input="",
        capture_output=True, text=True, timeout=LONGEST, check=False,
    )  # fmt: skip


def same(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    """What the short way prints, which is what the ordinary way prints but for the times of the answers."""
    short = ran(desk, *words)
    usual = ORDINARY.run(["-c", *words], desk.environ, desk.root, b"", LONGEST)
    assert short.returncode == usual.returncode
    assert without_times(short.stdout) == without_times(usual.stdout.decode())
    assert short.stderr == usual.stderr.decode()
    return short


def without_times(text: str) -> str:
    """A text without the lines in which two looks at the same root differ."""
    names = ('"discoveredAt"', '"at"', '"durationMs"')
    return "\n".join(line for line in text.splitlines() if line.strip().partition(":")[0] not in names)


@pytest.mark.parametrize("words", READS[:6], ids=" ".join)
def test_without_a_kernel_no_command_line_is_imported(desk: Desk, words: tuple[str, ...]) -> None:
    done = ran(desk, *words, program=NAMING_MODULES)
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.splitlines()[-1].split())
    assert "flytui.cli.offline_reads" in imported
    assert not {name for name in imported if any(f"{name}.".startswith(f"{heavy}.") for heavy in HEAVY)}


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_an_untrusted_root_is_shown_as_by_the_ordinary_way(desk: Desk, words: tuple[str, ...]) -> None:
    assert same(desk, *words).returncode == (3 if "no.such" in words else 0)


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_a_trusted_root_is_shown_as_by_the_ordinary_way(settled: Desk, words: tuple[str, ...]) -> None:
    settled.run("catalog")  # what is probed is known from here on
    same(settled, *words)


@pytest.mark.parametrize("words", [("catalog",), ("why", "try.echo")], ids=" ".join)
def test_what_probes_is_left_to_the_ordinary_way(settled: Desk, words: tuple[str, ...]) -> None:
    done = ran(settled, *words, program=NAMING_MODULES)
    assert "flytui.cli.root_command" in done.stderr.splitlines()[-1].split()
    assert done.returncode == 0


@pytest.fixture
def hostile(desk: Desk) -> Desk:
    """A root whose files say what could harm a terminal, without a kernel."""
    text = "a\x1b]0;x\x07\x9b31m\u202eb\u200b\U0001f600\u2066\U000e0041 é ü\x7f\ttail"
    tool: dict[str, object] = {"name": "evil.one", "description": text, "summary": text, "risk": "low"}
    sidecars: dict[str, object] = {
        **REGISTRY["sidecars"],
        "evil": {"command": "./evil", "tools": [tool | {"inputSchema": {"type": "object"}}]},
        "off": {"command": "./evil", "enabled": False, "disabledReason": text, "tools": ["web.fetch"]},
        "gone": {"command": f"./{text}", "tools": ["web.extract"]},
    }
    desk.write({"schemaVersion": 2, "sidecars": sidecars})
    desk.allow({"schemaVersion": 1, "rules": [{"tool": "try.echo", "decision": "ask", "because": text}]})
    return desk


def test_hostile_texts_are_safe_and_the_same(hostile: Desk) -> None:
    shown = ""
    for words in (
        ("status",),
        ("catalog",),
        ("why", "evil.one"),
        ("why", "web.fetch"),
        ("why", "web.extract"),
    ):
        done = same(hostile, *words)
        shown += done.stdout + done.stderr
    assert "⟦U+202E⟧" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b", "\u2066"} & set(shown)


@pytest.mark.parametrize(
    "registry", ["{", '{"schemaVersion": 2}', "[]", '{"schemaVersion": 9, "sidecars": {}}', ""]
)
def test_a_broken_registry_is_shown_as_by_the_ordinary_way(desk: Desk, registry: str) -> None:
    desk.write(registry)
    for words in (("status", "--json"), ("catalog",), ("catalog", "--json"), ("why", "try.echo")):
        same(desk, *words)


def test_a_root_without_a_registry_is_shown_as_by_the_ordinary_way(desk: Desk) -> None:
    (desk.root / "tools" / "external.tools.jsonc").unlink()
    for words in (("status",), ("catalog",), ("catalog", "--json")):
        same(desk, *words)


def test_a_stopped_root_and_a_changed_entry_are_shown(settled: Desk, tmp_path: Path) -> None:
    assert settled.run("panic").returncode == 0
    path = settled.root / "tools" / "external.tools.jsonc"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(
            before.replace('"it only echoes"', '"x"').replace("Answers what", "Says what"), "utf-8"
        )
        status = json.loads(same(settled, "status", "--json").stdout)
        assert (status["panic"], status["waitingTrust"]) == (True, 1)
        assert "1 entry waits for trust" in same(settled, "catalog").stdout
        assert "Says what" in same(settled, "why", "try.echo").stdout
    finally:
        path.write_text(before, encoding="utf-8")


def test_nothing_is_written_by_a_read(desk: Desk) -> None:
    before = tree_facts(desk.root), tree_facts(desk.home)
    for words in READS:
        ran(desk, *words)
    assert (tree_facts(desk.root), tree_facts(desk.home)) == before


def test_the_whole_output_is_written_into_a_slow_pipe(settled: Desk) -> None:
    argv = [sys.executable, "-c", SHORT, "tools", "list", "--json"]
    with subprocess.Popen(argv, env=settled.environ, cwd=settled.root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert json.loads(first + rest)["schema"].startswith("flytui.tools")
