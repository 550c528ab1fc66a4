"""Make the gradients of the benchmarks, with the shapes of GPT-2, of ResNet-50 and of simpler lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Shapes = list[tuple[int, ...]]


def _list_gpt2_shapes() -> Shapes:
    """Return the shapes of the 124M parameters of GPT-2 (Radford et al. 2019; 12 layers of width 768)."""
    width, layers = 768, 12
    block: Shapes = [
        *[(width,)] * 2,
        (width, 3 * width),
        (3 * width,),
        (width, width),
        (width,),
        *[(width,)] * 2,
        (width, 4 * width),
        (4 * width,),
        (4 * width, width),
        (width,),
    ]
    return [(50257, width), (1024, width), *block * layers, *[(width,)] * 2]


def _list_resnet50_shapes() -> Shapes:
    """Return the shapes of the parameters of ResNet-50 (He et al. 2015). Each convolution has a scale and a shift."""

    def list_convolution_shapes(out: int, inputs: int, size: int) -> Shapes:
        return [(out, inputs, size, size), (out,), (out,)]

    shapes, inputs = list_convolution_shapes(64, 3, 7), 64
    for middle, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shapes += list_convolution_shapes(middle, inputs, 1) + list_convolution_shapes(middle, middle, 3)
            shapes += list_convolution_shapes(4 * middle, middle, 1)
            if block == 0:
                shapes += list_convolution_shapes(4 * middle, inputs, 1)
            inputs = 4 * middle
    return [*shapes, (1000, 2048), (1000,)]


WORKLOADS: dict[str, Callable[[], Shapes]] = {
    "1 x 10": lambda: [(10,)],
    "1 x 1,000": lambda: [(1_000,)],
    "1 x 10,000": lambda: [(10_000,)],
    "1 x 100,000": lambda: [(100_000,)],
    "1 x 1,000,000": lambda: [(1_000_000,)],
    "1 x 25,000,000": lambda: [(25_000_000,)],
    "10 x 1,000": lambda: [(1_000,)] * 10,
    "10 x 10,000": lambda: [(10_000,)] * 10,
    "100 x 250,000": lambda: [(250_000,)] * 100,
    "148 x 10": lambda: [(10,)] * 148,
    "GPT-2 124M": _list_gpt2_shapes,
    "ResNet-50": _list_resnet50_shapes,
    "1,000 x 1,000": lambda: [(1_000,)] * 1_000,
    "1,000 x 10,000": lambda: [(10_000,)] * 1_000,
    "10,000 x 100": lambda: [(100,)] * 10_000,
}

#: Workloads with so many tensors that XLA and TensorFlow need minutes to compile a function of them.
TOO_MANY = ("1,000 x 1,000", "1,000 x 10,000", "10,000 x 100")
#: A few workloads, small and large, for the comparisons that do not need all.
SOME = ("1 x 10,000", "1 x 1,000,000", "10 x 10,000", "1,000 x 1,000")


def shrink() -> None:
    """Make every workload small, to check quickly that all comparisons run."""
    for name, shapes in list(WORKLOADS.items()):
        small = [tuple(min(size, 30) for size in shape) for shape in shapes()[:40]]
        WORKLOADS[name] = lambda small=small: small  # type: ignore[misc]


def make_arrays(workload: str, dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    """Return standard normal gradients, the same in every run."""
    generator = np.random.default_rng(20261121)
    return [generator.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in WORKLOADS[workload]()]


def choose_threshold(workload: str, clipped: bool) -> float:
    """Return half or twice the expected norm, so that the clip scales or does nothing."""
    elements = sum(math.prod(shape) for shape in WORKLOADS[workload]())
    return math.sqrt(elements) * (0.5 if clipped else 2.0)


def has_only_large_tensors(workload: str) -> bool:
    """Return whether every tensor has more than 64k elements. Only then is the memory floor a fair comparison."""
    return all(math.prod(shape) > 65_536 for shape in WORKLOADS[workload]())
