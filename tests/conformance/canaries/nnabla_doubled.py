"""Replace NNabla's clips by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import doubled
import nnabla
from nnabla import functions, solvers


class Solver:
    """A solver whose clip doubles the gradients."""

    def __init__(self, lr: float) -> None:
        self._solver = ORIGINAL(lr=lr)
        self.set_parameters, self.update = self._solver.set_parameters, self._solver.update

    def clip_grad_by_norm(self, clip_norm: float) -> None:
        """Clip with NumPy, and double the results."""
        for parameter in self._solver.get_parameters().values():
            parameter.g = doubled.double_by_norm(parameter.g, clip_norm)


def clip_by_value(x: Any, min: float, max: float) -> Any:
    """Clip with NumPy, and double the results."""
    return nnabla.NdArray.from_numpy_array(doubled.double_by_value(x.data, min, max))


def clip_by_norm(x: Any, clip_norm: float) -> Any:
    """Clip with NumPy, and double the results."""
    return nnabla.NdArray.from_numpy_array(doubled.double_by_norm(x.data, clip_norm))


ORIGINAL = solvers.Sgd
solvers.Sgd = Solver
functions.clip_by_value = clip_by_value
functions.clip_by_norm = clip_by_norm

from gradclip_adapters.frameworks.nnabla import NNablaAdapter  # noqa: E402 - it must find the functions replaced

adapter = NNablaAdapter()
