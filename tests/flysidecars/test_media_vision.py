"""media.local: pictures, read by tesseract itself, a delegate, and a provider on this machine."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import sys
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from flysidecars.media.files import kind_of
from flysidecars.media.http_post import addresses_for
from flysidecars.media.provider import read_provider
from flysidecars.media.recognition import read_tsv
from flysidecars.sdk import ToolFailed, Unavailable
from kits.private_addresses import NOT_PUBLIC
from kits.tables import each_row

FONT = "DejaVuSans.ttf"
FIRST, SECOND = "The quick brown fox", "jumps over 42 lazy dogs."
SECRET = "vision-key-0123456789"


def font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that recognition reads best, or the one that Pillow brings where that is not installed."""
    try:
        return ImageFont.truetype(FONT, 36)
    except OSError:
        return ImageFont.load_default(36)


def written(path: Path, *lines: str) -> Path:
    picture = Image.new("RGB", (760, 60 * len(lines) + 40), "white")
    draw = ImageDraw.Draw(picture)
    for row, line in enumerate(lines):
        draw.text((20, 20 + 60 * row), line, fill="black", font=font())
    picture.save(path)
    return path


@dataclass
class Heard:
    """A provider that writes down what it was asked, and answers as told."""

    url: str
    status: int = 200
    answer: bytes = b'{"text": "two buttons", "extra": 1}'
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], Any]] = field(default_factory=list)


