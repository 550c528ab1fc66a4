"""Adapt Opacus: the step of `DPOptimizer` that clips the gradient of each example, without noise."""

from __future__ import annotations

import warnings
from typing import Any, Callable, List, Mapping

import torch
from torch.nn import Parameter

with warnings.catch_warnings():
    # Opacus imports parts of torch that are deprecated.
    warnings.simplefilter("ignore")
    import opacus
    from opacus.optimizers import DPOptimizer

from ...arrays import build_tensors
from ...contract import Array, Call, Gradient, Reply, Subject, Unsupported, framework_call
from .parameters import DTYPES, EntryPoint, ParametersAdapter, make_tensor, read_arrays, select_more

__all__ = ["OpacusAdapter"]


class OpacusAdapter(ParametersAdapter):
    """Adapter for the clip of Opacus, which adds the clipped gradients of the examples.

    Opacus keeps the gradients of the examples in the attribute `grad_sample` of a parameter.
    """

    def __init__(self) -> None:
        """List the entry point."""
        super().__init__("Opacus", opacus.__version__, ENTRY_POINTS)

    def answer(self, entry: EntryPoint, call: Call) -> Reply:
        """Clip the gradients of the examples of new parameters, and return their sums."""
        given = [one for one in build_tensors(call.gradients, _make_examples) if one is not None]
        if len(given) < len(call.gradients):
            message = "every parameter has gradients of the examples"
            raise Unsupported(message, "interface")
        with framework_call(lambda: read_arrays(given)) as seen:
            parameters = [Parameter(torch.zeros_like(one[0])) for one in given]
            for parameter, examples in zip(parameters, given):
                parameter.grad_sample = examples
            entry.clip(lambda: parameters, call.options)
        sums = read_arrays([parameter.grad for parameter in parameters])
        return Reply(sums, inputs=read_arrays(given), warnings=seen.warnings)


def _make_examples(gradient: Gradient) -> Any:
    array: Array = gradient.array  # type: ignore[assignment] # a gradient of None makes no tensor
    return make_tensor(array, gradient.layout)


def _clip(passed: Callable[[], List[Parameter]], options: Mapping[str, Any]) -> None:
    optimizer = DPOptimizer(
        torch.optim.SGD(passed(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=options["clip_norm"],
        expected_batch_size=None,
        loss_reduction="sum",
        **select_more(options),
    )
    optimizer.pre_step()


ENTRY_POINTS = [
    EntryPoint(
        Subject(
            "opacus.optimizers.DPOptimizer",
            "clip_per_example",
            DTYPES,
            ("functional", "mixed_dtypes", "threads"),
        ),
        _clip,
    )
]
