"""Make cases of gradients that the ranks of a mesh share: sharded, replicated, or owned by some ranks.

`gradclip_adapters.mesh` says what each rank has. The cases of engines are on one axis `ranks`. A function that is
checked on a mesh of its own is asked the same forms along each axis of this mesh, and forms that need several axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import Gradient, Placement
from gradclip_adapters.mesh import Mesh, check_placement, parse_mesh
from gradclip_adapters.operations import PREFIXES

from .build import (
    DTYPES,
    NORM_OPERATIONS,
    OPERATIONS,
    VALUES,
    make_case,
    make_clipping_options,
    make_tensor,
    round_to_tensor,
)
from .model import Case, Expect, expect
from .themes.range import HUGE, TINY

__all__ = ["find_case_on", "make_cases", "make_cases_on"]

#: The axis of the cases of engines, and its size unless the name of a case gives another.
AXIS, SIZE = "ranks", 2

#: The cases whose arithmetic depends on the dtype. The others are asked in one dtype only, because engines are slow.
IN_EVERY_DTYPE = ("split", "copied", "split-and-copied", "uneven", "empty-part", "norm-infinity", "partial")

#: How many calls have sums that depend on their order. About one in eight shows the order: the others agree by chance.
ROUNDED_SUMS = 16

#: The names of axes along which every gradient is replicated, in the words of the frameworks.
REPLICATING = ("replica", "replicas", "replicate", "dp_replicate", "data", "dp")


def make_cases() -> Iterator[Case]:
    """Yield the cases of every operation on one axis, which engines are asked."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            for size in (SIZE, 4):
                forms = _Forms(operation, dtype, {AXIS: size}, AXIS)
                for case in forms.make_all():
                    is_large = case.variant.endswith("over-four")
                    if is_large == (size == 4) and (dtype == "float32" or case.variant in IN_EVERY_DTYPE):
                        yield case


def make_cases_on(operation: str, axes: Mapping[str, int]) -> Iterator[Case]:
    """Yield the cases of an operation, such as "clip_by_global_norm", on a mesh. They are not in the catalogue.

    Along an axis that is called as in `REPLICATING`, each gradient is replicated, or partial.
    """
    short = next((name for name, operation_id in OPERATIONS.items() if operation_id == operation), None)
    if short is None:
        return
    mesh = Mesh(axes)
    free = [name for name in axes if name not in REPLICATING]
    for dtype in DTYPES:
        made = [case for axis in free or list(axes)[:1] for case in _make_along(short, dtype, axes, axis, free)]
        made += _make_mixed(short, dtype, axes, free)
        made += _make_partial(short, dtype, axes, free)
        for case in made:
            for gradient in case.gradients:
                check_placement(gradient, mesh)
            form = case.variant.partition("@")[0]
            if dtype == "float32" or form in IN_EVERY_DTYPE or form.startswith("rounded-sum"):
                yield case


def find_case_on(case_id: str) -> Case | None:
    """Return the case on a mesh with this id, such as `norm.shards-as-whole/split@shard:shard=2/float32`, or None."""
    rule, _, rest = case_id.partition("/")
    operation = OPERATIONS.get(rule.partition(".")[0])
    try:
        axes = parse_mesh(rest.partition(":")[2].rpartition("/")[0])
    except ValueError:
        return None
    made = make_cases_on(operation, axes) if operation else ()
    return next((case for case in made if case.id == case_id), None)


def _make_along(operation: str, dtype: str, axes: Mapping[str, int], axis: str, free: Sequence[str]) -> Iterator[Case]:
    """Yield the forms along one axis of a mesh. Their names say along which one."""
    is_first = axis == (*free, *axes)[0]
    for case in (*_Forms(operation, dtype, axes, axis).make_all(), *_make_owned(operation, dtype, axes, axis)):
        if case.variant.endswith("over-four"):
            continue
        if any(gradient.placements for gradient in case.gradients):
            if axis in free:
                yield replace(case, variant=f"{case.variant}@{axis}:{Mesh(axes)}")
        elif is_first:
            # All gradients are replicated along all axes.
            yield replace(case, variant=f"{case.variant}@all:{Mesh(axes)}")


