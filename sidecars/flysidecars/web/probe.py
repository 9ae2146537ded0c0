"""Whether a search can be made: said without any of the network's libraries."""

from __future__ import annotations

from collections.abc import Mapping

from flysidecars.sdk import JsonObject, ToolFailed, Unavailable, healthy, unavailable
from flysidecars.web.providers import SearchProvider, read_providers
from flysidecars.web.settings import read_settings

_WRITE = (
    'write one into the entry: "config": {"providers": [{"preset": "searxng", "url": "https://..."}]}; '
    'or "providers": ["brave"] with "permissions": {"network": true, "secrets": ["BRAVE_API_KEY"]}; '
    'or "providers": ["tavily"] with "secrets": ["TAVILY_API_KEY"]'
)


def probe_search(config: Mapping[str, object], environ: Mapping[str, str]) -> JsonObject:
    """How the tool is with that config: nothing is asked of a provider."""
    try:
        read_settings(config)
        providers = read_providers(config)
    except ToolFailed as failure:
        return unavailable(failure.message, "correct it in the entry")
    if any(not provider.missing(environ) for provider in providers):
        return healthy()
    lost = not_ready(providers, environ)
    return unavailable(lost.message, lost.remedy, str(lost.fields["reasonCode"]))


def not_ready(providers: list[SearchProvider], environ: Mapping[str, str]) -> Unavailable:
    """Why none of the providers can be asked, with the lines to write."""
    if not providers:
        return Unavailable("no search provider is configured", _WRITE, reasonCode="tool-unavailable")
    names = list(dict.fromkeys(name for provider in providers for name in provider.missing(environ)))
    listed = ", ".join(f'"{name}"' for name in names)
    return Unavailable(
        f"the search providers need {', '.join(names)}, which the entry is not given",
        f'declare it in the entry, "permissions": {{"network": true, "secrets": [{listed}]}}, and set it in '
        "the environment flytui is started from",
        reasonCode="secret-missing",
    )
