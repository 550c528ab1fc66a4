"""Adapt Opacus: the steps that clip the gradient of each example, or each layer of it, without noise."""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable, Mapping

import torch
from torch.nn import Parameter

with warnings.catch_warnings():
    # Opacus imports parts of torch that are deprecated.
    warnings.simplefilter("ignore")
    import opacus
    from opacus.optimizers import DPOptimizer, DPPerLayerOptimizer

from ...arrays import build_tensors
from ...contract import Array, Call, EntryPoint, Gradient, Reply, Unsupported, framework_call
from .parameters import DTYPES, ParametersAdapter, make_tensor, read_arrays, select_more


class OpacusAdapter(ParametersAdapter):
    """Adapter for the clips of Opacus, which add the clipped gradients of the examples.

    Opacus keeps the gradients of the examples in the attribute `grad_sample` of a parameter.
    """

    def __init__(self) -> None:
        super().__init__("Opacus", opacus.__version__, ENTRY_POINTS)

    def answer(self, entry: EntryPoint, call: Call) -> Reply:
        """Clip the gradients of the examples of new parameters, and return their sums."""
        given = [one for one in build_tensors(call.gradients, _make_examples) if one is not None]
        if len(given) < len(call.gradients):
            message = "every parameter has gradients of the examples"
            raise Unsupported(message, "interface")
        with framework_call(lambda: read_arrays(given)) as seen:
            parameters = [Parameter(one.new_zeros(one.shape[1:])) for one in given]
            for parameter, examples in zip(parameters, given):
                parameter.grad_sample = examples
            entry.clip(lambda: parameters, call.options)
        sums = read_arrays([parameter.grad for parameter in parameters])
        return Reply(sums, inputs=read_arrays(given), warnings=seen.warnings)


def _make_examples(gradient: Gradient) -> Any:
    array: Array = gradient.array  # type: ignore[assignment] # a gradient of None makes no tensor
    return make_tensor(array, gradient.layout)


def _clip(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    optimizer = torch.optim.SGD(passed(), lr=1.0)
    DPOptimizer(optimizer, max_grad_norm=options["clip_norm"], **_make_others(options)).pre_step()


def _clip_layers(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    """Clip each layer of each example. Its user chooses the thresholds of the layers, as the option `layers` says."""
    parameters = passed()
    if "layers" not in options and len(parameters) > 1:
        message = "each layer has a norm of its own"
        raise Unsupported(message, "interface")
    sizes = [one.numel() if options.get("layers") == "by size" else 1 for one in parameters]
    # With one layer, this is a clip of the whole example. A layer without elements needs no share.
    shares = [math.sqrt(size / sum(sizes)) if size and len(sizes) > 1 else 1.0 for size in sizes]
    thresholds = [options["clip_norm"] * share for share in shares]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    DPPerLayerOptimizer(optimizer, max_grad_norm=thresholds, **_make_others(options)).pre_step()


def _make_others(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments beside the threshold, for sums without noise."""
    more = {name: value for name, value in select_more(options).items() if name != "layers"}
    return {"noise_multiplier": 0.0, "expected_batch_size": None, "loss_reduction": "sum", **more}


FEATURES = ("functional", "mixed_dtypes", "threads")
ENTRY_POINTS = [
    EntryPoint("opacus.optimizers.DPOptimizer", "clip_per_example", DTYPES, FEATURES, clip=_clip),
    EntryPoint(
        "opacus.optimizers.DPPerLayerOptimizer", "clip_per_example", DTYPES, (*FEATURES, "layers"), clip=_clip_layers
    ),
]