class _Forms:
    """The forms of gradients on a mesh that are split along one of its axes, or replicated."""

    def __init__(self, operation: str, dtype: str, axes: Mapping[str, int], axis: str) -> None:
        self.operation, self.dtype, self.axes, self.axis = operation, dtype, axes, axis

    def make_all(self) -> Iterator[Case]:
        """Yield the cases of all forms."""
        for name, gradients in self._list_forms().items():
            for suffix, threshold in (("", 1.25), ("-not-clipped", 32.0)):
                if not suffix or name in ("split", "copied", "split-and-copied"):
                    yield self._make(f"{name}{suffix}", gradients, make_clipping_options(self.operation, threshold))
        if self.operation in NORM_OPERATIONS:
            yield from self._make_norm_cases()
            yield from self._make_extreme_cases()

    def _make(
        self, name: str, gradients: Sequence[Gradient], options: Mapping[str, Any], expectation: Expect = VALUES
    ) -> Case:
        return _make_case(self.operation, name, self.dtype, self.axes, gradients, options, expectation)

    def _split(
        self, values: Sequence[float], shape: tuple[int, ...] | None = None, axis: int = 0, *, need_clip: bool = True
    ) -> Gradient:
        return _place(make_tensor(values, self.dtype, shape, need_clip=need_clip), {self.axis: axis})

    def _list_forms(self) -> dict[str, list[Gradient]]:
        """Return gradients whose norm is above 1.25, by the names of the cases. The norms of most are exact."""
        dtype = self.dtype
        matrix = self._split([2.0, -1.0, 0.5, 4.0, 2.0, 1.0, -2.0, 0.0], (4, 2))
        copied = make_tensor([3.0, -4.0], dtype)
        uneven = self._split([2.0, -4.0, 4.0])
        return {
            "split": [matrix, self._split([3.0, 4.0])],
            "copied": [copied, make_tensor([12.0, 0.0, 0.5], dtype, (3, 1))],
            "split-and-copied": [self._split([12.0, 0.0]), copied],
            "copied-and-split": [copied, matrix],
            "uneven": [uneven],
            "uneven-and-copied": [uneven, copied],
            "empty-part": [self._split([3.0, 4.0], (1, 2)), matrix],
            "only-empty-part": [self._split([3.0, -4.0], (1, 2))],
            "second-axis": [self._split([2.0, 4.0, -4.0, 0.0], (2, 2), 1), copied],
            "uneven-second-axis": [self._split([2.0, 1.0, -4.0, 4.0, 2.0, 0.5], (2, 3), 1)],
            "zeros-in-one-process": [self._split([0.0, 0.0, 3.0, -4.0])],
            "copied-beside-none": [copied, make_tensor(None, dtype)],
            "copied-beside-excluded": [copied, replace(make_tensor([8.0, 16.0], dtype), need_clip=False)],
            "copied-over-four": [make_tensor([12.0, 0.0, 0.5], dtype, (3, 1)), copied],
            "none": [uneven, make_tensor(None, dtype), copied],
            "excluded-copy": [uneven, replace(make_tensor([8.0, 16.0], dtype), need_clip=False)],
            "excluded-split": [copied, self._split([8.0, 16.0], need_clip=False), uneven],
            "split-over-four": [matrix, copied],
            "uneven-over-four": [self._split([2.0, 4.0, -4.0, 1.0, 0.5, -2.0]), copied],
        }

    def _make_norm_cases(self) -> Iterator[Case]:
        """Clip at the threshold, and by other norms. The largest element is in the last process."""
        # No rank has elements of both gradients, so every norm on the way is exact.
        five, twelve = self._split([3.0, 4.0, 0.0, 0.0]), self._split([0.0, 0.0, 0.0, 12.0])
        size = 13.0 if PREFIXES[self.operation].is_global else 12.0
        yield self._make("at-threshold", [five, twelve], {"clip_norm": size})
        # The norm of each part is below the threshold.
        yield self._make("only-together-above", [self._split([3.0, -4.0, 4.0, 3.0])], {"clip_norm": 6.0})
        yield self._make("zeros", [self._split([0.0, 0.0, 0.0])], {"clip_norm": 1.0})
        for name, p in (("norm-one", 1.0), ("norm-infinity", math.inf), ("norm-three", 3.0)):
            for form, gradients in (
                ("", [self._split([1.0, -2.0, 0.5, 8.0])]),
                ("-with-copy", [self._split([1.0, -2.0, 0.5, 8.0]), make_tensor([4.0, -1.0], self.dtype)]),
                ("-copied", [make_tensor([4.0, -8.0, 0.5], self.dtype)]),
                ("-empty-part", [self._split([2.0, -4.0], (1, 2))]),
            ):
                yield self._make(f"{name}{form}", gradients, {"clip_norm": 1.25, "norm_type": p})

    def _make_extreme_cases(self) -> Iterator[Case]:
        """Put a NaN, an infinity, or a number whose square leaves the range, in one process only."""
        # If each gradient has a norm of its own, a finite gradient beside another is clipped by its own.
        beside = [make_tensor([4.0, -2.0], self.dtype)] if PREFIXES[self.operation].is_global else []
        options, not_silent = {"clip_norm": 1.0}, expect("not-silent")
        for name, value in (("nan", math.nan), ("infinity", -math.inf)):
            for place, values in (("first", [value, 1.0, 2.0, 3.0]), ("last", [3.0, 1.0, 2.0, value])):
                yield self._make(f"{name}-in-{place}-process", [self._split(values), *beside], options, not_silent)
            copied = [make_tensor([3.0, value], self.dtype), *beside]
            yield self._make(f"{name}-copied", copied, options, not_silent)
        for name, unit in (("huge", HUGE[self.dtype]), ("tiny", TINY[self.dtype])):
            # Their squares overflow, or underflow to zero.
            gradients = [self._split([0.0, 0.0, 3 * unit, 4 * unit])]
            yield self._make(f"{name}-in-one-process", gradients, {"clip_norm": unit}, expect("values", wide=True))


