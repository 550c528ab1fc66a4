"""List the impossible pairs of levels, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from gradclip_adapters.operations import PREFIXES

from .axes import CROWDED, LONG, OPERATIONS, list_axes


class Clash(NamedTuple):
    """Levels that cannot be combined with other levels. The words of levels are separated by spaces."""

    some: str
    others: str
    reason: str
    #: The operations to which the clash applies.
    operations: tuple[str, ...] = OPERATIONS


NEAR = "just-below at just-above"
BESIDE = "slightly-below just-below at just-above slightly-above"
NONFINITE = "nan-first nan-middle nan-last infinity-first infinity-middle infinity-last"
HALF = "float16 float16+float32 float32+float16"
MIXED = "float16+float32 float64+float32 float32+float64 float32+float16 bfloat16+float32"
DTYPES = f"float32 float16 bfloat16 float64 {MIXED}"
#: The reason why a NumPy scalar is used as a threshold only for gradients of its own dtype.
WIDER = "rule `unusual-threshold` does not say how a NumPy scalar of another dtype changes the gradients' dtype"
EXTREME = "squares-over sum-over squares-under near-largest near-smallest"
BY_NORM = tuple(name for name, about in PREFIXES.items() if about.is_by_norm)
OF_EXAMPLES = tuple(name for name, about in PREFIXES.items() if about.sums_examples)
OF_UNITS = tuple(name for name, about in PREFIXES.items() if about.divides_gradients)
LARGE = "s513 s1025 s4097 s16385 s65537 s131073 s262145"
ELEMENTS = "s1 s2 s4 s9 s33 " + LARGE
#: The axes that need a gradient.
OF_GRADIENTS = (
    *("dtype", "shape", "layout", "company", "excluded", "place", "data", "magnitude"),
    *("threshold", "flags", "repeated"),
)


def _list_dtypes_but(dtype: str) -> str:
    return " ".join(word for word in DTYPES.split() if word != dtype)


def _list_all_but_first(names: Iterable[str]) -> str:
    """Return the words of all levels of some axes, except the first level of each axis."""
    found: dict[str, None] = {}
    for operation in OPERATIONS:
        for axis in list_axes(operation):
            if axis.name in names:
                found.update(dict.fromkeys(axis.list_words()[1:]))
    return " ".join(found)


CLASHES = (
    Clash("scalar", "s0 s2 s4 s9 s33 " + LARGE, "a tensor without axes has one element"),
    Clash("even", "s1", "a matrix of even width has at least two elements"),
    Clash("square", "s2", "no square matrix has 2 or 3 elements"),
    Clash("n0", ELEMENTS, "an empty list has no elements"),
    Clash("n0", _list_all_but_first([*OF_GRADIENTS, "none"]), "an empty list has no gradients to which this applies"),
    Clash("n0", f"below far-below far-above tiny {BESIDE}", "an empty list has the norm 0"),
    Clash("n1", MIXED, "one tensor has one dtype"),
    Clash("n1", "x-first x-middle x-last x-but-one x-odd x-even", "with one tensor, all or none are excluded"),
    Clash("n1", "none-first none-middle none-last", "with one tensor, all or none are None"),
    Clash("n1", "shapes various mirrored", "a single tensor has no others beside it"),
    Clash("n1", "long-first long-middle", "a single tensor has only one place"),
    Clash("n2", "x-middle none-middle long-middle", "two tensors have no middle"),
    Clash("n1 n2 n3 n10", "x-from-32", "the list has no 33rd tensor"),
    Clash("n1 n2 n3 n10 n33", "x-from-64", "the list has no 65th tensor"),
    Clash("none-first", "long-first", "a gradient that is None is not long"),
    Clash("none-middle", "long-middle", "a gradient that is None is not long"),
    Clash("none-last", "long-last", "a gradient that is None is not long"),
    Clash("none-all", ELEMENTS, "a gradient that is None has no elements"),
    Clash("none-all", _list_all_but_first(OF_GRADIENTS), "a gradient that is None has no such property"),
    Clash("none-all", f"below far-below far-above tiny {BESIDE}", "without gradients the norm is 0"),
    Clash("s0", _list_all_but_first(("data", "magnitude")), "there is no element with this property"),
    Clash(
        NEAR,
        "numbers constant negative alternating one-large ends-equal sorted subnormals zeros " + NONFINITE,
        "rounding may move such a norm to either side: only zeros and four powers of two have an exact norm",
        BY_NORM,
    ),
    Clash("one-row one-column", "fortran", "a single row or column has the same memory layout as its transpose"),
    Clash(NEAR, "p3 p4 p1.5 p2.5 p0.5 p6", "the norm of this order is not exact, so either side is right", BY_NORM),
    Clash(NEAR, EXTREME, "an exact norm needs squares within the range", BY_NORM),
    Clash(NEAR, "broadcast", "repeated elements have no exact norm", BY_NORM),
    Clash(NEAR, "s0", "without elements the norm is 0", BY_NORM),
    Clash(BESIDE, "integer", "a threshold so near the norm is not an integer"),
    Clash("zero infinite", "integer", "0 is always an integer, and infinity never is"),
    Clash("scalar-32", _list_dtypes_but("float32"), WIDER),
    Clash("scalar-64", _list_dtypes_but("float64"), WIDER),
    Clash(
        "long-integer",
        f"zero below above far-above tiny infinite {BESIDE}",
        "a norm of an ordinary size is far below 2^31",
    ),
    Clash(
        "long-integer",
        f"float16 bfloat16 {HALF} bfloat16+float32",
        "half precision cannot represent this integer",
    ),
    Clash("integer long-integer", EXTREME, "the integers of an ordinary size are far from such norms"),
    Clash(
        "integer",
        "far-below far-above tiny",
        "an integer fifty times as large or small leaves the range of half precision",
    ),
    Clash(
        NONFINITE, "zero infinite beyond", "the product of an infinity and zero is undefined: rules about NaN test it"
    ),
    Clash(NONFINITE, EXTREME, "the norm is not finite, whatever the other elements are"),
    Clash(NONFINITE, "strict", "the call must raise: the rule `error-if-nonfinite` tests it"),
    Clash(NONFINITE, "broadcast", "broadcasting repeats the NaN or infinity in a whole row or column"),
    Clash(EXTREME, "p1 p3 p4 p1.5 p2.5 p0.5 p6 p-inf", "these magnitudes are chosen for squares"),
    Clash(EXTREME, MIXED, "each dtype has its own range"),
    Clash(EXTREME, "subnormals edges one-large", "this data sets its own magnitude"),
    Clash(EXTREME, "infinite beyond", "infinity divided by infinity is undefined in plain arithmetic", BY_NORM),
    Clash("swapped", "bfloat16 bfloat16+float32", "the bfloat16 of NumPy has one byte order"),
    Clash("broadcast", "reused", "rows that share memory cannot be overwritten with other elements"),
    Clash("s0", "one-row one-column even odd square three five", "such a tensor has no units", OF_UNITS),
    Clash("s513", "one-column odd even square three five", "it has hundreds of units", OF_UNITS),
    Clash("s513", "e5 e17", "many long examples take long to judge", OF_EXAMPLES),
    Clash("beyond", f"float64 {MIXED}", "no finite number is beyond float64, and a list has one threshold"),
    Clash("beyond", "integer long-integer", "this relation sets the threshold"),
    Clash("beyond", "scalar-32 scalar-64", "such a scalar does not hold the threshold"),
    Clash("near-largest near-smallest", HALF, "the squares of float16 leave its range before its ends"),
    Clash("near-largest", "far-below below", "a threshold above such a norm is not a number of the dtype"),
    Clash("near-smallest", "far-above tiny", "such a threshold is subnormal or zero"),
    Clash("tiny", "squares-under", "such a threshold is subnormal or zero"),
    Clash("tiny", HALF, "the results are subnormal"),
    Clash("threaded", " ".join((*LONG, *CROWDED, "n10", "n0")), "threads repeat the call a hundred times"),
    Clash("read-only", "reused", "such an array cannot be overwritten with other elements"),
    Clash("p0.5", HALF, "the norm of some hundred elements leaves the range of float16"),
    Clash("p2.5 p3 p4 p6", HALF, "the powers of small elements leave the range of float16"),
)


@cache
def list_clashes(operation: str) -> dict[str, dict[str, str]]:
    """Return, for each level of an operation's axes, the levels that cannot be combined with it, with reasons."""
    axes = list_axes(operation)
    known = {word: axis.name for axis in axes for word in axis.list_words()}
    found: dict[str, dict[str, str]] = {word: {} for word in known}
    for clash in CLASHES:
        if operation not in clash.operations:
            continue
        for one in known.keys() & clash.some.split():
            for other in known.keys() & clash.others.split():
                if known[one] != known[other]:
                    found[one].setdefault(other, clash.reason)
                    found[other].setdefault(one, clash.reason)
    return found


def find_reason(operation: str, words: Sequence[str]) -> str | None:
    """Return why levels cannot be combined, or None if no two of them clash."""
    clashes = list_clashes(operation)
    for place, one in enumerate(words):
        for other in words[place + 1 :]:
            if other in clashes[one]:
                return clashes[one][other]
    return None
