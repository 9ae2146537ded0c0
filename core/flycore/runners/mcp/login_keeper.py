"""The interface to what keeps a person's login at one server."""

from __future__ import annotations

from typing import Protocol

from flycore.model.login import Login


class LoginKeeper(Protocol):
    """Keeps the login of one entry at its address. All functions but `stamp` block. They raise OSError."""

    def load(self) -> Login | None:
        """Return the login with its tokens; None where there is none."""
        ...

    def keep(self, login: Login) -> None:
        """Keep the login in place of an earlier one."""
        ...

    def end(self, login: Login, why: str) -> None:
        """Forget the tokens of that login, which the server no longer takes."""
        ...

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the login may have changed."""
        ...