def _make_owned(operation: str, dtype: str, axes: Mapping[str, int], axis: str) -> Iterator[Case]:
    """Yield forms in which the ranks along an axis have other parameters, as with experts and stages of a pipeline."""
    if axes[axis] < 2:
        return
    first, second = [2.0, 4.0], [6.0, 8.0]
    split = _place(make_tensor([4.0, 12.0], dtype), {axis: 0})
    copied = make_tensor([3.0, -4.0], dtype)

    def own(values: Sequence[float], owner: int, how: str = "owned by") -> Gradient:
        return _place(make_tensor(values, dtype), {axis: f"{how} {owner}"})

    for name, gradients in {
        "owned": [own(first, 0), own(second, 1)],
        "owned-none-elsewhere": [own(first, 0, "only on"), own(second, 1, "only on")],
        "owned-and-copied": [copied, own(first, 0), own(second, 1)],
        "owned-and-split": [own(first, 0), split, own(second, 1)],
        "owned-by-first-alone": [own([3.0, -4.0], 0)],
        "owned-by-last-alone": [own([3.0, -4.0], axes[axis] - 1)],
        "only-on-first": [own([3.0, -4.0], 0, "only on")],
        "more-in-first": [own(first, 0), own([3.0], 0), own(second, 1)],
    }.items():
        yield _make_case(operation, name, dtype, axes, gradients, make_clipping_options(operation, 1.0))


def _make_mixed(operation: str, dtype: str, axes: Mapping[str, int], free: Sequence[str]) -> Iterator[Case]:
    """Yield forms that need several axes of a mesh, and those that the reports of wrong clips name."""
    copied = make_tensor([3.0], dtype)

    def split(values: Sequence[float], *names: str, shape: tuple[int, ...] | None = None) -> Gradient:
        return _place(make_tensor(values, dtype, shape), {name: place for place, name in enumerate(names)})

    forms: dict[str, list[Gradient]] = {}
    if free:
        forms["copied-and-parts"] = [copied, split([4.0, 12.0], free[0])]
        forms["two-parts"] = [split([3.0, 4.0], free[0])]
    if len(free) > 1:
        one, other = free[:2]
        square = split([1.0, -2.0, 4.0, 2.0], one, other, shape=(2, 2))
        last = _place(make_tensor([6.0, 8.0], dtype), {other: f"owned by {axes[other] - 1}", one: 0})
        forms |= {
            "each-kind": [copied, *(split([4.0, -2.0, 1.0], name) for name in free), square],
            "along-two-axes": [square],
            "along-two-axes-of-one": [_place(make_tensor([2.0, -4.0, 4.0, 1.0, 0.5], dtype), {one: 0, other: 0})],
            "owned-and-parts": [split([2.0, 4.0], one), last],
        }
    if operation in NORM_OPERATIONS and free:
        for name, p in (("norm-one", 1.0), ("norm-infinity", math.inf)):
            every = [copied, *(split([4.0, -2.0, 1.0], axis) for axis in free)]
            options = {"clip_norm": 1.25, "norm_type": p}
            yield _make_case(operation, f"{name}-each-kind@all:{Mesh(axes)}", dtype, axes, every, options)
        # The norm is the threshold, and the norms of the parts are irrational.
        parts = [split([1.0, -1.0, 1.0, 1.0, 2.0, -2.0, 2.0, 3.0], free[0])]
        place = f"{free[0]}:{Mesh(axes)}"
        yield _make_case(operation, f"at-threshold-of-parts@{place}", dtype, axes, parts, {"clip_norm": 5.0})
        # The square of the last number is infinite. The other rank has an ordinary number.
        huge, wide = [split([1.0, HUGE[dtype]], free[0])], expect("values", wide=True)
        yield _make_case(operation, f"huge-beside-small@{place}", dtype, axes, huge, {"clip_norm": 1.0}, wide)
        # A comparison with NaN is false, so a maximum may lose it.
        options = {"clip_norm": 1.0, "norm_type": math.inf}
        for end, values in (("first", [math.nan, 1.0, 2.0, 3.0]), ("last", [3.0, 1.0, 2.0, math.nan])):
            name, some = f"norm-infinity-nan-in-{end}-process@{place}", [split(values, free[0])]
            yield _make_case(operation, name, dtype, axes, some, options, expect("not-silent"))
    for name, gradients in forms.items():
        options = make_clipping_options(operation, 1.0)
        yield _make_case(operation, f"{name}@all:{Mesh(axes)}", dtype, axes, gradients, options)
    if operation in NORM_OPERATIONS:
        yield from _make_rounded(operation, dtype, axes, free)


