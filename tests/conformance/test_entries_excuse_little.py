"""Check that a shipped entry excuses the known failure, but no other wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.known.failures import load_known_of
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell

Clip = Callable[..., list[Any]]


def make_clip(factor: Callable[[Any, Any], Any], change: Callable[[Any], Any] = lambda result: result) -> Clip:
    """Return a clip by global norm that multiplies by a factor and then changes its results.

    The norm is squared and summed in the gradients' dtype.
    """

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        with np.errstate(all="ignore"):
            norm = np.sqrt(sum(np.sum(grad * grad, dtype=grad.dtype) for grad in grads))
            return [change((grad * factor(norm, clip_norm)).astype(grad.dtype)) for grad in grads]

    return clip


def add_epsilon(epsilon: float, change: Callable[[Any], Any] = lambda result: result) -> Clip:
    """Return a clip that multiplies by min(1, clip_norm / (norm + epsilon)) and then changes its results."""
    return make_clip(lambda norm, clip_norm: min(clip_norm / (float(norm) + epsilon), 1.0), change)


def refuse(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Raise instead of clipping."""
    msg = "no kernel"
    raise NotImplementedError(msg)


#: Answers. The first two imitate those of the frameworks.
ANSWERS: dict[str, Clip] = {
    "epsilon": add_epsilon(1e-6),
    "one axis": add_epsilon(1e-6, lambda result: result.reshape(-1)),
    "two axes": add_epsilon(1e-6, lambda result: result.reshape(1, -1)),
    "larger epsilon": add_epsilon(1e-5),
    "smaller epsilon": add_epsilon(1e-8),
    "doubled": add_epsilon(1e-6, lambda result: result * 2),
    "negated": add_epsilon(1e-6, lambda result: -result),
    "absolute": add_epsilon(1e-6, np.abs),
    "erased": add_epsilon(1e-6, lambda result: np.minimum(result, 0)),
    "zeros": add_epsilon(1e-6, lambda result: result * 0),
    "plus one": add_epsilon(1e-6, lambda result: result + 1),
    "divided by zero": add_epsilon(1e-6, lambda result: result / 0),
    "wider": add_epsilon(1e-6, lambda result: result.astype(np.float64)),
    "unclipped": make_clip(lambda norm, clip_norm: 1.0),
    "NaN": make_clip(lambda norm, clip_norm: np.nan),
    "times threshold": make_clip(lambda norm, clip_norm: clip_norm),
    "a little larger": make_clip(lambda norm, clip_norm: 1.02 * clip_norm / norm),
    "fewer": lambda grads, *, clip_norm: grads[:-1],
    "None": lambda grads, *, clip_norm: [*grads[:-1], None],
    "refused": refuse,
}

TORCH = ("torch", "2.13.0", "torch.nn.utils.clip_grad_norm_[foreach=None]")
OTHER_EPSILONS = {"larger epsilon", "smaller epsilon"}
#: For each case: the adapter, the version and the entry point with a known failure, the answer that imitates it, and
#: the answers that are right there, or equal to the known one.
KNOWN = {
    "global-norm.scaled-above/three-four-five/float64": (
        ("paddle", "3.3.1", "paddle.nn.utils.clip_grad_norm_"),
        "epsilon",
        {"one axis", "absolute", "wider"},
    ),
    "global-norm.negative-threshold-refused/minus-one/float32": (
        TORCH,
        "epsilon",
        {"one axis", "smaller epsilon", "refused"},
    ),
    "global-norm.negative-threshold-refused/minus-infinity/float32": (
        TORCH,
        "epsilon",
        {"one axis", *OTHER_EPSILONS, "doubled", "plus one", "divided by zero", "times threshold"}
        | {"a little larger", "refused"},
    ),
    "global-norm.overflow-of-squares/two-tensors/float32": (
        TORCH,
        "epsilon",
        {"one axis", *OTHER_EPSILONS, "doubled", "negated", "absolute", "erased", "zeros", "a little larger"},
    ),
    "global-norm.zero-dimensional/shape/float32": (
        ("paddle", "3.3.1", "paddle.nn.ClipGradByGlobalNorm [called]"),
        "one axis",
        {"epsilon", "smaller epsilon"},
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("case", KNOWN)
def test_only_the_known_answer_is_excused(case: str, answer: str) -> None:
    (adapter, version, subject), imitation, others = KNOWN[case]
    with np.errstate(all="ignore"):
        connection = InProcess(PlainFunction(ANSWERS[answer], "clip_by_global_norm", name=subject))
        planned = plan_cells(connection.description.subjects, list_all_cases(), Selection(cases=(case,)))
        (cell,) = (run_cell(connection, one, 1.0, known=load_known_of(adapter, version, {})) for one in planned)

    expected = {"known"} if answer == imitation else {"known", "pass"} if answer in others else {"fail"}
    assert cell.status in expected