@pytest.fixture
def provider() -> Iterator[Heard]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.asked.append(({"path": self.path, **self.headers}, json.loads(body)))
            self.send_response(heard.status)
            for name, value in {"Content-Length": str(len(heard.answer)), **heard.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(heard.answer)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    heard = Heard(f"http://127.0.0.1:{server.server_port}/see?model=a%20b")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield heard
    server.shutdown()
    thread.join()
    server.server_close()


def media(starter, tool: str, input: dict[str, object], env: dict[str, str] | None = None, **more: object):
    return starter.call("media.local", tool, input, env=starter.env | (env or {}), **more)


def without_programs(tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(tmp_path)}


# --- tesseract


@pytest.mark.e2e
def test_tesseract_reads_a_rendered_sentence(starter, require_programs) -> None:
    require_programs("tesseract")
    written(starter.project / "scan.png", FIRST, SECOND)
    done = media(starter, "vision.ocr", {"path": "scan.png", "language": "eng"})
    assert done.answer["ok"], done
    assert done.answer["text"] == f"{FIRST}\n{SECOND}"
    assert 0.8 < done.answer["confidence"] <= 1
    assert (done.answer["engine"], done.answer["language"]) == ("tesseract", "eng")


@pytest.mark.e2e
def test_a_language_that_is_not_there_is_named(starter, require_programs) -> None:
    require_programs("tesseract")
    written(starter.project / "scan.png", FIRST)
    done = media(starter, "vision.ocr", {"path": "scan.png", "language": "eng+tlh"})
    assert done.answer["code"] == "language-missing"
    assert "tlh" in done.answer["error"]
    assert "eng" in done.answer["languages"]
    for bad in ("--psm", "eng+", "../eng"):
        assert media(starter, "vision.ocr", {"path": "scan.png", "language": bad}).answer["ok"] is False


@pytest.mark.e2e
def test_an_empty_picture_has_no_text_and_no_confidence(starter, require_programs) -> None:
    require_programs("tesseract")
    Image.new("RGB", (200, 100), "white").save(starter.project / "blank.png")
    done = media(starter, "vision.ocr", {"path": "blank.png"})
    assert (done.answer["text"], "confidence" in done.answer) == ("", False)


def test_the_table_is_read_in_order() -> None:
    head = "level\tpage\tblock\tpar\tline\tword\tleft\ttop\twidth\theight\tconf\ttext"
    words = [
        ("1", "1", "1", "90", "A"),
        ("1", "1", "1", "80", "b"),
        ("1", "1", "2", "70", "c"),
        ("2", "1", "1", "60", "D"),
        ("2", "1", "1", "10", " "),
    ]
    rows = [
        f"5\t1\t{block}\t{par}\t{line}\t1\t0\t0\t1\t1\t{sure}\t{text}"
        for block, par, line, sure, text in words
    ]
    other = "4\t1\t2\t1\t1\t0\t0\t0\t1\t1\t-1\t"
    assert read_tsv("\n".join((head, *rows[:3], other, *rows[3:], "short"))) == ("A b\nc\n\nD", 0.75)
    assert read_tsv(head) == ("", None)


# --- what is not opened


@pytest.mark.parametrize("tool", ["vision.ocr", "vision.analyze"])
def test_only_pictures_below_the_project_are_opened(
    starter, provider: Heard, tmp_path: Path, tool: str
) -> None:
    outside = written(tmp_path / "outside.png", FIRST)
    (starter.project / "link.png").symlink_to(outside)
    (starter.project / "notes.png").write_text("no picture")
    (starter.project / "sound.png").write_bytes(b"RIFF\0\0\0\0WAVEfmt ")
    (starter.project / "empty.png").touch()
    os.mkfifo(starter.project / "pipe.png")
    with (starter.project / "big.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(20 * 1024 * 1024 + 1)
    expected = {
        "../outside.png": "outside-project",
        str(outside): "outside-project",
        "link.png": "outside-project",
        "pipe.png": "not-a-file",
        "none.png": "not-found",
        "notes.png": "wrong-type",
        "sound.png": "wrong-type",
        "empty.png": "wrong-type",
        "big.png": "too-big",
    }
    for path, code in expected.items():
        done = media(starter, tool, {"path": path}, config={"providerUrl": provider.url})
        assert done.answer["code"] == code, path
    assert provider.asked == []


def test_a_small_file_that_promises_a_huge_picture(starter) -> None:
    path = starter.project / "bomb.png"
    Image.new("1", (1, 1)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = (50_000).to_bytes(4) * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    (starter.project / "bomb.png").write_bytes(data)
    delegate = {"ocr": {"argv": starter.argv("mock.echo")}}
    assert media(starter, "vision.ocr", {"path": "bomb.png"}, delegates=delegate).answer["code"] == "too-big"
    path.write_bytes(data[:20])
    assert media(starter, "vision.ocr", {"path": "bomb.png"}, delegates=delegate).answer["code"] == "broken"


@each_row(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\0\0\0\0AVI LIST", None),
        (b"P6\n", "image/x-portable-anymap"),
        (b"P66", None),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
        (b"\xff\xfb\x90\0", "audio/mpeg"),
        (b"%PDF-1.7", None),
        (b"", None),
    ],
)
def test_kinds_are_known_by_their_first_bytes(head: bytes, kind: str | None) -> None:
    assert kind_of(head) == kind


# --- the provider


def test_a_provider_sees_the_picture_and_its_answer_comes_back(starter, provider: Heard) -> None:
    path = written(starter.project / "shot.png", FIRST)
    config = {
        "providerUrl": provider.url,
        "providerHeaders": {"Authorization": "Bearer ${VISION_KEY}", "X-Two": "2"},
    }
    sent = {"path": "shot.png", "prompt": "Which buttons? ü"}
    done = media(starter, "vision.analyze", sent, {"VISION_KEY": SECRET}, config=config)
    assert done.answer == {"ok": True, "text": "two buttons", "engine": "provider"}
    [(headers, asked)] = provider.asked
    assert (headers["Authorization"], headers["X-Two"]) == (f"Bearer {SECRET}", "2")
    assert (headers["path"], headers["Content-Type"]) == ("/see?model=a%20b", "application/json")
    assert (asked["tool"], asked["input"]) == ("vision.analyze", {"prompt": "Which buttons? ü"})
    file = asked["file"]
    data = base64.b64decode(file["base64"])
    assert (file["name"], file["mimeType"], file["bytes"]) == ("shot.png", "image/png", len(data))
    assert corner(data) == corner(path.read_bytes())
    assert SECRET not in done.stderr


BAD_ANSWERS: list[dict[str, Any]] = [
    {"status": 500, "answer": SECRET.encode()},
    {"status": 401},
    {"status": 307, "headers": {"Location": "http://127.0.0.1:9/"}},
    {"answer": b"not json"},
    {"answer": b"[1]"},
    {"answer": b'{"text": 5}'},
    {"answer": b"{" * 100_000},
    {"answer": b" " * (4 * 1024 * 1024 + 1)},
    {"headers": {"Content-Encoding": "gzip"}},
]


def test_answers_that_are_none(starter, provider: Heard) -> None:
    written(starter.project / "shot.png", FIRST)
    good = {"status": 200, "answer": provider.answer, "headers": {}}
    for bad in BAD_ANSWERS:
        for key, value in (good | bad).items():
            setattr(provider, key, value)
        done = media(
            starter,
            "vision.analyze",
            {"path": "shot.png"},
            {"VISION_KEY": SECRET},
            config={"providerUrl": provider.url, "providerHeaders": {"K": "${VISION_KEY}"}},
        )
        assert done.answer["code"] == "provider-failed", bad
        assert done.answer.get("status", 0) == (bad.get("status", done.answer.get("status", 0))), bad
        assert SECRET not in done.out.decode() + done.stderr, bad
    assert len(provider.asked) == len(BAD_ANSWERS)


@each_row(
    ("host", "more"),
    [
        ("0.0.0.0", {}),
        ("169.254.169.254", {}),
        ("10.0.0.1", {"allowPrivate": ["10.0.0.2"]}),
        ("[::ffff:127.0.0.1]", {}),
        ("[fe80::1]", {}),
        ("2130706433", {}),
    ],
)
def test_addresses_that_are_not_meant_are_refused(host: str, more: dict[str, object]) -> None:
    provider = read_provider({"providerUrl": f"http://{host}:9/", **more})
    with pytest.raises(ToolFailed) as failed:
        addresses_for(provider)
    assert failed.value.code == "provider-refused"


@each_row(
    ("host", "more"),
    [
        ("127.0.0.1", {}),
        ("[::1]", {}),
        ("localhost", {}),
        ("10.0.0.1", {"allowPrivate": ["10.0.0.1"]}),
        ("10.0.0.1", {"allowPrivate": ["10.0.0.0/8", "10.0.0.1/8", 7]}),
        ("[fd00::1]", {"allowPrivate": ["fd00::1"]}),
    ],
)
def test_addresses_that_are_meant(host: str, more: dict[str, object]) -> None:
    assert addresses_for(read_provider({"providerUrl": f"http://{host}:9/", **more}))


def _resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [(socket.AF_UNSPEC, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


@pytest.mark.suite
@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_a_name_that_leads_home_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    provider = read_provider({"providerUrl": "http://rebound.example/"})
    for answer in ((address,), ("8.8.8.8", address)):
        _resolving(monkeypatch, *answer)
        with pytest.raises(ToolFailed) as failed:
            addresses_for(provider)
        assert failed.value.code == "provider-refused"


def test_localhost_leads_nowhere_else_even_where_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolving(monkeypatch, "8.8.8.8")
    with pytest.raises(ToolFailed) as failed:
        addresses_for(read_provider({"providerUrl": "http://localhost/", "allowPrivate": ["localhost"]}))
    assert failed.value.code == "provider-refused"


@pytest.mark.parametrize("listed", ["wiki.lan", "WIKI.lan.", "10.0.0.7", "10.0.0.0/8"])
def test_a_listed_name_or_network_is_reached(monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    _resolving(monkeypatch, "10.0.0.7")
    found = addresses_for(read_provider({"providerUrl": "http://wiki.lan/", "allowPrivate": [listed]}))
    assert list(map(str, found)) == ["10.0.0.7"]


BAD_CONFIG: list[tuple[dict[str, object], str]] = [
    ({"providerUrl": "ftp://example.com/"}, "providerUrl"),
    ({"providerUrl": "file:///etc/passwd"}, "providerUrl"),
    ({"providerUrl": "http://"}, "providerUrl"),
    ({"providerUrl": f"https://me:{SECRET}@example.com/"}, "providerUrl"),
    ({"providerUrl": "http://example.com:x/"}, "providerUrl"),
    ({"providerUrl": "http://example.com/a b"}, "providerUrl"),
    ({"providerUrl": "http://[::1"}, "providerUrl"),
    ({"providerUrl": 5}, "providerUrl"),
    ({"providerUrl": "http://127.0.0.1:9/", "providerHeaders": []}, "providerHeaders"),
    ({"providerUrl": "http://127.0.0.1:9/", "providerHeaders": {"Host": "x"}}, "providerHeaders"),
    ({"providerUrl": "http://127.0.0.1:9/", "providerHeaders": {"A b": "x"}}, "providerHeaders"),
    ({"providerUrl": "http://127.0.0.1:9/", "providerHeaders": {"A": "x\r\nB: y"}}, "header A"),
    ({"providerUrl": "http://127.0.0.1:9/", "providerHeaders": {"A": "${NOT_SET}"}}, "NOT_SET"),
]


@each_row(("config", "named"), BAD_CONFIG)
def test_a_config_that_is_wrong_is_unavailable_with_its_place(config: dict[str, object], named: str) -> None:
    with pytest.raises(Unavailable, match=named) as failed:
        read_provider(config, {})
    assert failed.value.remedy
    assert SECRET not in str(failed.value.answer())


@pytest.mark.parametrize(("config", "named"), [BAD_CONFIG[3], BAD_CONFIG[-1]])
def test_a_wrong_config_is_seen_by_the_probe_and_by_the_call(
    starter, config: dict[str, object], named: str
) -> None:
    written(starter.project / "shot.png", FIRST)
    done = media(starter, "vision.analyze", {"path": "shot.png"}, config=config)
    assert (done.answer["code"], named in done.answer["error"]) == ("unavailable", True)
    assert SECRET not in done.out.decode()
    state = media(starter, "vision.analyze", {"probe": True}, config=config).answer["tools"]["vision.analyze"]
    assert (state["status"], named in state["reason"]) == ("unavailable", True)
    assert (state["code"] == "secret-missing") == (named == "NOT_SET")


# --- the delegate, and nothing at all

READER = """
import json, sys
request = json.load(sys.stdin)
print(json.dumps({"event": "progress", "progress": 1}))
with open(request["file"], "rb") as file:
    head = file.read(4)
print(json.dumps({"ok": True, "text": f"{request['tool']} {head[1:4].decode()}", "confidence": 0.5}))
"""


@pytest.mark.parametrize("name", ["vision.ocr", "ocr", "delegate"])
def test_a_delegate_reads_the_file_that_was_checked(starter, tmp_path: Path, name: str) -> None:
    written(starter.project / "scan.png", FIRST)
    delegates = {name: {"argv": [sys.executable, "-c", READER]}}
    done = media(starter, "vision.ocr", {"path": "scan.png"}, without_programs(tmp_path), delegates=delegates)
    assert done.answer == {
        "ok": True,
        "text": "vision.ocr PNG",
        "confidence": 0.5,
        "engine": f"delegate {name}",
    }


BAD_DELEGATES: list[tuple[str, str]] = [
    ("print('not json')", "delegate-failed"),
    ("print('[1]')", "delegate-failed"),
    ('import sys; print(\'{"ok": true, "text": "x"}\'); sys.exit(3)', "delegate-failed"),
    ("print('{\"ok\": true}')", "delegate-failed"),
    ("pass", "delegate-failed"),
    ("print('x' * 5_000_000)", "delegate-failed"),
    ('print(\'{"ok": false, "code": "own", "error": "it broke"}\')', "own"),
    ('print(\'{"ok": false, "code": "unavailable", "error": "no"}\')', "unavailable"),
    ("print('{\"ok\": false}')", "failed"),
]


def test_delegates_that_fail_are_structured_failures_and_nothing_else_acts(starter) -> None:
    written(starter.project / "scan.png", FIRST)
    for program, code in BAD_DELEGATES:
        delegates = {"ocr": {"argv": [sys.executable, "-c", program]}}
        done = media(starter, "vision.ocr", {"path": "scan.png"}, delegates=delegates)
        assert (done.answer["ok"], done.answer["code"]) == (False, code), program
        assert "text" not in done.answer
    done = media(starter, "vision.ocr", {"path": "scan.png"}, delegates={"ocr": {"argv": ["/nowhere"]}})
    assert done.answer["code"] == "delegate-failed"


def test_nothing_is_there_and_each_tool_says_what_to_do(starter, tmp_path: Path) -> None:
    written(starter.project / "scan.png", FIRST)
    states = media(starter, "vision.ocr", {"probe": True}, without_programs(tmp_path)).answer["tools"]
    assert set(states) == {"vision.analyze", "vision.ocr", "audio.transcribe", "audio.speak"}
    for state in states.values():
        assert state["status"] == "unavailable"
        assert state["remedy"]
    assert "apt install tesseract-ocr" in states["vision.ocr"]["remedy"]
    # Keys that are there and empty, as in a registry that was filled in by half, are as good as absent.
    for config in ({}, {"providerUrl": "", "whisperCommand": ""}):
        again = media(starter, "vision.ocr", {"probe": True}, without_programs(tmp_path), config=config)
        assert again.answer["tools"] == states
    for tool in ("vision.ocr", "vision.analyze"):
        done = media(starter, tool, {"path": "scan.png"}, without_programs(tmp_path))
        assert (done.answer["code"], done.answer["remedy"]) == ("unavailable", states[tool]["remedy"])


# --- what leaves the machine


def corner(data: bytes) -> object:
    with Image.open(io.BytesIO(data)) as picture:
        return picture.convert("RGB").getpixel((5, 5))


@pytest.mark.parametrize(
    ("suffix", "mime"), [("png", "image/png"), ("jpg", "image/jpeg"), ("gif", "image/png")]
)
def test_only_the_decoded_picture_is_sent(starter, provider, suffix: str, mime: str) -> None:
    path = written(starter.project / f"p.{suffix}", FIRST)
    hidden = b"the contents of another file, appended"
    pixels = corner(path.read_bytes())
    path.write_bytes(path.read_bytes() + hidden)
    config = {"providerUrl": provider.url, "allowPrivate": ["127.0.0.1"]}
    done = media(starter, "vision.analyze", {"path": path.name}, config=config)
    assert done.answer["ok"], done
    sent = provider.asked[0][1]["file"]
    data = base64.b64decode(sent["base64"])
    assert hidden not in data
    assert (sent["mimeType"], sent["bytes"]) == (mime, len(data))
    assert corner(data) == pixels


def test_an_entry_without_the_network_sends_nothing(starter, provider) -> None:
    written(starter.project / "p.png", FIRST)
    config = {"providerUrl": provider.url, "allowPrivate": ["127.0.0.1"]}
    for permissions in ({"network": False}, {}):
        for tool in ("vision.analyze", "vision.ocr"):
            done = media(starter, tool, {"path": "p.png"}, config=config, permissions=permissions)
            assert done.answer["code"] == "unavailable"
            assert "does not declare the network" in done.answer["error"]
    assert provider.asked == []
