"""media.local: espeak-ng really speaks into a file; whisper is played by programs written here."""

from __future__ import annotations

import base64
import io
import json
import math
import sys
import threading
import wave
from array import array
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flysidecars.media.speech import has_speaker, repair_wav

TEXT = 'It\'s "quoted"; $(touch hacked) `id` <b> --help\n-w hacked ü'

WHISPER = """#!{python}
# A fake: it writes down how it was started, and what it was given.
import json, sys
given = sys.stdin.buffer.read()
with open({seen!r}, "w") as file:
    json.dump([sys.argv[1:], len(given), given[:4].decode("latin-1")], file)
print(" Hello there,\\n\\n General. ")
"""
WHISPER_DELEGATE = """
# A fake: a delegate that says what it was asked.
import json, sys
request = json.load(sys.stdin)
with open(request["file"], "rb") as file:
    size = len(file.read())
print(json.dumps({"ok": True, "text": f"{size} bytes in {request['input']['language']}", "language": "de"}))
"""


def media(starter, tool: str, input: dict[str, object], env: dict[str, str] | None = None, **more: object):
    return starter.call("media.local", tool, input, env=starter.env | (env or {}), **more)


def tone(seconds: float = 0.1) -> bytes:
    samples = array("h", (int(8000 * math.sin(step / 5)) for step in range(int(16000 * seconds))))
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(samples.tobytes())
    return file.getvalue()


def loudness(path: Path) -> tuple[float, float]:
    """Seconds, and the root mean square of the samples, 0 to 32767."""
    with wave.open(str(path)) as sound:
        assert sound.getsampwidth() == 2
        samples = array("h", sound.readframes(sound.getnframes()))
        seconds = sound.getnframes() / sound.getframerate()
    return seconds, math.sqrt(sum(sample * sample for sample in samples) / len(samples))


# --- audio.speak


@pytest.mark.e2e
def test_espeak_writes_a_wav_that_is_heard(starter, require_programs) -> None:
    require_programs("espeak-ng")
    given = {"text": "The build is done.", "voice": "en", "path": "new/said.wav"}
    done = media(starter, "audio.speak", given)
    assert done.answer["ok"], done
    path = starter.project / "new" / "said.wav"
    assert done.answer == {
        "ok": True,
        "spoken": False,
        "path": "new/said.wav",
        "engine": "espeak-ng",
        "artifacts": [{"path": str(path), "mimeType": "audio/wav", "bytes": path.stat().st_size}],
    }
    seconds, mean = loudness(path)
    assert 0.5 < seconds < 10
    assert mean > 500


@pytest.mark.e2e
def test_text_is_only_text(starter, require_programs) -> None:
    require_programs("espeak-ng")
    assert media(starter, "audio.speak", {"text": TEXT, "path": "said.wav"}).answer["ok"]
    assert [file.name for file in starter.project.iterdir()] == ["said.wav"]
    assert loudness(starter.project / "said.wav")[1] > 500


@pytest.mark.e2e
def test_what_is_not_spoken_leaves_no_file(starter, require_programs) -> None:
    require_programs("espeak-ng")
    (starter.project / "there.wav").write_bytes(b"mine")
    (starter.project / "out").symlink_to(starter.project.parent)
    cases: list[tuple[dict[str, object], str]] = [
        ({"text": "x", "path": "there.wav"}, "exists"),
        ({"text": "x", "path": "../said.wav"}, "outside-project"),
        ({"text": "x", "path": "out/said.wav"}, "outside-project"),
        ({"text": "x", "path": "said.mp3"}, "invalid-input"),
        ({"text": "", "path": "said.wav"}, "invalid-input"),
        ({"text": "x" * 10_001, "path": "said.wav"}, "invalid-input"),
        ({"text": "x", "path": "said.wav", "voice": "nosuchvoice"}, "speech-failed"),
        ({"text": "x", "path": "said.wav", "voice": "--path=/tmp"}, "invalid-input"),
        ({"text": "x", "path": "said.wav", "voice": "../../etc/passwd"}, "invalid-input"),
    ]
    for given, code in cases:
        done = media(starter, "audio.speak", given)
        assert done.answer["code"] == code, done
    assert sorted(file.name for file in starter.project.iterdir()) == ["out", "there.wav"]
    assert (starter.project / "there.wav").read_bytes() == b"mine"
    assert not (starter.project.parent / "said.wav").exists()


SPEAKER = """#!{python}
# A fake: it writes down how it was started, and what it was told.
import json, sys
with open({seen!r}, "w") as file:
    json.dump([sys.argv[1:], sys.stdin.buffer.read().decode()], file)
sys.stderr.write({says!r})
"""


def fake(folder: Path, name: str, text: str, **fields: str) -> Path:
    """A program in `folder` and the file in which it writes what it saw."""
    folder.mkdir(exist_ok=True)
    seen = folder.parent / f"{name}.seen"
    program = folder / name
    program.write_text(text.format(python=sys.executable, seen=str(seen), **fields))
    program.chmod(0o755)
    return seen


def test_aloud_the_text_goes_on_stdin(starter, tmp_path: Path) -> None:
    seen = fake(tmp_path / "bin", "espeak-ng", SPEAKER, says="")
    env = {"PATH": str(tmp_path / "bin"), "PULSE_SERVER": "unix:/nowhere"}
    done = media(starter, "audio.speak", {"text": TEXT, "voice": "de"}, env)
    assert done.answer == {"ok": True, "spoken": True, "engine": "espeak-ng"}
    assert json.loads(seen.read_text()) == [["--stdin", "-b", "1", "-v", "de"], TEXT]


