"""Check that a shipped pin excuses the pinned answer, but no other wrong answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.summary import is_same_behaviour, write_numbers
from gradclip_conformance.known.known_causes import KnownCause, load_known
from gradclip_conformance.oracle.formats import FORMATS, round_all
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell

Gradients = list[Any]
Factor = Callable[[Any, Any], Any]


def compute_norm(grads: Gradients) -> Any:
    """Return the norm, squared and summed in the gradients' dtype."""
    with np.errstate(all="ignore"):
        return np.sqrt(sum(np.sum(grad * grad, dtype=grad.dtype) for grad in grads))


def add_eps(eps: float) -> Factor:
    """Return the coefficient min(1, clip_norm / (norm + eps)) as a function."""
    return lambda norm, clip_norm: min(clip_norm / (float(norm) + eps), 1.0)


def make_clip(factor: Factor, change: Callable[[Any], Any] = lambda result: result) -> Callable[..., Gradients]:
    """Return a clip by global norm that multiplies by a factor and then changes its results."""

    def clip(grads: Gradients, *, clip_norm: float) -> Gradients:
        with np.errstate(all="ignore"):
            coefficient = factor(compute_norm(grads), clip_norm)
            return [change((grad * coefficient).astype(grad.dtype)) for grad in grads]

    return clip


def refuse(grads: Gradients, *, clip_norm: float) -> Gradients:
    """Raise instead of clipping."""
    msg = "no kernel"
    raise NotImplementedError(msg)


def erase_positive(result: Any) -> Any:
    """Replace positive elements by zero."""
    return np.minimum(result, 0)


#: The versions of the frameworks that showed the pinned answers.
VERSIONS = {"paddle": "3.3.1", "torch": "2.13.0"}


@dataclass(frozen=True)
class Pinned:
    """A pinned case of a framework, with an imitation of the pinned answer and other wrong answers."""

    adapter: str
    subject: str
    case: str
    as_pinned: Callable[..., Gradients]
    others: tuple[Callable[..., Gradients], ...]


EPS = add_eps(1e-6)
PINS = (
    Pinned(
        "paddle",
        "paddle.nn.utils.clip_grad_norm_",
        "global-norm.scaled-above/three-four-five/float64",
        make_clip(EPS),
        (
            make_clip(add_eps(1e-5)),
            make_clip(add_eps(1e-8)),
            make_clip(EPS, lambda result: result * 2),
            make_clip(EPS, lambda result: -result),
            make_clip(EPS, erase_positive),
            make_clip(lambda norm, clip_norm: 1.0),
            make_clip(lambda norm, clip_norm: np.nan),
            refuse,
        ),
    ),
    Pinned(
        "torch",
        "torch.nn.utils.clip_grad_norm_[foreach=None]",
        "global-norm.negative-threshold-refused/minus-one/float32",
        make_clip(EPS),
        (
            make_clip(lambda norm, clip_norm: clip_norm),
            make_clip(lambda norm, clip_norm: 1.02 * clip_norm / norm),
            make_clip(EPS, erase_positive),
            make_clip(EPS, np.abs),
            make_clip(lambda norm, clip_norm: 1.0),
            make_clip(lambda norm, clip_norm: np.nan),
        ),
    ),
    Pinned(
        "torch",
        "torch.nn.utils.clip_grad_norm_[foreach=None]",
        "global-norm.negative-threshold-refused/minus-infinity/float32",
        make_clip(EPS),
        (make_clip(EPS, np.abs), make_clip(EPS, erase_positive), make_clip(EPS, lambda result: result * 0)),
    ),
    Pinned(
        "torch",
        "torch.nn.utils.clip_grad_norm_[foreach=None]",
        "global-norm.overflow-of-squares/two-tensors/float32",
        make_clip(EPS),
        (
            make_clip(lambda norm, clip_norm: 1.0),
            make_clip(EPS, lambda result: result + 1),
            make_clip(EPS, lambda result: result / 0),
            refuse,
        ),
    ),
    Pinned(
        "paddle",
        "paddle.nn.ClipGradByGlobalNorm [called]",
        "global-norm.zero-dimensional/shape/float32",
        make_clip(EPS, lambda result: result.reshape(1)),
        (
            make_clip(EPS, lambda result: result.reshape(1, 1)),
            make_clip(EPS, lambda result: 2 * result.reshape(1)),
            make_clip(EPS, lambda result: result.reshape(1).astype(np.float64)),
            lambda grads, *, clip_norm: grads[:1],
            lambda grads, *, clip_norm: [grads[0], None],
        ),
    ),
)


def find_status(pin: Pinned, function: Callable[..., Gradients]) -> str:
    """Return the status of the pinned case for a function that runs under the framework's name and version."""
    # The function reports the version of NumPy, so leave out the versions of the entries that apply.
    held = [one for one in load_known(pin.adapter) if one.holds(VERSIONS[pin.adapter], {})]
    known = [replace(one, versions="") if isinstance(one, KnownCause) else one for one in held]
    with np.errstate(all="ignore"):
        connection = InProcess(PlainFunction(function, "clip_by_global_norm", name=pin.subject))
        planned = plan_cells(connection.description.subjects, list_all_cases(), Selection(cases=(pin.case,)))
        (cell,) = (run_cell(connection, each, 1.0, known=known) for each in planned)
    return cell.status


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.case)
def test_pinned_answer_is_a_deviation(pin: Pinned) -> None:
    assert find_status(pin, pin.as_pinned) == "deviation"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("pin", "other"),
    [(pin, other) for pin in PINS for other in pin.others],
    ids=[f"{pin.case}-{number}" for pin in PINS for number, _ in enumerate(pin.others)],
)
def test_another_wrong_answer_is_changed(pin: Pinned, other: Callable[..., Gradients]) -> None:
    assert find_status(pin, other) == "changed"


