"""A real authorization server and a real MCP server that asks for its tokens, both on loopback, in a process
of their own. `OAuthServers` steers them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2

BROWSER_PROGRAM = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(sys.argv[1]).read()
"""
"""A browser: opens an address and follows it to its end."""
PROGRAM = r"""
import base64, hashlib, json, secrets, socket, sys, threading, time
from urllib.parse import urlencode

import uvicorn
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
issuer, resource = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets)
clients, codes, access, refreshes, log = {}, {}, {}, {}, []
how = {"lifetime": 3600, "audience": "", "pkce": ["S256"], "refuse": "", "issuer": issuer, "token_status": 0,
       "resource": f"{resource}/mcp", "as": issuer}


def issue(client, audience):
    token, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    access[token] = {"audience": how["audience"] or audience, "until": time.time() + how["lifetime"]}
    refreshes[refresh] = (client, audience)
    return {"access_token": token, "token_type": "Bearer", "expires_in": how["lifetime"],
            "refresh_token": refresh, "scope": "notes"}


async def metadata(request):
    return JSONResponse({
        "issuer": how["issuer"], "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token", "registration_endpoint": f"{issuer}/register",
        "response_types_supported": ["code"], "code_challenge_methods_supported": how["pkce"],
        "authorization_response_iss_parameter_supported": True})


async def register(request):
    body = await request.json()
    client = secrets.token_urlsafe(8)
    clients[client] = body["redirect_uris"]
    log.append(["register", body])
    return JSONResponse({**body, "client_id": client}, 201)


async def authorize(request):
    asked = dict(request.query_params)
    log.append(["authorize", asked])
    assert asked["redirect_uri"] in clients[asked["client_id"]]
    if how["refuse"]:
        back = {"error": how["refuse"], "state": asked["state"], "iss": issuer}
    else:
        code = secrets.token_urlsafe(16)
        codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": issuer}
    return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)


async def token(request):
    form = dict(await request.form())
    log.append(["token", {**form}])
    if how["token_status"]:
        return JSONResponse({"error": "server_error"}, how["token_status"])
    if form["grant_type"] == "refresh_token":
        found = refreshes.pop(form["refresh_token"], None)
        if found is None or found[0] != form["client_id"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse(issue(*found))
    asked = codes.pop(form["code"], None)
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
        return JSONResponse({"error": "invalid_grant", "error_description": "the code was used already"}, 400)
    return JSONResponse(issue(form["client_id"], form.get("resource", "")))


async def admin(request):
    body = await request.json()
    how.update(body.get("how", {}))
    if body.get("revoke"):
        access.clear()
        refreshes.clear()
    if body.get("expire"):
        access.clear()
    return JSONResponse({"log": log, "access": list(access), "refreshes": list(refreshes)})


server = MCPServer("notes", version="1")


@server.tool()
def look() -> str:
    "Looks."
    return "looked"


@server.tool()
def tell(secret: str = "") -> str:
    "Tells every token that is in use."
    return " ".join(access)


inner = server.streamable_http_app()


async def guarded(scope, receive, send):
    if scope["type"] != "http":
        return await inner(scope, receive, send)
    if scope["path"].startswith("/.well-known/oauth-protected-resource"):
        answer = JSONResponse({"resource": how["resource"], "authorization_servers": [how["as"]],
                               "scopes_supported": ["notes"]})
        return await answer(scope, receive, send)
    sent = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
    known = access.get(sent)
    if known and known["until"] > time.time() and known["audience"] == f"{resource}/mcp":
        return await inner(scope, receive, send)
    log.append(["refused", sent])
    where = f'Bearer resource_metadata="{resource}/.well-known/oauth-protected-resource/mcp"'
    await JSONResponse({"error": "invalid_token"}, 401, {"WWW-Authenticate": where})(scope, receive, send)


authorization = Starlette(routes=[
    Route("/.well-known/oauth-authorization-server", metadata),
    Route("/register", register, methods=["POST"]), Route("/authorize", authorize),
    Route("/token", token, methods=["POST"]),
    Route("/admin", admin, methods=["POST"])])
print(json.dumps([issuer, resource]), flush=True)
config = uvicorn.Config(authorization, log_level="error")
threading.Thread(target=uvicorn.Server(config).run, kwargs={"sockets": [sockets[0]]}, daemon=True).start()
uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[sockets[1]])
"""


@dataclass(frozen=True)
class OAuthServers:
    """The addresses of both servers."""

    issuer: str
    resource: str

    @property
    def url(self) -> str:
        """The address of the MCP server."""
        return f"{self.resource}/mcp"

    async def steer(self, **body: Any) -> dict[str, Any]:
        """Change how the servers behave, and return the log and the tokens that are in use."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{self.issuer}/admin", json=body)
        found: dict[str, Any] = answer.json()
        return found


@asynccontextmanager
async def oauth_servers() -> AsyncIterator[OAuthServers]:
    """Both servers, while the block runs."""
    async with await anyio.open_process([sys.executable, "-c", PROGRAM], stderr=None) as process:
        try:
            assert process.stdout is not None
            yield OAuthServers(*json.loads(await process.stdout.receive()))
        finally:
            process.kill()


async def browse(address: str) -> httpx2.Response:
    """Do what the person's browser does: open the page, agree, and follow it back to flytui."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        page = await client.get(address)
        assert page.status_code == 302, page.text
        return await client.get(page.headers["location"])


async def authorized_redirect(address: str) -> str:
    """The address at which a browser that agreed would be sent back, without going there."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        return str((await client.get(address)).headers["location"])


def callback_of(location: str) -> str:
    """The address of flytui's listener, without what is sent to it."""
    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
