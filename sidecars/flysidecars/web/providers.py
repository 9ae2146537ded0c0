"""Search providers: reads them from the entry's config, builds their requests and parses their answers.

The presets follow the providers' API references: SearXNG "Search API" (format=json), Brave "Web Search"
(X-Subscription-Token), Tavily "POST /search" (bearer token).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from flysidecars.sdk import JsonObject, ToolFailed
from flysidecars.web.http_request import Headers, HttpRequest, read_headers
from flysidecars.web.settings import config_error
from flysidecars.web.urls import parse_url

MAX_PROVIDERS = 8
PRESETS: dict[str, JsonObject] = {
    "searxng": {
        "resultPath": "results",
        "fields": {"title": "title", "url": "url", "snippet": "content"},
    },
    "brave": {
        "url": "https://api.search.brave.com/res/v1/web/search?q={query}&count={count}",
        "headers": {"X-Subscription-Token": "${BRAVE_API_KEY}", "Accept": "application/json"},
        "resultPath": "web.results",
        "fields": {"title": "title", "url": "url", "snippet": "description"},
        "most": 20,
    },
    "tavily": {
        "url": "https://api.tavily.com/search",
        "headers": {"Authorization": "Bearer ${TAVILY_API_KEY}"},
        "body": {"query": "{query}", "max_results": "{count}"},
        "resultPath": "results",
        "fields": {"title": "title", "url": "url", "snippet": "content"},
        "most": 20,
    },
}
SEARXNG_PATH = "/search?q={query}&format=json"
_KEYS = frozenset(("preset", "name", "url", "headers", "body", "resultPath", "fields", "most"))
_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,99})\}")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_MAX_TEXT = 2000
"""Characters of a title or snippet."""


@dataclass(frozen=True, slots=True)
class SearchProvider:
    """A search provider. `url` and the strings in `body` contain `{query}` and `{count}`; the values of
    `headers` contain the names of secrets as `${NAME}`."""

    name: str
    url: str
    headers: Mapping[str, str]
    body: object
    result_path: tuple[str, ...]
    fields: Mapping[str, str]
    max_results: int

    def missing_secrets(self, environ: Mapping[str, str]) -> list[str]:
        """The names of the secrets that the provider needs and that are not set."""
        names = (name for value in self.headers.values() for name in _SECRET.findall(value))
        return [name for name in dict.fromkeys(names) if not environ.get(name)]

    def request(self, query: str, count: int, environ: Mapping[str, str]) -> HttpRequest:
        """The request for a search. Raises `ToolFailed`, whose text never contains a secret's value."""
        count = min(count, self.max_results)
        body = None
        if self.body is not None:
            body = json.dumps(_fill_body(self.body, query, count)).encode()
        target = parse_url(_fill_url(self.url, query, count))
        return HttpRequest(target, "GET" if body is None else "POST", self._headers(environ, body), body)

    def _headers(self, environ: Mapping[str, str], body: bytes | None) -> Headers:
        given = {} if body is None else {"Content-Type": "application/json"}
        for name, value in self.headers.items():
            given[name] = _SECRET.sub(lambda found: environ.get(found[1], ""), value)
        try:
            return read_headers({"Accept": "application/json", **given} if not _has_accept(given) else given)
        except ToolFailed as failure:
            # `from None`: the chained error's traceback could show the header with its secret.
            raise config_error("providers", f"{self.name}: {failure.message}") from None

    def results(self, text: str, count: int) -> list[JsonObject]:
        """The results as `{title, url, snippet}`. Raises `ValueError` if the answer does not have the form
        that `result_path` and `fields` describe."""
        found: object = json.loads(text)
        # An answer that is the list itself has no path to it, whatever path the provider has by default.
        for key in () if isinstance(found, list) else self.result_path:
            found = found.get(key) if isinstance(found, dict) else None
        rows = (self._row(item) for item in _result_list(found))
        return [row for row in rows if row is not None][:count]

    def _row(self, item: object) -> JsonObject | None:
        if not isinstance(item, dict):
            return None
        url = item.get(self.fields["url"])
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            return None
        title, snippet = (_plain_text(item.get(self.fields.get(key, key))) for key in ("title", "snippet"))
        return {"title": title or url[:_MAX_TEXT], "url": url, "snippet": snippet}


def read_providers(config: Mapping[str, object]) -> list[SearchProvider]:
    """The configured providers in their order. Raises `ToolFailed` (`invalid-config`)."""
    listed = config.get("providers", [])
    if not isinstance(listed, list) or len(listed) > MAX_PROVIDERS:
        raise config_error("providers", f"a list of at most {MAX_PROVIDERS} is needed")
    return [_provider(item, f"providers[{number}]") for number, item in enumerate(listed)]


def _provider(item: object, place: str) -> SearchProvider:
    own = {"preset": item} if isinstance(item, str) else item
    if not isinstance(own, dict) or not _KEYS.issuperset(own):
        raise config_error(place, f"a preset's name or an object of {', '.join(sorted(_KEYS))} is needed")
    preset = own.get("preset")
    if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
        raise config_error(place, f"the presets are {', '.join(PRESETS)}")
    whole = {**(PRESETS[preset] if preset else {}), **own}
    url = _text(whole, "url", place)
    if preset == "searxng" and "{query}" not in url:
        url = url.rstrip("/").removesuffix("/search") + SEARXNG_PATH
    if "{query}" not in url and whole.get("body") is None:
        raise config_error(place, "url or body needs {query}")
    fields = {"url": "url", "title": "title", "snippet": "snippet", **_texts(whole, "fields", place)}
    most = whole.get("most", 50)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= 50:
        raise config_error(place, "most is a number from 1 to 50")
    path = whole.get("resultPath", "results")
    if not isinstance(path, str):
        raise config_error(place, "resultPath is a text such as web.results")
    host = parse_url(_fill_url(url, "q", 1)).host
    name = whole.get("name", preset or host)
    if not isinstance(name, str) or not 0 < len(name) <= 64:
        raise config_error(place, "name is a short text")
    keys = tuple(key for key in path.split(".") if key)
    return SearchProvider(name, url, _texts(whole, "headers", place), whole.get("body"), keys, fields, most)


def _result_list(found: object) -> list[object]:
    if isinstance(found, list):
        return found
    raise ValueError("no list of results")


def _text(whole: JsonObject, key: str, place: str) -> str:
    value = whole.get(key)
    if not isinstance(value, str):
        raise config_error(place, f"{key} is needed")
    return value


def _texts(whole: JsonObject, key: str, place: str) -> dict[str, str]:
    value = whole.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
        raise config_error(place, f"{key} is an object of texts")
    return value


def _fill_url(url: str, query: str, count: int) -> str:
    return url.replace("{query}", quote(query, safe="")).replace("{count}", str(count))


def _has_accept(headers: Mapping[str, str]) -> bool:
    return any(name.lower() == "accept" for name in headers)


def _fill_body(value: object, query: str, count: int) -> object:
    if isinstance(value, dict):
        return {key: _fill_body(item, query, count) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_body(item, query, count) for item in value]
    if value == "{count}":
        return count
    return value.replace("{query}", query) if isinstance(value, str) else value


def _plain_text(value: object) -> str:
    """A title or snippet without markup, as one line."""
    if not isinstance(value, str):
        return ""
    return " ".join(html.unescape(_TAG.sub("", value[: 4 * _MAX_TEXT])).split())[:_MAX_TEXT]
