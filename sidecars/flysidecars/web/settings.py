"""What the entry's `config` says about the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

from flysafe.addresses import Address, is_public
from flysidecars.sdk import ToolFailed

MAX_BYTES = 5 * 1024 * 1024
MAX_DOWNLOAD_BYTES = 200 * 1024 * 1024
TIMEOUT_MS = 25_000
"""Less than the 30 s that the kernel gives a call by default, so that our own answer is heard."""
DOWNLOAD_TIMEOUT_MS = 3_600_000
READ_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Private:
    """What may be reached although it is not public: `config.allowPrivate`."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def permits(self, host: str, address: Address) -> bool:
        """Whether a connection to the address, which was found for the host, may be made."""
        if is_public(address) or host.removesuffix(".") in self.hosts:
            return True
        return any(address in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits in bytes and milliseconds."""

    private: Private = field(default_factory=Private)
    max_bytes: int = MAX_BYTES
    max_download_bytes: int = MAX_DOWNLOAD_BYTES
    timeout_ms: int = TIMEOUT_MS
    download_timeout_ms: int = DOWNLOAD_TIMEOUT_MS
    read_timeout_ms: int = READ_TIMEOUT_MS
    cache_ttl_ms: int = 0


def read_settings(config: Mapping[str, object]) -> Settings:
    """Raises `ToolFailed` (`invalid-config`) that names the key."""
    return Settings(
        private=_private(config.get("allowPrivate", [])),
        max_bytes=_number(config, "maxBytes", MAX_BYTES, MAX_BYTES),
        max_download_bytes=_number(config, "maxDownloadBytes", MAX_DOWNLOAD_BYTES, MAX_DOWNLOAD_BYTES),
        timeout_ms=_number(config, "timeoutMs", TIMEOUT_MS, DOWNLOAD_TIMEOUT_MS),
        download_timeout_ms=_number(config, "downloadTimeoutMs", DOWNLOAD_TIMEOUT_MS, DOWNLOAD_TIMEOUT_MS),
        read_timeout_ms=_number(config, "readTimeoutMs", READ_TIMEOUT_MS, DOWNLOAD_TIMEOUT_MS),
        cache_ttl_ms=_number(config, "cacheTtlMs", 0, 86_400_000, 0),
    )


def faulty(key: str, why: str) -> ToolFailed:
    """The failure that a mistake in `config` is answered with."""
    return ToolFailed("invalid-config", f"config.{key} of the entry: {why}", field=key)


def _number(config: Mapping[str, object], key: str, default: int, most: int, least: int = 1) -> int:
    value = config.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise faulty(key, f"a whole number from {least} to {most} is needed")
    return value


def _private(value: object) -> Private:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise faulty("allowPrivate", "a list of hosts, addresses or networks is needed")
    hosts, networks = set[str](), list[IPv4Network | IPv6Network]()
    for item in value:
        try:
            networks.append(ip_network(item))
        except ValueError as broken:
            if "/" in item or ":" in item or not item.strip():
                raise faulty("allowPrivate", "holds what is no host, address or network") from broken
            hosts.add(item.lower().removesuffix("."))
    return Private(frozenset(hosts), tuple(networks))
