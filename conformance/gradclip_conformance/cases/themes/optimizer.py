"""Cases of the order in an optimizer: the clip comes before the update.

An optimizer subject starts with parameters of zero, makes one step of plain gradient descent, and replies with minus
the parameters. That is the learning rate times the clipped gradient. If a framework clips the update instead, a rate
other than 1 shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..build import DTYPES, OPERATIONS, case, clipping_options, tensor
from ..model import Case, expect

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            rule = f"{operation}.clip-before-update"
            tensors = [tensor([2.0, -4.0, 0.0, 4.0], dtype, (2, 2)), tensor([3.0, 4.0], dtype)]
            for name, rate in (("rate-one", 1.0), ("rate-quarter", 0.25)):
                options = {**clipping_options(operation, 2.0), "learning_rate": rate}
                yield case(rule, name, dtype, tensors, options, expect("values"), ["optimizer"])
