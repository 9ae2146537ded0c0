"""Sidecars written from the contract alone, in other languages, run unchanged through the command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.scenes import allow, assert_whole, call, described, program, write_registry
from kits.terminals import Root, make_root, needs

SHELL = r"""#!/bin/sh
# Counts the lines of a file below the project: tool sh.count, input {"path": "..."}.
read -r request
field() { printf '%s' "$request" | sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
path=$(field path)
project=$(field projectDir)
artifacts=$(field artifactDir)
if [ -z "$path" ]; then
	echo '{"ok": false, "code": "failed", "error": "no path was given"}'
	exit 1
fi
if [ ! -r "$project/$path" ]; then
	echo "looked for $project/$path" >&2
	printf '{"ok": false, "code": "not-readable", "error": "cannot be read", "path": "%s"}\n' "$path"
	exit 1
fi
lines=$(wc -l < "$project/$path")
echo "$lines" > "$artifacts/count.txt"
printf '{"ok": true, "lines": %d, "artifacts": [' "$lines"
printf '{"path": "%s/count.txt", "mimeType": "text/plain", "bytes": 2}]}\n' "$artifacts"
"""

NODE = r"""#!/usr/bin/env node
// Finds words in a text: tool node.words, input {"text": "...", "least": 3}.
const { createHash } = require("node:crypto");
let request = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (part) => { request += part; });
process.stdin.on("end", () => {
  const { tool, input, config } = JSON.parse(request);
  const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
  if (typeof input.text !== "string") {
    say({ ok: false, code: "failed", error: `${tool} needs a text`, got: typeof input.text });
    process.exit(1);
  }
  say({ event: "progress", progress: 0.5, total: 1, message: "splitting" });
  const words = input.text.match(/\p{L}+/gu) ?? [];
  const least = input.least ?? config.least ?? 1;
  const long = words.filter((word) => [...word].length >= least);
  say({ ok: true, words: long, sha256: createHash("sha256").update(input.text).digest("hex") });
});
"""

UNAVAILABLE = r"""#!/bin/sh
cat > /dev/null
echo 'the engine is not installed' >&2
echo '{"ok": false, "code": "unavailable", "error": "no engine here", "remedy": "apt install tesseract-ocr"}'
exit 1
"""
LONGEST = 21
"""Lines of a program, its first one included: what a person writes before the contract feels heavy."""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    root = make_root(tmp_path, "{}")
    write_registry(
        root,
        {
            "in.shell": {
                "command": program(root, "sh", SHELL),
                "permissions": {"fs": {"read": ["${input.path}"]}},
                "tools": [described("sh.count")],
            },
            "in.node": {
                "command": program(root, "node", NODE),
                "config": {"least": 4},
                "tools": [described("node.words")],
            },
            "not.here": {"command": program(root, "gone", UNAVAILABLE), "tools": [described("gone.ocr")]},
        },
    )
    (root.folder / "README.md").write_text("one\ntwo\nthree\n")
    allow(root, "sh.count", "node.words", "gone.ocr")
    root.trust()
    yield root
    root.end()


@pytest.mark.parametrize("text", [SHELL, NODE], ids=["shell", "node"])
def test_they_are_as_short_as_promised(text: str) -> None:
    assert len(text.splitlines()) <= LONGEST


def test_twenty_lines_of_shell(root: Root) -> None:
    code, result = call(root, "sh.count", {"path": "README.md"})
    assert (code, result["status"], result["output"]["lines"]) == (0, "success", 3)
    (artifact,) = result["artifacts"]
    assert artifact["mimeType"] == "text/plain"
    assert Path(artifact["path"]).read_text() == "3\n"
    assert (result["exitCode"], result["warnings"]) == (0, [])

    code, result = call(root, "sh.count", {})
    assert (code, result["status"], result["error"]["code"]) == (1, "failed", "failed")
    assert result["error"]["message"] == "no path was given"

    code, result = call(root, "sh.count", {"path": "nowhere"})
    assert (code, result["status"], result["error"]["code"]) == (1, "failed", "failed")
    assert result["error"]["details"]["code"] == "not-readable"
    assert result["error"]["details"]["path"] == "nowhere"
    assert result["stderrTail"].endswith("/project/nowhere\n")
    assert_whole(root)


def test_twenty_lines_of_node(root: Root) -> None:
    needs("node")
    text = "kurze und längere Wörter \U0001f600"
    code, result = call(root, "node.words", {"text": text})
    assert (code, result["status"]) == (0, "success"), result
    assert result["output"] == {
        "words": ["kurze", "längere", "Wörter"],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }

    code, result = call(root, "node.words", {"text": 7})
    assert (code, result["status"], result["error"]["code"]) == (1, "failed", "failed")
    assert result["error"]["message"] == "node.words needs a text"
    assert result["error"]["details"]["got"] == "number"
    assert_whole(root)


def test_one_that_says_it_is_unavailable(root: Root) -> None:
    code, result = call(root, "gone.ocr", {})
    assert (code, result["status"], result["error"]["code"]) == (3, "unavailable", "tool-unavailable")
    assert result["error"]["message"] == "no engine here"
    assert "apt install tesseract-ocr" in json.dumps(result["error"])
    assert result["exitCode"] == 1
    assert result["stderrTail"] == "the engine is not installed\n"
    plain = root.flytui("call", "gone.ocr")
    assert plain.returncode == 3
    assert plain.stdout == ""
    for part in ("unavailable", "no engine here", "apt install tesseract-ocr"):
        assert part in plain.stderr
    assert [line["status"] for line in root.audit() if line["event"] == "TOOL_EXECUTED"] == [
        "unavailable",
        "unavailable",
    ]
    assert_whole(root)
