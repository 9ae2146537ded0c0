"""Amounts of milliseconds, summed up in little space."""

from __future__ import annotations

from collections import Counter

_EXACT_BITS = 10
"""Amounts below 1,024 are kept as they are, larger ones to within 0.2 %."""
_MOST = 10**12


class DurationHistogram:
    """How many, their sum, and any percentile. Equal amounts in any order make equal Amounts."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._kept: Counter[int] = Counter()

    def add(self, amount: int) -> None:
        """One more. Negative ones count as 0; a line that was forged may hold anything."""
        amount = min(max(amount, 0), _MOST)
        self.count += 1
        self.total += amount
        coarse = max(amount.bit_length() - _EXACT_BITS, 0)
        self._kept[amount >> coarse << coarse] += 1

    @property
    def average(self) -> float:
        """Exact; 0 where there is none."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: int) -> int:
        """The smallest amount that so many percent do not exceed (nearest rank); 0 where there is none."""
        rank = -(-self.count * percent // 100)
        passed = 0
        for amount in sorted(self._kept):
            passed += self._kept[amount]
            if passed >= rank:
                return amount
        return 0
