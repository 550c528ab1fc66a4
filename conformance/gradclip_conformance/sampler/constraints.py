"""List the impossible pairs of levels, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from gradclip_adapters.operations import PREFIXES

from .axes import CROWDED, LONG, OPERATIONS, list_axes

__all__ = ["CLASHES", "Clash", "find_reason", "list_clashes"]


@dataclass(frozen=True)
class Clash:
    """Levels that cannot be combined with other levels."""

    some: frozenset[str]
    others: frozenset[str]
    reason: str
    #: The operations to which the clash applies.
    operations: tuple[str, ...] = OPERATIONS


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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


def _make_clash(some: str, others: str, reason: str, operations: Sequence[str] = OPERATIONS) -> Clash:
    return Clash(_split_words(some), _split_words(others), reason, tuple(operations))


def _list_dtypes_but(dtype: str) -> str:
    """Return the words of all dtypes except one."""
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
    _make_clash("scalar", "s0 s2 s4 s9 s33 " + LARGE, "a tensor without axes has one element"),
    _make_clash("even", "s1", "a matrix of even width has at least two elements"),
    _make_clash("square", "s2", "no square matrix has 2 or 3 elements"),
    _make_clash("n0", ELEMENTS, "an empty list has no elements"),
    _make_clash(
        "n0", _list_all_but_first([*OF_GRADIENTS, "none"]), "an empty list has no gradients to which this applies"
    ),
    _make_clash("n0", f"below far-below far-above tiny {BESIDE}", "an empty list has the norm 0"),
    _make_clash("n1", MIXED, "one tensor has one dtype"),
    _make_clash("n1", "x-first x-middle x-last x-but-one x-odd x-even", "with one tensor, all or none are excluded"),
    _make_clash("n1", "none-first none-middle none-last", "with one tensor, all or none are None"),
    _make_clash("n1", "shapes various mirrored", "a single tensor has no others beside it"),
    _make_clash("n1", "long-first long-middle", "a single tensor has only one place"),
    _make_clash("n2", "x-middle none-middle long-middle", "two tensors have no middle"),
    _make_clash("n1 n2 n3 n10", "x-from-32", "the list has no 33rd tensor"),
    _make_clash("n1 n2 n3 n10 n33", "x-from-64", "the list has no 65th tensor"),
    _make_clash("none-first", "long-first", "a gradient that is None is not long"),
    _make_clash("none-middle", "long-middle", "a gradient that is None is not long"),
    _make_clash("none-last", "long-last", "a gradient that is None is not long"),
    _make_clash("none-all", ELEMENTS, "a gradient that is None has no elements"),
    _make_clash("none-all", _list_all_but_first(OF_GRADIENTS), "a gradient that is None has no such property"),
    _make_clash("none-all", f"below far-below far-above tiny {BESIDE}", "without gradients the norm is 0"),
    _make_clash("s0", _list_all_but_first(("data", "magnitude")), "there is no element with this property"),
    _make_clash(
        NEAR,
        "numbers constant negative alternating one-large ends-equal sorted subnormals zeros " + NONFINITE,
        "rounding may move such a norm to either side: only zeros and four powers of two have an exact norm",
        BY_NORM,
    ),
    _make_clash("one-row one-column", "fortran", "a single row or column has the same memory layout as its transpose"),
    _make_clash(
        NEAR, "p3 p4 p1.5 p2.5 p0.5 p6", "the norm of this order is not exact, so either side is right", BY_NORM
    ),
    _make_clash(NEAR, EXTREME, "an exact norm needs squares within the range", BY_NORM),
    _make_clash(NEAR, "broadcast", "repeated elements have no exact norm", BY_NORM),
    _make_clash(NEAR, "s0", "without elements the norm is 0", BY_NORM),
    _make_clash(BESIDE, "integer", "a threshold so near the norm is not an integer"),
    _make_clash("zero infinite", "integer", "0 is always an integer, and infinity never is"),
    _make_clash("scalar-32", _list_dtypes_but("float32"), WIDER),
    _make_clash("scalar-64", _list_dtypes_but("float64"), WIDER),
    _make_clash(
        "long-integer",
        f"zero below above far-above tiny infinite {BESIDE}",
        "a norm of an ordinary size is far below 2^31",
    ),
    _make_clash(
        "long-integer",
        f"float16 bfloat16 {HALF} bfloat16+float32",
        "half precision cannot represent this integer",
    ),
    _make_clash("integer long-integer", EXTREME, "the integers of an ordinary size are far from such norms"),
    _make_clash(
        "integer",
        "far-below far-above tiny",
        "an integer fifty times as large or small leaves the range of half precision",
    ),
    _make_clash(
        NONFINITE, "zero infinite beyond", "the product of an infinity and zero is undefined: rules about NaN test it"
    ),
    _make_clash(NONFINITE, EXTREME, "the norm is not finite, whatever the other elements are"),
    _make_clash(NONFINITE, "strict", "the call must raise: the rule `error-if-nonfinite` tests it"),
    _make_clash(NONFINITE, "broadcast", "broadcasting repeats the NaN or infinity in a whole row or column"),
    _make_clash(EXTREME, "p1 p3 p4 p1.5 p2.5 p0.5 p6 p-inf", "these magnitudes are chosen for squares"),
    _make_clash(EXTREME, MIXED, "each dtype has its own range"),
    _make_clash(EXTREME, "subnormals edges one-large", "this data sets its own magnitude"),
    _make_clash(EXTREME, "infinite beyond", "infinity divided by infinity is undefined in plain arithmetic", BY_NORM),
    _make_clash("swapped", "bfloat16 bfloat16+float32", "the bfloat16 of NumPy has one byte order"),
    _make_clash("broadcast", "reused", "rows that share memory cannot be overwritten with other elements"),
    _make_clash("s0", "one-row one-column even odd square three five", "such a tensor has no units", OF_UNITS),
    _make_clash("s513", "one-column odd even square three five", "it has hundreds of units", OF_UNITS),
    _make_clash("s513", "e5 e17", "many long examples take long to judge", OF_EXAMPLES),
    _make_clash("beyond", f"float64 {MIXED}", "no finite number is beyond float64, and a list has one threshold"),
    _make_clash("beyond", "integer long-integer", "this relation sets the threshold"),
    _make_clash("beyond", "scalar-32 scalar-64", "such a scalar does not hold the threshold"),
    _make_clash("near-largest near-smallest", HALF, "the squares of float16 leave its range before its ends"),
    _make_clash("near-largest", "far-below below", "a threshold above such a norm is not a number of the dtype"),
    _make_clash("near-smallest", "far-above tiny", "such a threshold is subnormal or zero"),
    _make_clash("tiny", "squares-under", "such a threshold is subnormal or zero"),
    _make_clash("tiny", HALF, "the results are subnormal"),
    _make_clash("threaded", " ".join((*LONG, *CROWDED, "n10", "n0")), "threads repeat the call a hundred times"),
    _make_clash("read-only", "reused", "such an array cannot be overwritten with other elements"),
    _make_clash("p0.5", HALF, "the norm of some hundred elements leaves the range of float16"),
    _make_clash("p2.5 p3 p4 p6", HALF, "the powers of small elements leave the range of float16"),
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
        for one in clash.some & known.keys():
            for other in clash.others & known.keys():
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
