"""A root in which every text that can come from outside is a payload of suite S5."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kits.kernel import in_project
from kits.payloads import file_names, word
from kits.scenes import described, program, write_registry
from kits.terminals import BIN, Root, Tmux, until

EVIL = f"""#!{sys.executable} -SE
import json, os, sys
request = json.loads(sys.stdin.buffer.read())
text, names = @PAYLOAD@
def say(**answer):
    sys.stdout.write(json.dumps(answer) + "\\n")
mode = request["input"].get("mode", "")
if request["input"].get("probe"):
    sys.stderr.write(text)
    say(ok=True, tools={{"evil.run": {{"status": "degraded", "reason": text, "remedy": text}}}})
elif mode == "output":
    say(event="progress", progress=0.5, total=1.0, message=text)
    say(event="log", level=text, message=text)
    sys.stderr.write(text)
    say(ok=True, n=text, **{{text: [text, {{text: text}}]}})
elif mode == "artifact":
    made = [os.path.join(request["artifactDir"], name) for name in names]
    for path in made:
        open(path, "w").close()
    say(ok=True, artifacts=[{{"path": path, "mimeType": text, "bytes": 0}} for path in made])
elif mode == "error":
    say(ok=False, code=text, error=text, hint=text, remedy=text, **{{text: text}})
elif mode == "unavailable":
    say(ok=False, code="unavailable", error=text, remedy=text)
elif mode == "garbage":
    sys.stdout.buffer.write(text.encode())
elif mode == "stderr":
    sys.stderr.buffer.write(text.encode() + b"\\xff\\x9b2J\\x80")
    sys.exit(3)
"""
MODES = ("output", "artifact", "error", "unavailable", "garbage", "stderr")
BENIGN = "evil.run"
ASKED = "evil.do"


def hostile_root(base: Path, text: str) -> Root:
    """Create the root, whose folder has a payload as its name, too."""
    folder = base / file_names(text)[0]
    (folder / "tools").mkdir(parents=True)
    root = Root(folder, base / "home")
    (folder / "tools/payload").write_text(text, encoding="utf-8", newline="")
    write_registry(root, json.dumps({"schemaVersion": 2, "sidecars": entries(root, text)}))
    _write_policy(root, text)
    (root.home / "config/flytui/config.jsonc").write_text(json.dumps(_settings(text)))
    return root


def _settings(text: str) -> dict[str, object]:
    keys = {
        text: text,
        f"catalog.{text}": "f5",
        "catalog.probe": text,
        "catalog.group": "[",
        "audit.copy": "\u3164",
    }
    return {
        text: text,
        "theme": text,
        "keys": keys,
        "risk": {text: text, ASKED: text},
        "sandbox": {"minimum": {text: text}},
        "notify": {"command": text},
    }


def entries(root: Root, text: str) -> dict[str, object]:
    """The entries of a registry, with a payload in every field that takes a text."""
    schema = {
        "type": "object",
        "title": text,
        "properties": {"mode": {"type": "string", "description": text}, text: {"enum": [text]}},
    }
    answer = {"type": "object", "properties": {"n": {"type": "integer", "description": text}}}
    more = {
        "description": text,
        "inputSchema": schema,
        "outputSchema": answer,
        "tags": [text[at : at + 60] for at in range(0, len(text), 60)],
    }
    # The payload stands in the program, because one that reads it from the project is asked about.
    script = in_project(EVIL, root.folder).replace("@PAYLOAD@", ascii((text, file_names(text))))
    evil = {
        "command": program(root, "evil", script),
        "cwd": "empty",
        "args": [word(text), *file_names(text)],
        "env": {"LABEL": word(text)},
        "config": {text: text},
        "permissions": {"fs": {"write": file_names(text)}},
        "probe": {"mode": "request", "timeoutMs": 10000},
        "tools": [described(BENIGN, **more), described(ASKED, "high", **more)],
    }
    return {
        "evil.local": evil,
        text: evil,
        "bad.tool": {"command": "true", "tools": [text, described(text), 7]},
        "bad.key": {"command": "true", text: text, "tools": ["web.search"], "permissions": {text: True}},
        "bad.value": {"command": text, "cwd": text, "kind": text, "compatibleCore": text, "tools": [text]},
        "bad.path": {"command": f"./tools/{word(text)}", "tools": ["vision.ocr"]},
        "bad.name": {"command": word(text), "tools": ["web.fetch"]},
        "bad.core": {"command": "true", "compatibleCore": ">=99", "packageVersion": text, "packageId": text},
        "off": {"command": "true", "enabled": False, "disabledReason": text, "tools": ["audio.speak"]},
        "hashing": {
            "command": "flytui-sidecar",
            "args": ["utility.local"],
            "permissions": {"fs": {"read": ["."]}},
            "tools": ["file.hash"],
        },
    }


def _write_policy(root: Root, text: str) -> None:
    rules = [
        {"tool": BENIGN, "decision": "allow", "because": text},
        {"tool": ASKED, "decision": "ask", "because": text},
        {"tool": ASKED, "decision": text, "because": text, text: text},
        {"tool": text, "decision": "allow", "because": text},
        {"tool": "file.*", "decision": "allow", "because": text, "match": [text], "not_match": [text]},
    ]
    folder = root.home / "config/flytui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": rules}))
    tighter = {"schemaVersion": 1, "rules": [{"tool": ASKED, "decision": "ask", "because": text}]}
    (root.folder / "tools/policy.jsonc").write_text(json.dumps(tighter))


def hostile_caller(root: Root, text: str) -> str:
    """A program that starts another one and stays. Its name is a payload."""
    found = shutil.which("timeout")
    assert found is not None
    path = root.home / file_names(text)[0]
    shutil.copy(os.path.realpath(found), path)
    return str(path)


@contextmanager
def recorded_console(root: Root, raw: Path) -> Iterator[Tmux]:
    """A console in tmux. The file `raw` records every byte that it sends to its terminal."""
    tmux = Tmux(root)
    console = 'stty -echo; read go; "$0" --root "$1"; echo left=$?; exec cat'
    tmux.open("sh", "-c", console, str(BIN / "flytui"), str(root.folder))
    try:
        tmux.run("pipe-pane", f"cat > '{raw}'")
        until("the recorder runs", raw.exists)
        tmux.keys("Enter")
        tmux.sees("Catalog|trust nothing now")
        yield tmux
    finally:
        tmux.end()


def sent_by_console(tmux: Tmux, raw: Path) -> bytes:
    """Quit the console and return its output from the first escape sequence to the last. The output of a
    running console may end within a sequence."""
    tmux.sees(r"\b0 agents")  # it asks before it leaves while an agent is connected
    tmux.keys("C-q")
    until("the console left", lambda: b"left=0" in raw.read_bytes())
    written = raw.read_bytes()
    return written[written.index(b"\x1b[?1049h") : written.index(b"left=0")]
