"""Shared fixtures: the event loop anyio tests run on."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The processes of `make test`: more than there are cores, for many tests wait for other programs."""
    return (os.cpu_count() or 1) * 3 // 2 or 1


@pytest.fixture
def anyio_backend() -> str:
    """Every async test runs on asyncio, the loop the kernel uses."""
    return "asyncio"
