"""Measure the largest errors of clips by norm for each size and dtype, and the inputs that cause them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array, Call, EntryPoint, Gradient, Reply
from gradclip_adapters.operations import OPERATIONS

from ..judge.arrays import measure_norm_distance, read_norm
from ..judge.claims import select_claims
from ..judge.model import Claim, Connection, Died, Mistaken, NotSupported, Raised, Replied, TimedOut
from ..oracle.arrays import decode
from ..oracle.distances import measure_largest_distance, measure_spacing
from ..oracle.formats import FORMATS, read_float64_values, round_all
from ..oracle.formula import PLAIN, Formula
from ..oracle.integers import compute_coefficient, compute_norm
from ..oracle.model import Enclosure, ExpectedArray

Doubles = npt.NDArray[np.float64]

THRESHOLD = 1.0
SEEDS = (1, 2)
#: From this size on, use only one seed and the two most different arrangements. A second random array of this size
#: would show little more, and sending it takes seconds.
LARGE = 10**5

#: Seconds that one call may take.
LIMIT = 300.0


@dataclass(frozen=True)
class Row:
    """The largest errors of one entry point in one dtype at one size."""

    subject: str
    dtype: str
    size: int
    #: The largest error of the norm, in ulp, or None if no norm is returned.
    norm: float | None
    norm_input: str
    elements: float
    elements_input: str
    #: The largest change of the norm or of an element, in ulp, if the order or the grouping of the tensors changes.
    spread: float
    #: The reason why the row holds no numbers. It is empty if it holds them.
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the row as it stands in a file."""
        return {
            "record": "accuracy",
            **{k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()},
        }


def draw_normal(size: int, dtype: str, seed: int) -> Array:
    """Return standard normal numbers, rounded to the dtype."""
    return _pack_values(np.random.default_rng(seed).standard_normal(size), dtype)


def make_swamped(size: int, dtype: str, seed: int) -> Array:
    """Return many small numbers and one element of 1. In the dtype, 1 plus the square of a small number rounds to 1."""
    values = np.full(size, math.sqrt(0.96 * 2.0 ** -FORMATS[dtype].precision))
    values[seed % size] = 1.0
    return _pack_values(values, dtype)


INPUTS: Mapping[str, Callable[[int, str, int], Array]] = {"normal": draw_normal, "swamped": make_swamped}


def _pack_values(values: Doubles, dtype: str) -> Array:
    return Array(dtype, values.shape, round_all(values, dtype))


def list_sizes(largest: int) -> list[int]:
    """Return the powers of ten from 100 up to the largest size."""
    return [10**k for k in range(2, 1 + round(math.log10(largest)))]


def measure_accuracy(
    connection: Connection, entry_point: EntryPoint, dtype: str, size: int, claims: Sequence[Claim] = ()
) -> Row:
    """Return the largest errors of an entry point, over all inputs and arrangements."""
    norm: tuple[float, str] | None = None
    elements, spread = (-1.0, ""), 0.0
    for name, seed in product(INPUTS, SEEDS if size < LARGE else SEEDS[:1]):
        array, exact = _make_input(name, size, dtype, seed)
        factor = compute_coefficient(exact, THRESHOLD, _find_formula(entry_point, claims))
        expected = ExpectedArray(decode(array.data, dtype), factor)
        first: tuple[Array, Array | None] | None = None
        for arrangement in _list_arrangements(entry_point.operation, size):
            label = f"{name}, seed {seed}, {arrangement}"
            pieces = _arrange(array, arrangement)
            answer = connection.ask(_make_call(entry_point, pieces), LIMIT)
            fault = _find_fault(answer.reply, pieces) if isinstance(answer, Replied) else _explain(answer)
            if not isinstance(answer, Replied) or fault:
                return Row(entry_point.name, dtype, size, None, "", 0.0, "", 0.0, f"{label}: {fault}"[:300])
            joined = _join_results(answer.reply.gradients, ARRANGEMENTS[arrangement][1])
            elements = _keep_worse(elements, (measure_largest_distance(joined.data, expected, dtype)[0], label))
            if answer.reply.norm is not None:
                distance = measure_norm_distance(answer.reply.norm, exact.middle, dtype)
                norm = _keep_worse(norm or (-1.0, ""), (distance, label))
            first = first or (joined, answer.reply.norm)
            norms_apart = _measure_norms(first[1], answer.reply.norm, dtype)
            spread = max(spread, _measure_largest_gap(first[0], joined), norms_apart)
    norm_ulp, norm_input = norm or (None, "")
    return Row(entry_point.name, dtype, size, norm_ulp, norm_input, *elements, spread)


