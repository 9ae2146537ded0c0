"""The state of `web.search` for a probe. Imports no network library."""

from __future__ import annotations

from collections.abc import Mapping

from flysidecars.sdk import JsonObject, ToolFailed, Unavailable, healthy, unavailable
from flysidecars.web.providers import SearchProvider, read_providers
from flysidecars.web.settings import read_settings

_PROVIDER_REMEDY = (
    'write one into the entry: "config": {"providers": [{"preset": "searxng", "url": "https://..."}]}; '
    'or "providers": ["brave"] with "permissions": {"network": true, "secrets": ["BRAVE_API_KEY"]}; '
    'or "providers": ["tavily"] with "secrets": ["TAVILY_API_KEY"]'
)


def probe_search(config: Mapping[str, object], environ: Mapping[str, str]) -> JsonObject:
    """The state of the tool with this config. No request is sent to a provider."""
    try:
        read_settings(config)
        providers = read_providers(config)
    except ToolFailed as failure:
        return unavailable(failure.message, "correct it in the entry")
    if any(not provider.missing_secrets(environ) for provider in providers):
        return healthy()
    missing = no_provider_ready(providers, environ)
    return unavailable(missing.message, missing.remedy, str(missing.fields["reasonCode"]))


def no_provider_ready(providers: list[SearchProvider], environ: Mapping[str, str]) -> Unavailable:
    """The failure that says why no provider can be used, with the lines to write into the entry."""
    if not providers:
        return Unavailable(
            "no search provider is configured", _PROVIDER_REMEDY, reasonCode="tool-unavailable"
        )
    names = list(dict.fromkeys(name for provider in providers for name in provider.missing_secrets(environ)))
    listed = ", ".join(f'"{name}"' for name in names)
    return Unavailable(
        f"the search providers need {', '.join(names)}, which the entry does not get",
        f'declare it in the entry, "permissions": {{"network": true, "secrets": [{listed}]}}, and set it in '
        "the environment flytui is started from",
        reasonCode="secret-missing",
    )
