"""Make NNabla's clips do nothing."""

from __future__ import annotations

from typing import Any

from nnabla import functions, solvers


class Solver:
    """A solver without a clip."""

    def __init__(self, lr: float) -> None:
        self._solver = ORIGINAL(lr=lr)
        self.set_parameters, self.update = self._solver.set_parameters, self._solver.update

    def clip_grad_by_norm(self, clip_norm: float) -> None:
        """Clip nothing."""


def leave(x: Any, *arguments: Any, **keywords: Any) -> Any:
    """Clip nothing."""
    return x


ORIGINAL = solvers.Sgd
solvers.Sgd = Solver
functions.clip_by_value = leave
functions.clip_by_norm = leave

from gradclip_adapters.frameworks.nnabla import NNablaAdapter  # noqa: E402 - it must find the functions replaced

adapter = NNablaAdapter()