def move_elements(array: np.ndarray[Any, Any], towards: float) -> np.ndarray[Any, Any]:
    """Return the array with each element replaced by the next number."""
    return np.nextafter(array, array.dtype.type(towards))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("towards", [-np.inf, np.inf])
def test_pin_of_a_long_answer_does_not_depend_on_the_last_digit(dtype: str, towards: float) -> None:
    random = np.random.default_rng(7)
    given = random.standard_normal(1000).astype(dtype)
    got = (given / 3).astype(dtype)
    both = (got, move_elements(got, towards))
    for one in both:
        one[[10, 20]] = np.nan, np.inf
    pinned, again = (f"other:{write_numbers([Array.of(one)], [Array.of(given)])}" for one in both)

    assert is_same_behaviour(f"{pinned} off by 2^20 ulp", f"{again} off by 2^21 ulp")
    assert is_same_behaviour(f"{pinned} then unchanged", f"{again} then unchanged")
    assert not is_same_behaviour(f"{pinned} off by 2^20 ulp", f"{again} off by 2^22 ulp")
    assert not is_same_behaviour(f"{pinned} off by 2^20 ulp", again)
    assert not is_same_behaviour(f"{pinned} then unchanged", again)
    assert not is_same_behaviour(pinned, again.replace("other", "partly-nonfinite"))


@pytest.mark.parametrize(
    "other",
    [
        lambda got: got * 1.1,
        lambda got: -got,
        lambda got: got[::-1],
        lambda got: np.where(np.arange(got.size) % 3, got, 0),
        lambda got: np.where(np.arange(got.size) == 500, np.nan, got),
        lambda got: np.where(np.arange(got.size) == 500, np.inf, got),
        lambda got: np.where(np.arange(got.size) == 1, 2 * got, got),
        lambda got: got[:-1],
        np.abs,
    ],
    ids=["scaled", "other sign", "reversed", "a third lost", "a NaN", "an infinity", "a first one", "shorter", "abs"],
)
def test_pin_of_a_long_answer_excuses_only_that_answer(other: Callable[[Any], Any]) -> None:
    given = np.random.default_rng(7).standard_normal(1000).astype("float32")
    pinned, answered = (
        f"other:{write_numbers([Array.of(np.asarray(one, 'float32'))], [Array.of(given)])}"
        for one in (given / 3, other(given / 3))
    )

    assert is_same_behaviour(pinned, pinned)
    assert not is_same_behaviour(pinned, answered)


def summarize_numbers(values: np.ndarray[Any, Any], dtype: str) -> str:
    """Return the summary of results that are rounded to a dtype. The gradients alternate between 1 and -1."""
    given = Array(dtype, values.shape, round_all(np.resize([1.0, -1.0], values.size), dtype))
    return f"other:{write_numbers([Array(dtype, values.shape, round_all(values, dtype))], [given])}"


def make_numbers_of_like_size(count: int) -> np.ndarray[Any, Any]:
    """Return numbers between 1 and 2 of both signs."""
    random = np.random.default_rng(5)
    return random.uniform(1, 2, count) * random.choice([-1, 1], count)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("count", [20, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_pin_of_a_long_answer_forgives_the_rounding_of_another_machine(dtype: str, count: int, seed: int) -> None:
    values, unit = make_numbers_of_like_size(count), 2.0 ** (1 - FORMATS[dtype].precision)
    # Another order of summation changes the norm, and so scales all numbers. Each may then round to a neighbour.
    again = values * (1 + 2 * unit) * (1 + unit * np.random.default_rng(seed).choice([-1, 0, 1], count))

    assert is_same_behaviour(summarize_numbers(values, dtype), summarize_numbers(again, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("factor", [0.0, 2.0, -1.0])
@pytest.mark.parametrize("place", [3, 500, 999])
def test_wrong_element_is_not_excused_by_a_pin_of_a_long_answer(dtype: str, factor: float, place: int) -> None:
    values = np.sign(make_numbers_of_like_size(1000))
    wrong = values.copy()
    wrong[place] *= factor

    assert not is_same_behaviour(summarize_numbers(values, dtype), summarize_numbers(wrong, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
def test_swapped_elements_are_not_excused_by_a_pin_of_a_long_answer(dtype: str) -> None:
    values = np.sign(make_numbers_of_like_size(1000))
    other = np.flatnonzero(values != values[500])[200]
    swapped = values.copy()
    swapped[[500, other]] = values[[other, 500]]

    assert not is_same_behaviour(summarize_numbers(values, dtype), summarize_numbers(swapped, dtype))


@pytest.mark.parametrize("number", ["one", "1.2.3", "", "0x1", "1e"])
def test_summary_with_a_broken_number_never_matches(number: str) -> None:
    right = summarize_numbers(make_numbers_of_like_size(20), "float32")
    broken = re.sub(r"along [^,]*", f"along {number}", right)

    assert broken != right
    assert not is_same_behaviour(broken, right)


@pytest.mark.parametrize("scale", [1e-310, 1e-160, 1e160, 1e307])
def test_summary_stays_within_the_range(scale: float) -> None:
    given = np.full(100, scale)

    assert ", norm x0.5, along 1, " in write_numbers([Array.of(given / 2)], [Array.of(given)])


def test_pin_of_few_numbers_is_exact() -> None:
    assert not is_same_behaviour("other:1,2,3", "other:1,2,3.01")
    assert not is_same_behaviour("other:1,2 off by 2^20 ulp", "other:1,2 off by 2^21 ulp")
    assert not is_same_behaviour("all-nan", "all-zero")
