r"""Hold the integers of a long array, and add their squares exactly.

A number of a format of `p` bits is `m 2**e`, with an integer `|m| < 2**p` and `p <= 53`. With
:math:`m = 2^{27} a + b`, its square is :math:`2^{54} a^2 + 2^{28} a b + b^2`, in which each of :math:`a^2, a b, b^2` is
below :math:`2^{54}`. Each of these products is split into its upper and lower 27 bits. The halves are added apart for
each exponent. Of :math:`2^{16}` elements, such a sum stays below :math:`2^{43}`, which float64 holds exactly. The sums
are then added as 64-bit integers, which can overflow only from :math:`2^{36}` elements on.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: The number of elements that are taken at once. They fit in the processor's cache.
BLOCK = 1 << 16

#: The bits of the lower half of a significand, or of a product.
HALF = np.int64(27)


@dataclass(frozen=True, eq=False)
class LongIntegers:
    """The integers `significands[i] * 2**shifts[i]`, as a sequence. A list takes four times as much memory."""

    #: Each is below `2**53`.
    significands: npt.NDArray[np.int64]
    #: None is negative.
    shifts: npt.NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.significands)

    def __getitem__(self, place: int) -> int:
        return int(self.significands[place]) << int(self.shifts[place])

    def take_places(self, places: Sequence[int]) -> LongIntegers:
        """Return the integers at some places."""
        chosen = np.asarray(places, np.intp)
        return LongIntegers(self.significands[chosen], self.shifts[chosen])

    def __iter__(self) -> Iterator[int]:
        for significands, shifts in self._cut():
            yield from map(operator.lshift, significands.tolist(), shifts.tolist())

    def _cut(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int16]]]:
        for start in range(0, len(self), BLOCK):
            part = slice(start, start + BLOCK)
            yield self.significands[part], self.shifts[part]

    def count(self, value: int) -> int:
        """Return the number of integers that are zero. No other value is counted."""
        assert value == 0
        return len(self) - int(np.count_nonzero(self.significands))

    def convert_to_doubles(self, exponent: int) -> npt.NDArray[np.float64]:
        """Return the integers times a power of two, if float64 holds the products."""
        doubles: npt.NDArray[np.float64] = np.ldexp(self.significands.astype(np.float64), self.shifts + exponent)
        return doubles

    def count_common_zeros(self) -> int:
        """Return the number of zero bits at the end of all integers. One of them is not zero."""
        bits = self.significands & -self.significands
        zeros = np.frexp(bits.astype(np.float64))[1] - 1 + self.shifts
        return int(zeros.min(where=bits != 0, initial=np.iinfo(zeros.dtype).max))

    def add_squares(self) -> int:
        """Return the sum of the squares."""
        count = int(self.shifts.max(initial=0)) + 1
        sums = np.zeros((3, 2, count), np.int64)
        for significands, shifts in self._cut():
            magnitudes, places = np.abs(significands), shifts.astype(np.intp)
            upper, lower = magnitudes >> HALF, magnitudes & ((1 << HALF) - 1)
            # In narrower formats than float64, all lower halves are zero.
            rows = (upper * upper, upper * lower, lower * lower) if lower.any() else (upper * upper,)
            for row, products in enumerate(rows):
                for column, halves in enumerate((products & ((1 << HALF) - 1), products >> HALF)):
                    sums[row, column] += np.bincount(places, halves, count).astype(np.int64)
        total = 0
        for shift in np.flatnonzero(sums.any(axis=(0, 1))).tolist():
            highest, middle, lowest = (lower + (upper << 27) for lower, upper in sums[:, :, shift].tolist())
            total += ((highest << 54) + (middle << 28) + lowest) << 2 * shift
        return total
