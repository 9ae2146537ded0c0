"""The failure of a login."""

from __future__ import annotations


class LoginFailed(Exception):
    """A person could not be logged in; the message says why, without a token or a code."""
