"""Check that a shipped entry excuses the known failure, but no other wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.known.failures import load_known_of
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


#: The versions of the frameworks that showed the known answers.
VERSIONS = {"paddle": "3.3.1", "torch": "2.13.0"}


@dataclass(frozen=True)
class Known:
    """A known case of a framework, with an imitation of the known answer and other wrong answers."""

    adapter: str
    subject: str
    case: str
    as_known: Callable[..., Gradients]
    others: tuple[Callable[..., Gradients], ...]


EPS = add_eps(1e-6)
KNOWN = (
    Known(
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
    Known(
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
    Known(
        "torch",
        "torch.nn.utils.clip_grad_norm_[foreach=None]",
        "global-norm.negative-threshold-refused/minus-infinity/float32",
        make_clip(EPS),
        (make_clip(EPS, np.abs), make_clip(EPS, erase_positive), make_clip(EPS, lambda result: result * 0)),
    ),
    Known(
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
    Known(
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


def find_status(one: Known, function: Callable[..., Gradients]) -> str:
    """Return the status of the known case for a function that runs under the framework's name and version."""
    known = load_known_of(one.adapter, VERSIONS[one.adapter], {})
    with np.errstate(all="ignore"):
        connection = InProcess(PlainFunction(function, "clip_by_global_norm", name=one.subject))
        planned = plan_cells(connection.description.subjects, list_all_cases(), Selection(cases=(one.case,)))
        (cell,) = (run_cell(connection, each, 1.0, known=known) for each in planned)
    return cell.status


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("one", KNOWN, ids=lambda one: one.case)
def test_known_answer_is_known(one: Known) -> None:
    assert find_status(one, one.as_known) == "known"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("one", "other"),
    [(one, other) for one in KNOWN for other in one.others],
    ids=[f"{one.case}-{number}" for one in KNOWN for number, _ in enumerate(one.others)],
)
def test_another_wrong_answer_fails(one: Known, other: Callable[..., Gradients]) -> None:
    assert find_status(one, other) == "fail"
