"""Build cases and their gradients. The themes call these functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradclip_adapters.arrays import FEATURE_OF_LAYOUT, FEATURE_OF_OPTION
from gradclip_adapters.contract import Array, Gradient
from gradclip_adapters.operations import PREFIXES, Operation
from gradclip_adapters.recipes import Recipe, expand

from ..oracle.formats import FORMATS, encode, round_all
from .literals import make_scattered
from .model import Case, Expect, expect

DTYPES = ("float16", "bfloat16", "float32", "float64")

#: Orders of the norm other than the Euclidean one, by their names in the ids of cases.
ORDERS = {
    "half": 0.5,
    "one": 1.0,
    "three-halves": 1.5,
    "two-and-a-half": 2.5,
    "three": 3.0,
    "four": 4.0,
    "six": 6.0,
    "infinity": math.inf,
}

#: The features that options, expectations and their parameters need. Some parameters are named as options.
FEATURES = {
    **FEATURE_OF_OPTION,
    "compiled-agrees": "compiles",
    "inputs-kept": "functional",
    "inputs-written": "in_place",
    "returned-norm": "returns_norm",
    "scaled-once": "in_place",
}

#: What most cases expect: the values of the formula.
VALUES = expect("values")

#: The operations by a norm, of any order, of whole gradients. These are names in the ids of rules, as all below.
NORM_OPERATIONS = tuple(
    name for name, operation in PREFIXES.items() if operation.takes_orders and not operation.is_stacked
)
#: The operations that have cases of all themes. The others have modules of their own.
OPERATIONS = tuple(name for name, operation in PREFIXES.items() if name in NORM_OPERATIONS or not operation.is_by_norm)
#: The operations whose norm is an average over the elements. They have the cases in `averages`.
AVERAGES = tuple(prefix for prefix, operation in PREFIXES.items() if operation.is_average)


def make_tensor(
    values: Sequence[float] | None,
    dtype: str,
    shape: tuple[int, ...] | None = None,
    *,
    need_clip: bool = True,
    layout: str = "contiguous",
    same_as: int | None = None,
) -> Gradient:
    """Return a gradient that holds these values. If they are None, the gradient has no array.

    Without a shape, the array has one dimension. The dtype must represent the values exactly, so that the case tests
    these values.
    """
    if values is None:
        return Gradient("", None, need_clip)
    array = Array(dtype, (len(values),) if shape is None else shape, encode(values, dtype))
    return Gradient("", array, need_clip, layout, same_as)


def round_to_tensor(values: np.ndarray[Any, Any], dtype: str) -> Gradient:
    """Return a gradient whose elements are the values, rounded to the dtype. This is fast enough for long arrays."""
    if dtype == "bfloat16":
        # The upper 16 bits of a float32 are a bfloat16. This rounds towards zero, which does not matter here.
        values = (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return Gradient("", Array(dtype, values.shape, round_all(values.astype(np.float64), dtype)))


@functools.cache
def make_very_long() -> Gradient:
    """Return a float32 gradient with the norm 8, half of it in two elements beyond 2**20. All cases share its memory.

    To pass it on and to judge it takes as long as hundreds of short gradients, so one dtype must do. The host makes it
    from its recipe: zeros, and the number 4 in the two first and the two last places.
    """
    return make_long("edges", (2**20 + 3,))


def make_long(kind: str, shape: tuple[int, ...], layout: str = "contiguous") -> Gradient:
    """Return a float32 gradient from a kind of recipe, with numbers of magnitude 4 to 8."""
    recipe = Recipe(kind, exponent=2)
    return Gradient("", Array("float32", shape, expand(recipe, "float32", shape), recipe), layout=layout)


def make_odd_nans() -> Gradient:
    """Return an excluded gradient of two NaN in float32. Arithmetic changes their bits, or makes them quiet ones."""
    return Gradient("", Array("float32", (2,), bytes.fromhex("010080ff 785634ff")), need_clip=False)


def make_scattered_tensor(length: int, dtype: str) -> Gradient:
    """Return a long gradient of numbers in [-1/64, 1/64] that look random."""
    return round_to_tensor(make_scattered(length), dtype)


def make_case(
    rule: str,
    variant: str,
    dtype: str,
    gradients: Iterable[Gradient],
    options: dict[str, Any],
    expectation: Expect = VALUES,
    needs: Iterable[str] = (),
) -> Case:
    """Return a case. Its gradients are named by their place, and its needs include the features that the call uses."""
    named = tuple(gradient.copy_with(name=f"g{i}") for i, gradient in enumerate(gradients))
    uses = {
        "excludes": any(not gradient.need_clip for gradient in named),
        "none_grads": any(gradient.array is None for gradient in named),
        "repeated": any(gradient.same_as is not None for gradient in named),
        "differentiable": any(gradient.cotangent is not None for gradient in named),
        "mixed_dtypes": len({gradient.array.dtype for gradient in named if gradient.array is not None}) > 1,
        "partial": any("partial" in gradient.placements.values() for gradient in named),
        "sparse": any(gradient.rows is not None for gradient in named),
        **{FEATURE_OF_LAYOUT[gradient.layout]: True for gradient in named if gradient.layout != "contiguous"},
    }
    asked = [FEATURES[word] for word in (*options, expectation.name, *dict(expectation.parameters)) if word in FEATURES]
    features = frozenset([*needs, *asked, *(name for name, is_used in uses.items() if is_used)])
    operation = PREFIXES[rule.partition(".")[0]].function
    return Case(rule, variant, dtype, operation, named, options, expectation, features)


def list_digits(dtype: str) -> list[float]:
    """Return numbers of magnitude 1 to 2 that use every digit of the dtype, so that a narrower dtype changes them."""
    digits = FORMATS[dtype].precision - 1
    return [(-1) ** k * ((2**digits * (23 + k) // 23) | 1) / 2**digits for k in range(23)]


def choose_orders(*names: str) -> dict[str, float]:
    """Return some orders of the norm by the variants of their cases, such as "norm-one"."""
    return {f"norm-{name}": ORDERS[name] for name in names}


def keep(*indices: int) -> Expect:
    """Return the expectation that these gradients are untouched."""
    return expect("untouched", indices=indices)


def keep_all(gradients: Sequence[Gradient]) -> Expect:
    """Return the expectation that all gradients are untouched."""
    return keep(*range(len(gradients)))


def keep_excluded(gradients: Sequence[Gradient]) -> Expect:
    """Return the expectation that the excluded gradients are untouched."""
    return keep(*(i for i, gradient in enumerate(gradients) if not gradient.need_clip))


def number_groups(*groups: Sequence[Gradient]) -> list[Gradient]:
    """Return the gradients of all groups: of examples, or of the tensors whose units the gradients are."""
    return [replace(gradient, group=number) for number, group in enumerate(groups) for gradient in group]


#: What a case expects. A function makes it from the gradients.
Expected = Expect | Callable[[Sequence[Gradient]], Expect]
#: The gradients of a case. A single one needs no list.
Gradients = Gradient | Sequence[Gradient]

#: A row of a table of cases: the variant, the gradients and the threshold. What the row expects may follow, if it is
#: not what the table expects, and other options.
Row = (
    tuple[str, Gradients, float]
    | tuple[str, Gradients, float, Expected | Mapping[str, Any]]
    | tuple[str, Gradients, float, Expected, Mapping[str, Any]]
)


@dataclass(frozen=True)
class Maker:
    """Make the cases of one operation in one dtype."""

    operation: Operation
    dtype: str

    def tensor(self, values: Sequence[float] | None, shape: tuple[int, ...] | None = None, **more: Any) -> Gradient:
        """Return a gradient (see `make_tensor`)."""
        return make_tensor(values, self.dtype, shape, **more)

    def tensors(self, *each: Sequence[float] | None) -> list[Gradient]:
        """Return a gradient of one dimension for each list of values."""
        return [self.tensor(values) for values in each]

    def case(
        self,
        rule: str,
        variant: str,
        gradients: Gradients,
        threshold: float,
        expectation: Expected = VALUES,
        needs: Iterable[str] = (),
        **options: Any,
    ) -> Case:
        """Return a case of a rule of the operation. The rule is named without the operation."""
        every = [gradients] if isinstance(gradients, Gradient) else gradients
        expected = expectation(every) if callable(expectation) else expectation
        options = {self.operation.threshold: threshold, **options}
        return make_case(f"{self.operation.prefix}.{rule}", variant, self.dtype, every, options, expected, needs)

    def table(self, rule: str, *rows: Row, expectation: Expected = VALUES, needs: Iterable[str] = ()) -> Iterator[Case]:
        """Yield a case of one rule for each row."""
        for variant, gradients, threshold, *more in rows:
            own = next((each for each in more if not isinstance(each, Mapping)), expectation)
            options = next((each for each in more if isinstance(each, Mapping)), {})
            yield self.case(rule, variant, gradients, threshold, own, needs, **options)

    def rows(self, *rows: Row, expectation: Expected = VALUES, needs: Iterable[str] = ()) -> Iterator[Case]:
        """Yield a case for each row of a table of several rules. A row names its rule, as in `zero-gradient/alone`."""
        for name, *row in rows:
            rule, _, variant = name.partition("/")
            yield from self.table(rule, (variant, *row), expectation=expectation, needs=needs)

    def effects(
        self, gradients: Sequence[Gradient], clipped: float, not_clipped: float, with_zeros: Sequence[Gradient]
    ) -> Iterator[Case]:
        """Yield cases of the effects of a call on the passed gradients and on the state around it.

        `with_zeros` holds the gradients and zeros: NumPy warns of a quotient by a norm of 0, even of an unused one.
        """
        rows: list[Row] = [("clipped", gradients, clipped), ("not-clipped", gradients, not_clipped)]
        yield from self.table("inputs-not-mutated", *rows, expectation=expect("inputs-kept"))
        if not self.operation.sums_examples:
            # A sum over examples has another shape than the gradients, so no function writes it into them.
            yield from self.table("in-place-written", *rows, expectation=expect("inputs-written"))
        yield from self.table("results-independent", *rows, expectation=expect("no-shared-memory"))
        yield from self.table("surroundings-kept", *rows, expectation=expect("surroundings-kept"))
        # In 64 bits, the square of 2**32 is 0.
        whole, quiet = 2**32 if self.dtype == "float32" else int(not_clipped), expect("no-warnings")
        yield from self.rows(
            ("results-survive/clipped", gradients, clipped, {"followed": True}),
            ("results-survive/not-clipped", gradients, not_clipped, {"followed": True}),
            ("no-warnings/clipped", with_zeros, clipped, quiet),
            ("no-warnings/not-clipped", with_zeros, not_clipped, quiet),
            ("repeatable/twice", gradients, clipped, expect("repeatable")),
            ("integer-threshold/not-clipped", gradients, whole),
        )
        if self.dtype != "float16":
            yield self.case("integer-threshold", "beyond-64-bits", gradients, 2**64)
        if self.dtype == "float32":
            strided, backwards = (
                [replace(gradient, layout=layout) for gradient in gradients] for layout in ("strided", "reversed")
            )
            yield from self.rows(
                ("surroundings-kept/refused", gradients, -1.0, expect("surroundings-kept")),
                ("repeatable/reused", gradients, clipped, expect("repeatable", reused=True)),
                ("threads-agree/eight", gradients, clipped, expect("repeatable", threads=8)),
                ("layout/strided", strided, clipped),
                ("layout/reversed", backwards, clipped),
            )
        if self.dtype != "bfloat16":
            kind = f"numpy-{self.dtype}"
            yield self.case("numpy-threshold", "same-dtype", gradients, clipped, threshold_as=kind)

    def refused_thresholds(self, gradients: Sequence[Gradient]) -> Iterator[Case]:
        """Yield cases of negative thresholds."""
        yield from self.table(
            "negative-threshold-refused",
            ("minus-one", gradients, -1.0),
            ("minus-infinity", gradients, -math.inf),
            ("minus-one-as-integer", gradients, -1),
            ("just-below-zero", gradients, -(2.0**-20)),
            expectation=expect("refused"),
        )
        yield from self.refused_scalar(gradients)

    def refused_scalar(self, gradients: Sequence[Gradient]) -> Iterator[Case]:
        """Yield a case of a negative threshold that is a NumPy scalar. `float` is a base of float64's scalars only."""
        if self.dtype == "float32":
            rule, kind = "negative-threshold-refused", "numpy-float32"
            yield self.case(rule, "minus-one-as-scalar", gradients, -1.0, expect("refused"), threshold_as=kind)

    def large_scalars(
        self, gradients: Gradient | Sequence[Gradient], threshold: float = 300.0, variant: str = "square-beyond-range"
    ) -> Iterator[Case]:
        """Yield a case of a float16 scalar. Its square, or another product of it, is beyond the range of float16."""
        if self.dtype == "float16":
            yield self.case("numpy-threshold", variant, gradients, threshold, threshold_as="numpy-float16")


def list_makers(dtype: str, operations: Iterable[str] = OPERATIONS) -> list[Maker]:
    """Return a maker for each operation, which is named as in the ids of rules."""
    return [Maker(PREFIXES[operation], dtype) for operation in operations]
