"""Shared fixtures: the event loop anyio tests run on."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Every async test runs on asyncio, the loop the kernel uses."""
    return "asyncio"
