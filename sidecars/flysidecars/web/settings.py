"""The network settings in the entry's `config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flysafe.pinned_dns import AllowList, parse_allow_list
from flysidecars.sdk import ToolFailed

MAX_BYTES = 5 * 1024 * 1024
MAX_DOWNLOAD_BYTES = 200 * 1024 * 1024
TIMEOUT_MS = 25_000
"""Less than the 30 s after which the kernel ends a call by default, so that our own error is reported."""
DOWNLOAD_TIMEOUT_MS = 3_600_000
READ_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The addresses that are allowed besides public ones, and limits in bytes and milliseconds."""

    allowed: AllowList = field(default_factory=AllowList)
    max_bytes: int = MAX_BYTES
    max_download_bytes: int = MAX_DOWNLOAD_BYTES
    timeout_ms: int = TIMEOUT_MS
    download_timeout_ms: int = DOWNLOAD_TIMEOUT_MS
    read_timeout_ms: int = READ_TIMEOUT_MS
    cache_ttl_ms: int = 0


def read_settings(config: Mapping[str, object]) -> Settings:
    """The settings in a config. Raises `ToolFailed` (`invalid-config`), which names the key."""
    return Settings(
        allowed=_allow_list(config.get("allowPrivate", [])),
        max_bytes=_number(config, "maxBytes", MAX_BYTES, MAX_BYTES),
        max_download_bytes=_number(config, "maxDownloadBytes", MAX_DOWNLOAD_BYTES, MAX_DOWNLOAD_BYTES),
        timeout_ms=_number(config, "timeoutMs", TIMEOUT_MS, DOWNLOAD_TIMEOUT_MS),
        download_timeout_ms=_number(config, "downloadTimeoutMs", DOWNLOAD_TIMEOUT_MS, DOWNLOAD_TIMEOUT_MS),
        read_timeout_ms=_number(config, "readTimeoutMs", READ_TIMEOUT_MS, DOWNLOAD_TIMEOUT_MS),
        cache_ttl_ms=_number(config, "cacheTtlMs", 0, 86_400_000, 0),
    )


def config_error(key: str, why: str) -> ToolFailed:
    """The failure for a wrong value in `config`."""
    return ToolFailed("invalid-config", f"config.{key} of the entry: {why}", field=key)


def _number(config: Mapping[str, object], key: str, default: int, most: int, least: int = 1) -> int:
    value = config.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise config_error(key, f"a whole number from {least} to {most} is needed")
    return value


def _allow_list(value: object) -> AllowList:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise config_error("allowPrivate", "a list of hosts, addresses or networks is needed")
    allowed, unreadable = parse_allow_list(value)
    if unreadable:
        raise config_error("allowPrivate", "contains a text that is no host, address or network")
    return allowed