def test_a_program_that_finds_no_device_has_not_spoken(starter, tmp_path: Path) -> None:
    fake(tmp_path / "bin", "espeak-ng", SPEAKER, says="snd_pcm_open: Unknown PCM default")
    env = {"PATH": str(tmp_path / "bin"), "PULSE_SERVER": "unix:/nowhere"}
    assert media(starter, "audio.speak", {"text": "x"}, env).answer["code"] == "speech-failed"


def test_a_speaker_is_a_card_that_plays_or_a_server(tmp_path: Path) -> None:
    cards = tmp_path / "snd"
    cards.mkdir()
    assert not has_speaker({}, str(tmp_path / "none"))
    (cards / "pcmC0D0c").touch()
    assert not has_speaker({}, str(cards))
    (cards / "pcmC0D0p").touch()
    assert has_speaker({}, str(cards))
    (tmp_path / "pulse").mkdir()
    assert not has_speaker({"XDG_RUNTIME_DIR": str(tmp_path)}, str(tmp_path / "none"))
    (tmp_path / "pulse" / "native").touch()
    assert has_speaker({"XDG_RUNTIME_DIR": str(tmp_path)}, str(tmp_path / "none"))


def test_headers_get_their_true_sizes() -> None:
    whole = tone()
    piped = bytearray(whole)
    piped[4:8] = piped[40:44] = b"\0\xf0\xff\x7f"
    assert repair_wav(bytes(piped)) == whole
    assert repair_wav(whole) == whole
    assert repair_wav(bytes(piped[:44])) is None
    for bad in (b"", b"RIFF", b"ID3" + whole, whole[:30]):
        assert repair_wav(bad) is None


# --- audio.transcribe


def test_a_whisper_delegate(starter) -> None:
    (starter.project / "memo.wav").write_bytes(tone())
    delegates = {"transcribe": {"argv": [sys.executable, "-c", WHISPER_DELEGATE]}}
    done = media(starter, "audio.transcribe", {"path": "memo.wav", "language": "de"}, delegates=delegates)
    assert done.answer == {
        "ok": True,
        "text": f"{len(tone())} bytes in de",
        "language": "de",
        "engine": "delegate transcribe",
    }


def test_whisper_cli_gets_the_recording_on_stdin(starter, tmp_path: Path) -> None:
    seen = fake(tmp_path / "bin", "whisper-cli", WHISPER)
    model = tmp_path / "model.bin"
    model.touch()
    (starter.project / "memo.wav").write_bytes(tone())
    env, config = {"PATH": str(tmp_path / "bin")}, {"whisperModel": str(model)}
    done = media(starter, "audio.transcribe", {"path": "memo.wav"}, env, config=config)
    assert done.answer == {"ok": True, "text": "Hello there,\nGeneral.", "engine": "whisper-cli"}
    argv, size, head = json.loads(seen.read_text())
    assert argv == ["-m", str(model), "-l", "auto", "-nt", "-np", "-f", "-"]
    assert (size, head) == (len(tone()), "RIFF")
    state = media(starter, "audio.transcribe", {"probe": True}, env, config=config).answer["tools"]
    assert state["audio.transcribe"] == {"status": "healthy"}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "whisperModel"),
        ({"whisperModel": "relative.bin"}, "whisperModel"),
        ({"whisperModel": "/nowhere/model.bin"}, "whisperModel"),
        ({"whisperCommand": "sh"}, "whisperCommand"),
    ],
)
def test_whisper_without_its_model_is_unavailable(
    starter, tmp_path: Path, config: dict[str, object], named: str
) -> None:
    seen = fake(tmp_path / "bin", "whisper-cli", WHISPER)
    (starter.project / "memo.wav").write_bytes(tone())
    env = {"PATH": str(tmp_path / "bin")}
    done = media(starter, "audio.transcribe", {"path": "memo.wav"}, env, config=config)
    assert (done.answer["code"], named in done.answer["error"]) == ("unavailable", True)
    assert done.answer["remedy"]
    assert not seen.exists()


def test_only_recordings_are_sent(starter) -> None:
    (starter.project / "memo.wav").write_text("notes")
    delegates = {"transcribe": {"argv": [sys.executable, "-c", WHISPER_DELEGATE]}}
    done = media(starter, "audio.transcribe", {"path": "memo.wav", "language": "de"}, delegates=delegates)
    assert done.answer["code"] == "wrong-type"


# --- the provider


@pytest.fixture
def url() -> Iterator[str]:
    """A provider that speaks a tone, and hears how long a recording is."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer: dict[str, Any] = {"base64": base64.b64encode(tone()).decode()}
            if asked["tool"] == "audio.transcribe":
                answer = {"text": asked["file"]["mimeType"], "language": asked["input"]["language"]}
            elif asked["input"] == {"text": "bad"}:
                answer = {"base64": "not base64"}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://localhost:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_provider_hears_and_speaks(starter, url: str) -> None:
    (starter.project / "memo.wav").write_bytes(tone())
    config = {"providerUrl": url}
    done = media(starter, "audio.transcribe", {"path": "memo.wav", "language": "de"}, config=config)
    assert done.answer == {"ok": True, "text": "audio/wav", "language": "de", "engine": "provider"}
    done = media(starter, "audio.speak", {"text": "hello", "path": "said.wav"}, config=config)
    assert (done.answer["ok"], done.answer["engine"]) == (True, "provider")
    assert (starter.project / "said.wav").read_bytes() == tone()
    done = media(starter, "audio.speak", {"text": "bad", "path": "other.wav"}, config=config)
    assert done.answer["code"] == "provider-failed"
    assert not (starter.project / "other.wav").exists()