def _make_rounded(operation: str, dtype: str, axes: Mapping[str, int], free: Sequence[str]) -> Iterator[Case]:
    """Yield calls whose sums of squares are rounded, also in float64, so that their last bits depend on the order.

    If the ranks add in different orders, their copies differ. The squares of float16 are too short for it.
    """
    if dtype not in ("float32", "float64"):
        return
    for number in range(1, ROUNDED_SUMS + 1):
        gradients = [
            _place(_make_rough(size, dtype, 100 * number + 10 * place), placements)
            for place, (size, placements) in enumerate([(3, {}), *((8, {axis: 0}) for axis in free)])
        ]
        options = make_clipping_options(operation, 0.25)
        yield _make_case(operation, f"rounded-sum-{number}@all:{Mesh(axes)}", dtype, axes, gradients, options)


def _make_rough(size: int, dtype: str, start: int) -> Gradient:
    """Return a gradient of numbers of many digits between 2^-6 and 1, of both signs."""
    steps = np.arange(start, start + size)
    # The multiples of an irrational number have fractions that are spread evenly.
    fractions = (steps * math.sqrt(2)) % 1
    return round_to_tensor((0.5 + fractions / 2) * 2.0 ** -(steps % 6) * (-1.0) ** steps, dtype)


def _make_partial(operation: str, dtype: str, axes: Mapping[str, int], free: Sequence[str]) -> Iterator[Case]:
    """Yield forms in which a gradient is a sum that is not yet reduced, as in the middle of a step of training.

    No clip by value can answer them: the clip of a sum is not the sum of any clips of its addends.
    """
    # The addend of the first rank is twice the gradient, so an axis of one rank has no sum.
    long = [name for name, size in axes.items() if size > 1]
    if operation not in NORM_OPERATIONS or not long:
        return
    copied = make_tensor([12.0, 0.0, 0.5], dtype, (3, 1))

    def sum_up(values: Sequence[float], *names: str, shards: Sequence[str] = ()) -> Gradient:
        placements: dict[str, Placement] = dict.fromkeys(names, "partial")
        return _place(make_tensor(values, dtype), placements | dict.fromkeys(shards, 0))

    def make(name: str, where: str, gradients: Sequence[Gradient], threshold: float = 1.25, **options: Any) -> Case:
        every = {"clip_norm": threshold, **options}
        return _make_case(operation, f"{name}@{where}:{Mesh(axes)}", dtype, axes, gradients, every)

    for axis in long:
        whole = sum_up([3.0, -4.0], axis)
        yield make("partial", axis, [whole, sum_up([2.0, 1.0, -2.0], axis)])
        # The norm of the sum is 5. The norms of the addends are 10 and 5.
        yield make("partial-not-clipped", axis, [whole], 6.0)
        yield make("partial-and-copied", axis, [copied, whole])
        yield make("partial-beside-none", axis, [whole, make_tensor(None, dtype)])
        for name, p in (("norm-one", 1.0), ("norm-infinity", math.inf)):
            yield make(f"{name}-partial", axis, [whole, copied], norm_type=p)
        if axis in free:
            yield make("partial-and-split", axis, [whole, _place(make_tensor([12.0, 0.0, 4.0], dtype), {axis: 0})])
        for other in free:
            if other != axis:
                yield make(
                    f"partial-along-{axis}-split", other, [copied, sum_up([3.0, 1.0, -4.0], axis, shards=[other])]
                )
    if len(long) > 1:
        yield make("partial-along-two-axes", "all", [copied, sum_up([3.0, -4.0], *long[:2])])


def _place(gradient: Gradient, placements: Mapping[str, Placement]) -> Gradient:
    return replace(gradient, placements=placements)


def _make_case(
    operation: str,
    name: str,
    dtype: str,
    axes: Mapping[str, int],
    gradients: Sequence[Gradient],
    options: Mapping[str, Any],
    expectation: Expect = VALUES,
) -> Case:
    """Return a case on a mesh of these axes."""
    every = {"mesh": str(Mesh(axes)), **options}
    return make_case(f"{operation}.shards-as-whole", name, dtype, gradients, every, expectation)