def rebuild_gradients(worst: str, size: int, dtype: str) -> list[Array]:
    """Return the gradients that a row names as its worst input, such as `"normal, seed 1, ten tensors"`."""
    name, seed, arrangement = worst.split(", ")
    return _arrange(INPUTS[name](size, dtype, int(seed.removeprefix("seed "))), arrangement)


# Every entry point gets the same inputs. The inputs of all sizes and dtypes take about 400 MB.
@lru_cache(maxsize=256)
def _make_input(name: str, size: int, dtype: str, seed: int) -> tuple[Array, Enclosure]:
    array = INPUTS[name](size, dtype, seed)
    return array, compute_norm([decode(array.data, dtype)])


def _find_fault(reply: Reply, pieces: Sequence[Array]) -> str:
    """Return why the errors of a reply cannot be measured. The text is empty if they can."""
    if reply.malformed is not None:
        return f"the function {reply.malformed}"
    found = [None if one is None else (one.dtype, one.shape) for one in reply.gradients]
    if found != [(one.dtype, one.shape) for one in pieces]:
        return "the results do not have the number, the dtypes and the shapes of the gradients"
    try:
        if reply.norm is not None:
            read_norm(reply.norm)
    except ValueError as error:
        return str(error)
    return ""


def _explain(answer: Raised | NotSupported | Mistaken | Died | TimedOut) -> str:
    """Return the reason why an entry point gave no results."""
    match answer:
        case Raised(kind, text):
            return f"{kind}: {text}"
        case TimedOut(seconds, why):
            return why or f"no answer within {seconds:g} s"
    return answer.text


def _keep_worse(known: tuple[float, str], found: tuple[float, str]) -> tuple[float, str]:
    return found if found[0] > known[0] else known


def _find_formula(entry_point: EntryPoint, claims: Sequence[Claim]) -> Formula:
    """Return the formula from which errors are measured: the one that the entry point documents, or the neutral one."""
    rule = f"{OPERATIONS[entry_point.operation].prefix}.large-tensor-accuracy"
    formulas = [claim.formula for claim in select_claims(claims, rule, entry_point) if claim.formula is not None]
    return formulas[0] if formulas else PLAIN


def _measure_norms(first: Array | None, second: Array | None, dtype: str) -> float:
    if first is None or second is None:
        return 0.0
    value = read_norm(first)
    if math.isfinite(value):
        return measure_norm_distance(second, Fraction(value), dtype)
    return 0.0 if np.array_equal(value, read_norm(second), equal_nan=True) else math.inf


def _measure_largest_gap(first: Array, second: Array) -> float:
    """Return the largest distance between two arrays, in ulp of the first one, or infinity if only one is finite."""
    if first == second:
        return 0.0
    one, other = read_float64_values(first), read_float64_values(second)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        gaps = np.where(same, 0.0, np.abs(one - other) / measure_spacing(one, FORMATS[first.dtype]))
    return float(np.where(np.isnan(gaps), np.inf, gaps).max(initial=0.0))


#: The elements are split into so many tensors, and are taken in this direction.
ARRANGEMENTS = {
    "one tensor": (1, 1),
    "one tensor from behind": (1, -1),
    "ten tensors": (10, 1),
    "ten tensors from behind": (10, -1),
}


def _list_arrangements(operation: str, size: int) -> list[str]:
    """Return the arrangements that do not change the exact results. Only tensors that share a norm may be split."""
    names = [name for name, (count, _) in ARRANGEMENTS.items() if count == 1 or OPERATIONS[operation].is_global]
    return names if size < LARGE else [names[0], names[-1]]


def _arrange(array: Array, arrangement: str) -> list[Array]:
    count, step = ARRANGEMENTS[arrangement]
    return [_make_array(part, array.dtype) for part in np.array_split(array.bits()[::step], count)]


def _make_array(bits: npt.NDArray[Any], dtype: str) -> Array:
    return Array(dtype, bits.shape, np.ascontiguousarray(bits).tobytes())


def _join_results(results: Sequence[Array | None], step: int) -> Array:
    held = [array for array in results if array is not None]
    dtype = held[0].dtype
    bits = np.concatenate([np.frombuffer(array.data, dtype=DTYPES[dtype]) for array in held])
    return _make_array(bits[::step], dtype)


def _make_call(entry_point: EntryPoint, pieces: Sequence[Array]) -> Call:
    gradients = tuple(Gradient(f"g{i}", array) for i, array in enumerate(pieces))
    return Call(entry_point.name, gradients, {"clip_norm": THRESHOLD})
