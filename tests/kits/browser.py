"""A real Chromium on this machine, and a site of the test that records its requests."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kits.terminals import needs

PATIENCE = 60.0
"""Longest wait for a browser that starts within two seconds."""

SHOP = """<!doctype html><title>Shop</title><h1>Shop</h1>
<form action="/sent">
  <label>Name <input name="who"></label>
  <input type="password" name="secret" aria-label="Secret" value="hunter2">
  <button>Send</button>
</form>
<textarea aria-label="Notes"></textarea>
<p style="margin-top: 2000px"><a id="away" href="/other">Another page</a></p>
<button id="alert" onclick="alert('sure?'); document.title = 'Alerted'">Alert</button>
<button id="confirm" onclick="document.title = confirm('delete?') ? 'deleted' : 'kept'">Delete</button>
<div style="position: relative">
  <button id="under">Under</button><div id="lid" style="position: absolute; inset: 0"></div>
</div>
<button id="hidden" style="display: none">Hidden</button>
<input aria-label="Jumpy" id="jumpy" onfocus="document.querySelector('[name=secret]').focus()">
<iframe srcdoc="<button onclick='parent.document.title = `inner`'>Inside</button>"></iframe>
<a id="file" href="/file.zip">File</a>
"""


@dataclass
class Site:
    """The site: `url` without a slash at its end, and the paths that were requested."""

    url: str
    asked: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=lambda: {"/": SHOP})
    held: threading.Event = field(default_factory=threading.Event)
    """What `/never` waits for before it answers."""


@contextmanager
def serving() -> Iterator[Site]:
    """Serve the site for the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            if self.path.partition("?")[0] == "/never":
                site.held.wait(PATIENCE)
            text = site.pages.get(self.path, f"<title>{self.path}</title>You are at {self.path}")
            kind = "application/zip" if self.path.endswith(".zip") else "text/html; charset=utf-8"
            try:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())
            except OSError:
                return  # the browser did not want it any more

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        site.held.set()
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Browser:
    """A running Chromium: `endpoint` is its debugging address, `folder` its own folder."""

    endpoint: str
    folder: Path
    process: subprocess.Popen[bytes]


@contextmanager
def browsing(folder: Path, port: int = 0) -> Iterator[Browser]:
    """Run a headless Chromium with a profile of its own for the block. Without `port` it chooses one, and
    listens when the block begins."""
    needs("chromium")
    profile = folder / "profile"
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    argv += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    argv += ["--window-size=800,600", "--hide-scrollbars", f"--remote-debugging-port={port}"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [*argv, f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=log, cwd=folder
        )
    try:
        yield Browser(f"http://127.0.0.1:{port or _port(profile, process)}", folder, process)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            lines = (profile / "DevToolsActivePort").read_text().split("\n")
        except FileNotFoundError:
            lines = []
        if len(lines) > 1:
            return int(lines[0])
        time.sleep(0.02)
    pytest.fail("Chromium did not start")


class PersistentBrowser:
    """The sidecar as a persistent process, which answers one request after the other."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path, endpoint: str) -> None:
        self.folder = folder
        self._endpoint = endpoint
        self._argv, self._env = argv, env

    def __enter__(self) -> PersistentBrowser:
        self._process = subprocess.Popen(
            self._argv, env=self._env, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0

    def call(self, tool: str, seen: dict[str, str] | None = None, **input: Any) -> dict[str, Any]:
        """Send one request and return the answer; `seen` is the target that the kernel says was approved."""
        document = {
            "tool": f"browser.{tool}",
            "input": input,
            "config": {"endpoint": self._endpoint},
            "projectDir": str(self.folder),
            "artifactDir": str(self.folder),
            "requestId": "one",
            "persistent": True,
            **({"target": seen} if seen else {}),
        }
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(document).encode() + b"\n")
        self._process.stdin.flush()
        while "ok" not in (answer := json.loads(self._process.stdout.readline())):
            assert answer["event"] == "progress"
        assert isinstance(answer, dict)
        assert answer.get("code") not in ("internal", "browser-failed"), answer
        return answer
