"""Fixtures and settings for all tests: the event loop of async tests and the number of test processes."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The number of processes of `make test`: more than there are cores, because many tests wait."""
    return (os.cpu_count() or 1) * 3 // 2 or 1


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of every async test: asyncio, which the kernel uses."""
    return "asyncio"
