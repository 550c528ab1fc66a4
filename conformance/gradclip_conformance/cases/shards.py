"""Make cases of gradients that the ranks of a mesh share: sharded, replicated, or owned by some ranks.

`gradclip_adapters.mesh` says what each rank has. The cases of engines are on one axis `ranks`. A function that is
checked on a mesh of its own is asked the same forms along each axis of this mesh, and forms that need several axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import Gradient, Placement
from gradclip_adapters.mesh import Mesh, check_placement, parse_mesh
from gradclip_adapters.operations import OPERATIONS, PREFIXES
from gradclip_spec import rules

from .build import DTYPES, VALUES, Maker, choose_orders, make_case, round_to_tensor
from .model import Case, Expect, expect
from .themes.range import HUGE, TINY

#: The rule of all cases on a mesh, and its operations: those that some framework performs on several ranks.
RULE = "shards-as-whole"
PREFIXES_ON_MESHES = tuple(rule.operation for rule in rules.load() if rule.name == RULE)

#: The axis of the cases of engines, and its size unless the name of a case gives another.
AXIS, SIZE = "ranks", 2

#: The cases whose arithmetic depends on the dtype. The others are asked in one dtype only, because engines are slow.
IN_EVERY_DTYPE = ("split", "copied", "split-and-copied", "uneven", "empty-part", "norm-infinity", "partial")

#: How many calls have sums that depend on their order. About one in eight shows the order: the others agree by chance.
ROUNDED_SUMS = 16

#: The names of axes along which every gradient is replicated, in the words of the frameworks.
REPLICATING = ("replica", "replicas", "replicate", "dp_replicate", "data", "dp")

NOT_SILENT, WIDE = expect("not-silent"), expect("values", wide=True)


@dataclass(frozen=True)
class _MeshMaker(Maker):
    """Make the cases of one operation in one dtype on a mesh."""

    axes: Mapping[str, int]

    @property
    def free(self) -> list[str]:
        """The axes along which gradients are not all replicated."""
        return [name for name in self.axes if name not in REPLICATING]

    @property
    def mesh(self) -> str:
        return str(Mesh(self.axes))

    def placed(
        self, values: Sequence[float], placements: Mapping[str, Placement], shape: tuple[int, ...] | None = None
    ) -> Gradient:
        """Return a gradient with these placements."""
        return replace(self.tensor(values, shape), placements=placements)

    def form(
        self,
        name: str,
        gradients: Sequence[Gradient],
        threshold: float,
        expectation: Expect = VALUES,
        **options: Any,
    ) -> Case:
        """Return a case on the mesh."""
        every = {"mesh": self.mesh, self.operation.threshold: threshold, **options}
        return make_case(f"{self.operation.prefix}.{RULE}", name, self.dtype, gradients, every, expectation)


def make_cases() -> Iterator[Case]:
    """Yield the cases of every operation that has the rule on one axis, which engines are asked."""
    for dtype in DTYPES:
        for prefix in PREFIXES_ON_MESHES:
            for size in (SIZE, 4):
                for case in _split_along(_MeshMaker(PREFIXES[prefix], dtype, {AXIS: size}), AXIS):
                    is_large = case.variant.endswith("over-four")
                    if is_large == (size == 4) and (dtype == "float32" or case.variant in IN_EVERY_DTYPE):
                        yield case


def make_cases_on(operation: str, axes: Mapping[str, int]) -> Iterator[Case]:
    """Yield the cases of an operation, such as "clip_by_global_norm", on a mesh. They are not in the catalogue.

    Along an axis that is called as in `REPLICATING`, each gradient is replicated, or partial.
    """
    asked = OPERATIONS[operation]
    if asked.prefix not in PREFIXES_ON_MESHES:
        return
    mesh = Mesh(axes)
    for dtype in DTYPES:
        make = _MeshMaker(asked, dtype, axes)
        made = [case for axis in make.free or list(axes)[:1] for case in _make_along(make, axis)]
        made += _mix_axes(make)
        made += _make_partial(make)
        for case in made:
            for gradient in case.gradients:
                check_placement(gradient, mesh)
            form = case.variant.partition("@")[0]
            if dtype == "float32" or form in IN_EVERY_DTYPE or form.startswith("rounded-sum"):
                yield case


def find_case_on(case_id: str) -> Case | None:
    """Return the case on a mesh with this id, such as `norm.shards-as-whole/split@shard:shard=2/float32`, or None."""
    rule, _, rest = case_id.partition("/")
    operation = PREFIXES.get(rule.partition(".")[0])
    try:
        axes = parse_mesh(rest.partition(":")[2].rpartition("/")[0])
    except ValueError:
        return None
    made = make_cases_on(operation.function, axes) if operation else ()
    return next((case for case in made if case.id == case_id), None)


def _make_along(make: _MeshMaker, axis: str) -> Iterator[Case]:
    """Yield the forms along one axis of a mesh. Their names say along which one."""
    is_first = axis == (*make.free, *make.axes)[0]
    for case in (*_split_along(make, axis), *_own_along(make, axis)):
        if case.variant.endswith("over-four"):
            continue
        if any(gradient.placements for gradient in case.gradients):
            if axis in make.free:
                yield replace(case, variant=f"{case.variant}@{axis}:{make.mesh}")
        elif is_first:
            # All gradients are replicated along all axes.
            yield replace(case, variant=f"{case.variant}@all:{make.mesh}")


def _split_along(make: _MeshMaker, axis: str) -> Iterator[Case]:
    """Yield the forms of gradients that are split along one axis of the mesh, or replicated."""
    for name, gradients in _list_forms(make, axis).items():
        yield make.form(name, gradients, 1.25)
        if name in ("split", "copied", "split-and-copied"):
            yield make.form(f"{name}-not-clipped", gradients, 32.0)
    if make.operation.is_by_norm:
        yield from _split_at_thresholds(make, axis)
        yield from _split_extremes(make, axis)


def _list_forms(make: _MeshMaker, axis: str) -> dict[str, list[Gradient]]:
    """Return gradients whose norm is above 1.25, by the names of the cases. The norms of most are exact."""
    first, second = {axis: 0}, {axis: 1}
    matrix = make.placed([2.0, -1.0, 0.5, 4.0, 2.0, 1.0, -2.0, 0.0], first, (4, 2))
    copied, none = make.tensor([3.0, -4.0]), make.tensor(None)
    column = make.tensor([12.0, 0.0, 0.5], (3, 1))
    uneven = make.placed([2.0, -4.0, 4.0], first)
    excluded = make.tensor([8.0, 16.0], need_clip=False)
    return {
        "split": [matrix, make.placed([3.0, 4.0], first)],
        "copied": [copied, column],
        "split-and-copied": [make.placed([12.0, 0.0], first), copied],
        "copied-and-split": [copied, matrix],
        "uneven": [uneven],
        "uneven-and-copied": [uneven, copied],
        "empty-part": [make.placed([3.0, 4.0], first, (1, 2)), matrix],
        "only-empty-part": [make.placed([3.0, -4.0], first, (1, 2))],
        "second-axis": [make.placed([2.0, 4.0, -4.0, 0.0], second, (2, 2)), copied],
        "uneven-second-axis": [make.placed([2.0, 1.0, -4.0, 4.0, 2.0, 0.5], second, (2, 3))],
        "zeros-in-one-process": [make.placed([0.0, 0.0, 3.0, -4.0], first)],
        "copied-beside-none": [copied, none],
        "copied-beside-excluded": [copied, excluded],
        "copied-over-four": [column, copied],
        "none": [uneven, none, copied],
        "excluded-copy": [uneven, excluded],
        "excluded-split": [copied, replace(excluded, placements=first), uneven],
        "split-over-four": [matrix, copied],
        "uneven-over-four": [make.placed([2.0, 4.0, -4.0, 1.0, 0.5, -2.0], first), copied],
    }


def _split_at_thresholds(make: _MeshMaker, axis: str) -> Iterator[Case]:
    """Clip at the threshold, and by other norms. The largest element is in the last process."""
    first = {axis: 0}
    # No rank has elements of both gradients, so every norm on the way is exact.
    five, twelve = make.placed([3.0, 4.0, 0.0, 0.0], first), make.placed([0.0, 0.0, 0.0, 12.0], first)
    yield make.form("at-threshold", [five, twelve], 13.0 if make.operation.is_global else 12.0)
    # The norm of each part is below the threshold.
    yield make.form("only-together-above", [make.placed([3.0, -4.0, 4.0, 3.0], first)], 6.0)
    yield make.form("zeros", [make.placed([0.0, 0.0, 0.0], first)], 1.0)
    largest_last = make.placed([1.0, -2.0, 0.5, 8.0], first)
    for name, p in choose_orders("one", "infinity", "three").items():
        for form, gradients in (
            ("", [largest_last]),
            ("-with-copy", [largest_last, make.tensor([4.0, -1.0])]),
            ("-copied", [make.tensor([4.0, -8.0, 0.5])]),
            ("-empty-part", [make.placed([2.0, -4.0], first, (1, 2))]),
        ):
            yield make.form(f"{name}{form}", gradients, 1.25, norm_type=p)


def _split_extremes(make: _MeshMaker, axis: str) -> Iterator[Case]:
    """Put a NaN, an infinity, or a number whose square leaves the range, in one process only."""
    # If each gradient has a norm of its own, a finite gradient beside another is clipped by its own.
    beside = make.tensors([4.0, -2.0]) if make.operation.is_global else []
    for name, value in (("nan", math.nan), ("infinity", -math.inf)):
        for place, values in (("first", [value, 1.0, 2.0, 3.0]), ("last", [3.0, 1.0, 2.0, value])):
            split = make.placed(values, {axis: 0})
            yield make.form(f"{name}-in-{place}-process", [split, *beside], 1.0, NOT_SILENT)
        yield make.form(f"{name}-copied", [make.tensor([3.0, value]), *beside], 1.0, NOT_SILENT)
    for name, unit in (("huge", HUGE[make.dtype]), ("tiny", TINY[make.dtype])):
        # Their squares overflow, or underflow to zero.
        yield make.form(f"{name}-in-one-process", [make.placed([0.0, 0.0, 3 * unit, 4 * unit], {axis: 0})], unit, WIDE)


def _own_along(make: _MeshMaker, axis: str) -> Iterator[Case]:
    """Yield forms in which the ranks along an axis have other parameters, as with experts and stages of a pipeline."""
    if make.axes[axis] < 2:
        return
    split, copied = make.placed([4.0, 12.0], {axis: 0}), make.tensor([3.0, -4.0])
    first, second = make.placed([2.0, 4.0], {axis: "owned by 0"}), make.placed([6.0, 8.0], {axis: "owned by 1"})
    only = [make.placed([2.0, 4.0], {axis: "only on 0"}), make.placed([6.0, 8.0], {axis: "only on 1"})]
    for name, gradients in {
        "owned": [first, second],
        "owned-none-elsewhere": only,
        "owned-and-copied": [copied, first, second],
        "owned-and-split": [first, split, second],
        "owned-by-first-alone": [replace(copied, placements={axis: "owned by 0"})],
        "owned-by-last-alone": [replace(copied, placements={axis: f"owned by {make.axes[axis] - 1}"})],
        "only-on-first": [replace(copied, placements={axis: "only on 0"})],
        "more-in-first": [first, make.placed([3.0], {axis: "owned by 0"}), second],
    }.items():
        yield make.form(name, gradients, 1.0)


def _mix_axes(make: _MeshMaker) -> Iterator[Case]:
    """Yield forms that need several axes of a mesh, and those that the reports of wrong clips name."""
    free, copied = make.free, make.tensor([3.0])
    forms: dict[str, list[Gradient]] = {}
    if free:
        forms["copied-and-parts"] = [copied, make.placed([4.0, 12.0], {free[0]: 0})]
        forms["two-parts"] = [make.placed([3.0, 4.0], {free[0]: 0})]
    every = [copied, *(make.placed([4.0, -2.0, 1.0], {name: 0}) for name in free)]
    if len(free) > 1:
        one, other = free[:2]
        square = make.placed([1.0, -2.0, 4.0, 2.0], {one: 0, other: 1}, (2, 2))
        last = make.placed([6.0, 8.0], {other: f"owned by {make.axes[other] - 1}", one: 0})
        forms |= {
            "each-kind": [*every, square],
            "along-two-axes": [square],
            "along-two-axes-of-one": [make.placed([2.0, -4.0, 4.0, 1.0, 0.5], {one: 0, other: 0})],
            "owned-and-parts": [make.placed([2.0, 4.0], {one: 0}), last],
        }
    if make.operation.is_by_norm and free:
        for name, p in choose_orders("one", "infinity").items():
            yield make.form(f"{name}-each-kind@all:{make.mesh}", every, 1.25, norm_type=p)
        first, place = {free[0]: 0}, f"{free[0]}:{make.mesh}"
        # The norm is the threshold, and the norms of the parts are irrational.
        parts = make.placed([1.0, -1.0, 1.0, 1.0, 2.0, -2.0, 2.0, 3.0], first)
        yield make.form(f"at-threshold-of-parts@{place}", [parts], 5.0)
        # The square of the last number is infinite. The other rank has an ordinary number.
        huge = make.placed([1.0, HUGE[make.dtype]], first)
        yield make.form(f"huge-beside-small@{place}", [huge], 1.0, WIDE)
        # A comparison with NaN is false, so a maximum may lose it.
        for end, values in (("first", [math.nan, 1.0, 2.0, 3.0]), ("last", [3.0, 1.0, 2.0, math.nan])):
            name, some = f"norm-infinity-nan-in-{end}-process@{place}", make.placed(values, first)
            yield make.form(name, [some], 1.0, NOT_SILENT, norm_type=math.inf)
    for name, gradients in forms.items():
        yield make.form(f"{name}@all:{make.mesh}", gradients, 1.0)
    if make.operation.is_by_norm and make.dtype in ("float32", "float64"):
        yield from _round_sums(make)


def _round_sums(make: _MeshMaker) -> Iterator[Case]:
    """Yield calls whose sums of squares are rounded, also in float64, so that their last bits depend on the order.

    If the ranks add in different orders, their copies differ. The squares of float16 are too short for it.
    """
    for number in range(1, ROUNDED_SUMS + 1):
        gradients = [
            replace(_make_rough(size, make.dtype, 100 * number + 10 * place), placements=placements)
            for place, (size, placements) in enumerate([(3, {}), *((8, {axis: 0}) for axis in make.free)])
        ]
        yield make.form(f"rounded-sum-{number}@all:{make.mesh}", gradients, 0.25)


def _make_rough(size: int, dtype: str, start: int) -> Gradient:
    """Return a gradient of numbers of many digits between 2^-6 and 1, of both signs."""
    steps = np.arange(start, start + size)
    # The multiples of an irrational number have fractions that are spread evenly.
    fractions = (steps * math.sqrt(2)) % 1
    return round_to_tensor((0.5 + fractions / 2) * 2.0 ** -(steps % 6) * (-1.0) ** steps, dtype)


def _make_partial(make: _MeshMaker) -> Iterator[Case]:
    """Yield forms in which a gradient is a sum that is not yet reduced, as in the middle of a step of training.

    No clip by value can answer them: the clip of a sum is not the sum of any clips of its addends.
    """
    # The addend of the first rank is twice the gradient, so an axis of one rank has no sum.
    long = [name for name, size in make.axes.items() if size > 1]
    if not make.operation.is_by_norm:
        return
    copied = make.tensor([12.0, 0.0, 0.5], (3, 1))
    for axis in long:
        partial, place = {axis: "partial"}, f"{axis}:{make.mesh}"
        whole = make.placed([3.0, -4.0], partial)
        yield make.form(f"partial@{place}", [whole, make.placed([2.0, 1.0, -2.0], partial)], 1.25)
        # The norm of the sum is 5. The norms of the addends are 10 and 5.
        yield make.form(f"partial-not-clipped@{place}", [whole], 6.0)
        yield make.form(f"partial-and-copied@{place}", [copied, whole], 1.25)
        yield make.form(f"partial-beside-none@{place}", [whole, make.tensor(None)], 1.25)
        for name, p in choose_orders("one", "infinity").items():
            yield make.form(f"{name}-partial@{place}", [whole, copied], 1.25, norm_type=p)
        if axis in make.free:
            split = make.placed([12.0, 0.0, 4.0], {axis: 0})
            yield make.form(f"partial-and-split@{place}", [whole, split], 1.25)
        for other in make.free:
            if other != axis:
                both = make.placed([3.0, 1.0, -4.0], {axis: "partial", other: 0})
                name = f"partial-along-{axis}-split@{other}:{make.mesh}"
                yield make.form(name, [copied, both], 1.25)
    if len(long) > 1:
        both = make.placed([3.0, -4.0], dict.fromkeys(long[:2], "partial"))
        yield make.form(f"partial-along-two-axes@all:{make.mesh}", [copied, both], 1.25)
