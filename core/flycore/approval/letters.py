"""What confirms a risky approval: drawn for each request, so that no key sequence is known before."""

from __future__ import annotations

import secrets

from flycore.model.approval import LETTERS
from flycore.model.enums import Risk

CODE_LENGTH = 4


def new_confirmation_code(risk: Risk) -> str:
    """One letter for high risk, four for critical, none below."""
    count = {Risk.HIGH: 1, Risk.CRITICAL: CODE_LENGTH}.get(risk, 0)
    return "".join(secrets.choice(LETTERS) for _ in range(count))
