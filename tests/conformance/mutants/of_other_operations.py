"""Add mutants of clips by averages, per example and unitwise. The other files hold defects of all operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByUnit, Gradients
from .table import add_mutant

# Averages.

add_mutant(
    "compares the Euclidean norm itself with the threshold",
    "*.each-tensor-alone",
    causes=["other-average"],
    average=lambda self, norm, elements: norm,
)
add_mutant(
    "counts the elements of a gradient in 16 bits",
    "*.combinations",
    average=lambda self, norm, elements: self.right.average(norm, elements % 65536),
)

# Examples.


def _measure_all_examples(self: Any, grads: Gradients) -> Any:
    self.whole = self.compute_norm(grads, 2.0)
    return self.right.split(grads)


add_mutant(
    "scales all examples by one coefficient, that of the norm over all of them",
    "*.each-example-alone",
    causes=["examples-summed-first", "unexplained"],
    split=_measure_all_examples,
    compute_norms=lambda self, grads, counted, p: [self.whole] * len(grads),
)
add_mutant(
    "returns the clipped gradients of all examples, and not their sum",
    "*.sum-of-examples",
    causes=["malformed"],
    add=lambda self, parts: np.stack(parts),
)
add_mutant(
    "leaves the first of several examples out of the sum",
    "*.each-example-alone",
    causes=["examples-left-out"],
    add=lambda self, parts: self.right.add(parts[1:] or parts),
)
add_mutant(
    "adds equal examples once",
    "*.sum-of-examples",
    causes=["examples-merged"],
    add=lambda self, parts: self.right.add([*{part.tobytes(): part for part in parts}.values()]),
)
add_mutant(
    "shares the threshold by size if the shares must be equal, and equally if they must be by size",
    "*.layers-equal",
    "*.layers-by-size",
    list_shares=lambda self, grads, layers: self.right.list_shares(grads, "by size" if layers == "equal" else "equal"),
)
add_mutant(
    "leaves all examples after the sixteenth out of the sum",
    "*.combinations",
    causes=["gradients-zeroed", "unexplained"],
    add=lambda self, parts: self.right.add(parts[:16]),
)

# Units.

add_mutant(
    "adds `eps` to the norm of the parameter",
    "*.least-parameter-norm",
    measure=lambda self, weight: self.compute_norm([weight], 2.0) + self.least,
)
add_mutant(
    "compares the norm of a unit with the clip factor alone",
    "unitwise.scaled-above",
    causes=["parameter-left-out"],
    measure=lambda self, weight: 1.0,
)


@np.errstate(all="ignore")
def _square_weights_in_the_dtype(self: ByUnit, weight: Array) -> float:
    return max(float(np.sqrt(np.sum(weight * weight))), self.least)


add_mutant(
    "squares the elements of the parameter in their dtype",
    "unitwise.overflow-of-squares",
    "unitwise.underflow-of-squares",
    causes=["squares-underflow", "squares-overflow"],
    measure=_square_weights_in_the_dtype,
)
add_mutant(
    "takes a matrix with one input for a vector, which is one unit",
    "*.each-unit-alone",
    causes=["other-units"],
    split=lambda self, grad: [grad] if grad is not None and np.squeeze(grad).ndim < 2 else self.right.split(grad),
    join_units=lambda self, grad, units: units[0] if len(units) == 1 else self.right.join_units(grad, units),
)


def _split_rows(self: ByUnit, grad: Array | None) -> Any:
    is_row = grad is not None and grad.ndim == 2 and len(grad) == 1
    return list(np.transpose(grad)) if is_row else self.right.split(grad)


def _join_rows(self: ByUnit, grad: Array | None, units: Sequence[Array]) -> Any:
    is_row = grad is not None and grad.ndim == 2 and len(grad) == 1
    return np.stack(units, axis=1) if is_row else self.right.join_units(grad, units)


add_mutant(
    "clips each element of a matrix with one output by itself",
    "*.each-unit-alone",
    causes=["other-units"],
    split=_split_rows,
    join_units=_join_rows,
)


def _split_vectors(self: ByUnit, grad: Array | None) -> Any:
    return np.split(grad, grad.size) if grad is not None and grad.ndim == 1 else self.right.split(grad)


def _join_vectors(self: ByUnit, grad: Array | None, units: Sequence[Array]) -> Any:
    is_vector = grad is not None and grad.ndim == 1
    return np.concatenate(units) if is_vector else self.right.join_units(grad, units)


add_mutant(
    "clips each element of a vector by itself",
    "*.vector-is-one-unit",
    causes=["other-units"],
    split=_split_vectors,
    join_units=_join_vectors,
)
add_mutant(
    "leaves the units after the eighth of a gradient as they are",
    "*.combinations",
    causes=["not-clipped", "unexplained"],
    join_units=lambda self, grad, units: self.right.join_units(
        grad, [*units[:8], *grad[8:]] if len(units) > 8 else units
    ),
)
