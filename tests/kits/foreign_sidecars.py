"""A sidecar written as programs of Flyflor are: it reads their fields, asks the programs that its config
names, and answers in their form. Nothing in it knows flytui.

It records each request beside itself, so that a test sees what it was sent.
"""

from __future__ import annotations

from typing import Any

UTILITY = ("file.hash", "archive.create", "archive.extract", "data.convert", "task.background", "lsp.symbols")
MEDIA = ("vision.analyze", "vision.ocr", "audio.transcribe", "audio.speak")
WEB = ("web.search", "web.fetch", "web.extract", "web.download")
NATIVE = ("screen.screenshot", "computer.mouse", "computer.keyboard", "computer.window")
BROWSER = tuple(
    f"browser.{act}" for act in ("open", "navigate", "snapshot", "screenshot", "click", "type", "evaluate")
)

SIDECAR = r'''#!/usr/bin/env python3
import base64, hashlib, json, os, re, shutil, socket
import struct, subprocess, sys, time, urllib.parse, urllib.request


class Told(Exception):
    def __init__(self, code, message, **details):
        super().__init__(message)
        self.answer = {"ok": False, "code": code, "error": message, **details}


def inside(request, name):
    path = os.path.normpath(os.path.join(request["projectDir"], name))
    if not path.startswith(request["projectDir"]):
        raise Told("failed", "path must stay under projectDir")
    return path


def text(fields, *names):
    for name in names:
        if isinstance(fields.get(name), str) and fields[name]:
            return fields[name]
    raise Told("failed", "needs one of " + ", ".join(names))


def ask(command, args, request):
    if not command:
        raise Told("unavailable", request["tool"] + " requires a delegate in config")
    done = subprocess.run(
        [command, *args], input=json.dumps(request) + "\n", capture_output=True, text=True
    )
    if done.returncode:
        raise Told(
            "failed", "delegate failed", command=command, exitCode=done.returncode, stderr=done.stderr
        )
    return {"command": command, "response": json.loads(done.stdout.splitlines()[0]), "stderr": done.stderr}


def run(command, args):
    found = shutil.which(command) if command else None
    if not found:
        raise Told("unavailable", "command is unavailable: " + str(command))
    done = subprocess.run([found, *args], capture_output=True, text=True)
    if done.returncode:
        raise Told(
            "failed", "command failed", command=command, exitCode=done.returncode, stderr=done.stderr
        )
    return {"stdout": done.stdout, "stderr": done.stderr, "exitCode": 0}


def utility(tool, given, config, request):
    if tool == "file.hash":
        path = inside(request, text(given, "path"))
        data = open(path, "rb").read()
        kind = given.get("algorithm") or "sha256"
        return {
            "algorithm": kind,
            "bytes": len(data),
            "hash": hashlib.new(kind, data).hexdigest(),
            "path": path,
        }
    if tool == "archive.create":
        output = inside(request, text(given, "output"))
        run("tar", ["-czf", output, "-C", request["projectDir"], *given.get("paths", [])])
        return {"output": output, "entries": len(given.get("paths", []))}
    if tool == "archive.extract":
        folder = inside(request, text(given, "outputDir"))
        os.makedirs(folder, exist_ok=True)
        run("tar", ["-xzf", inside(request, text(given, "archive")), "-C", folder])
        return {"archive": given["archive"], "outputDir": folder}
    if tool == "data.convert":
        value = given.get("input")
        made = json.loads(value) if (given["from"], given["to"]) == ("text", "json") else value
        if given.get("outputPath"):
            path = inside(request, given["outputPath"])
            open(path, "w").write(made if isinstance(made, str) else json.dumps(made))
            return {"from": given["from"], "to": given["to"], "path": path}
        return {"from": given["from"], "to": given["to"], "output": made}
    name = "task" if tool == "task.background" else "lsp"
    return {
        "delegate": name,
        "result": ask(config.get(name + "Command"), config.get(name + "Args", []), request),
    }


def media(tool, given, config, request):
    if tool == "audio.speak":
        text(given, "text")
    else:
        text(given, "audioPath" if tool == "audio.transcribe" else "imagePath")
    local = config.get("localCommands", {}).get(tool)
    if local:
        return {
            "provider": "local",
            "response": ask(local["command"], local.get("args", []), request)["response"],
        }
    if not config.get("providerUrl"):
        raise Told("unavailable", "media provider is unavailable for " + tool)
    body = json.dumps({"tool": tool, "input": given}).encode()
    sent = urllib.request.Request(config["providerUrl"], body, {"content-type": "application/json"})
    with urllib.request.urlopen(sent) as reply:
        return {"provider": "http-json", "response": json.load(reply), "status": reply.status}


def web(tool, given, config, request):
    if tool == "web.search":
        providers = config.get("providers", [])
        if not providers:
            raise Told("unavailable", "web.search has no configured provider")
        limit = given["limit"] if isinstance(given.get("limit"), int) else 10
        query = urllib.parse.urlencode({"q": text(given, "query"), "limit": limit})
        with urllib.request.urlopen(providers[0]["endpoint"] + "?" + query) as reply:
            found = json.load(reply)[:limit]
        rows = [
            {"title": i["title"], "url": i["url"], "snippet": i["snippet"], "rank": n}
            for n, i in enumerate(found)
        ]
        return {"query": given["query"], "results": rows, "cacheHit": False}
    with urllib.request.urlopen(text(given, "url")) as reply:
        data, kind = reply.read(), reply.headers.get("content-type", "")
        about = {"status": reply.status, "url": reply.url}
    if tool == "web.download":
        path = inside(request, text(given, "path"))
        open(path, "wb").write(data)
        return {**about, "path": path, "bytes": len(data)}
    most = given["maxChars"] if isinstance(given.get("maxChars"), int) else 16000
    whole = data.decode("utf-8", "replace")
    page = {**about, "contentType": kind, "text": whole[:most], "truncated": len(whole) > most}
    if tool == "web.extract":
        page["text"] = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page["text"])).strip()
        page["title"] = "".join(re.findall(r"<title>(.*?)</title>", whole)[:1])
    return page


def native(tool, given, config, request):
    if tool == "screen.screenshot":
        path = inside(request, given.get("path") or f"screenshots-{time.time_ns()}.png")
        program = next((name for name in ("grim", "gnome-screenshot") if shutil.which(name)), "")
        if not program:
            raise Told("unavailable", "screen.screenshot requires grim or gnome-screenshot")
        run(program, [path] if program == "grim" else ["-f", path])
        return {"path": path, "platform": "linux", "command": program}
    if tool == "computer.window":
        return {"platform": "linux", "result": run("xdotool", ["getwindowfocus", "getwindowname"])}
    name = tool.partition(".")[2]
    words = given.get("args") or []
    return {
        "command": config.get(name + "Command"),
        "result": run(config.get(name + "Command"), [*config.get(name + "Args", []), *words]),
    }


class Page:
    """One connection with the browser's DevTools, in a few lines."""

    def __init__(self, address):
        where = urllib.parse.urlparse(address)
        self.link = socket.create_connection((where.hostname, where.port), 20)
        lines = [
            f"GET {where.path} HTTP/1.1",
            f"Host: {where.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
        ]
        lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
        self.link.sendall("\r\n".join(lines).encode())
        while not self.exactly(1) == b"\n" or not self.tail.endswith(b"\r\n\r\n"):
            pass

    tail = b""

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.link.recv(count - len(data))
            if not piece:
                raise Told("failed", "the browser has closed the connection")
            data += piece
        self.tail = (self.tail + data)[-4:]
        return data

    def send(self, method, params):
        data = json.dumps({"id": 1, "method": method, "params": params}).encode()
        size = len(data)
        head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + struct.pack(">H", size)
        self.link.sendall(head + b"\0\0\0\0" + data)
        while True:
            answer = json.loads(self.message())
            if answer.get("id") == 1:
                if "error" in answer:
                    raise Told("failed", answer["error"]["message"])
                return answer["result"]

    def message(self):
        data, final = b"", False
        while not final:
            first, second = self.exactly(2)
            final, size = bool(first & 0x80), second & 0x7F
            if size == 126:
                size = struct.unpack(">H", self.exactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.exactly(8))[0]
            data += self.exactly(size)
        return data


def browser(tool, given, config, request):
    base = os.environ.get("FLYFLOR_BROWSER_CDP_URL", "http://127.0.0.1:9222")

    def get(path, method="GET"):
        with urllib.request.urlopen(urllib.request.Request(base + path, method=method)) as reply:
            return json.load(reply)

    if tool == "browser.open":
        made = get("/json/new?" + urllib.parse.quote(text(given, "url"), safe=""), "PUT")
        return {"targetId": made["id"], "url": made["url"]}
    target = next(item for item in get("/json/list") if item["type"] == "page")
    page = Page(target["webSocketDebuggerUrl"])
    if tool == "browser.navigate":
        return {"result": page.send("Page.navigate", {"url": text(given, "url")})}
    if tool == "browser.snapshot":
        return {"snapshot": page.send("Accessibility.getFullAXTree", {})}
    if tool == "browser.screenshot":
        return {"data": page.send("Page.captureScreenshot", {"format": "png"})["data"], "format": "png"}
    if tool == "browser.evaluate":
        code = text(given, "script")
    else:
        act = "e.click()" if tool == "browser.click" else "e.value = " + json.dumps(given.get("text"))
        found = "const e = document.querySelector(" + json.dumps(text(given, "target")) + ");"
        lost = "if (!e) throw new Error('target not found');"
        code = f"(() => {{ {found} {lost} {act}; return {{ok: true}}; }})()"
    return {
        "result": page.send(
            "Runtime.evaluate", {"expression": code, "returnByValue": True, "awaitPromise": True}
        )
    }


FAMILIES = {
    "file": utility,
    "archive": utility,
    "data": utility,
    "task": utility,
    "lsp": utility,
    "vision": media,
    "audio": media,
    "web": web,
    "screen": native,
    "computer": native,
    "browser": browser,
}

request = json.loads(sys.stdin.read())
with open(os.path.join(request["projectDir"], "requests.jsonl"), "a") as log:
    log.write(json.dumps(request) + "\n")
try:
    given, config = request.get("input") or {}, request.get("config") or {}
    if given.get("probe") is True:
        answer = {"ok": True, "platform": "linux", "available": [], **PROBE}
    else:
        answer = {
            "ok": True,
            **FAMILIES[request["tool"].partition(".")[0]](request["tool"], given, config, request),
        }
except Told as told:
    answer = told.answer
except Exception as error:
    answer = {"ok": False, "code": "failed", "error": f"{type(error).__name__}: {error}"}
print(json.dumps(answer))
if not answer["ok"]:
    print(json.dumps(answer), file=sys.stderr)
    sys.exit(1)
'''
"""The program. `PROBE` stands for what its answer to a probe adds."""

DELEGATE = r"""#!/usr/bin/env python3
import json, os, shlex, sys
request = json.loads(sys.stdin.readline())
given = request["input"]
if request["tool"] == "task.background":
    with open(os.path.join(request["projectDir"], "task.txt"), "w") as file:
        file.write("\n".join(shlex.split(given["task"])))
    print(json.dumps({"ok": True, "id": "t1", "state": "running"}))
elif request["tool"] == "audio.speak":
    with open(os.path.join(request["projectDir"], "said.txt"), "w") as file:
        file.write(given["text"])
    print(json.dumps({"ok": True, "spoken": True}))
elif request["tool"].startswith("lsp."):
    print(json.dumps({"ok": True, "symbols": [{"name": "main", "path": given.get("path", "")}]}))
else:
    size = os.path.getsize(os.path.join(request["projectDir"], given.get("imagePath") or given["audioPath"]))
    print(json.dumps({"ok": True, "text": f"{size} bytes were read"}))
"""
"""A program that such a sidecar asks, as its `taskCommand`, `lspCommand` or one of `localCommands`."""


def program(probe: dict[str, Any] | None = None) -> str:
    """The program; `probe` is added to its answer to a probe."""
    return SIDECAR.replace("**PROBE", f"**{probe or {}!r}")
