"""Check the policy objects. They are called on pairs, compared, printed and pickled."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradclip_spec import ClipByGlobalNorm, ClipByNorm, ClipByValue


@dataclass(eq=False)
class Parameter:
    """A parameter with the attributes of a parameter of Paddle."""

    need_clip: bool = True


POLICIES = [
    (ClipByValue(2.0), "ClipByValue(max=2.0, min=None)", [[2.0], [2.0]]),
    (ClipByValue(3.5, min=-1.0), "ClipByValue(max=3.5, min=-1.0)", [[3.0], [3.5]]),
    (ClipByNorm(2.0), "ClipByNorm(clip_norm=2.0)", [[2.0], [2.0]]),
    (ClipByGlobalNorm(2.5), "ClipByGlobalNorm(clip_norm=2.5)", [[1.5], [2.0]]),
]


@pytest.mark.parametrize(("policy", "text", "wanted"), POLICIES)
def test_pairs_keep_parameters_and_order(policy: Any, text: str, wanted: Any) -> None:
    plain, excluded = object(), Parameter(need_clip=False)
    kept = np.array([50.0])
    pairs = ((plain, np.array([3.0])), (excluded, kept), (Parameter(), None), (plain, np.array([4.0])))

    clipped = policy(iter(pairs))

    assert [parameter for parameter, _ in clipped] == [parameter for parameter, _ in pairs]
    assert clipped[1][1] is kept
    assert clipped[2][1] is None
    assert [clipped[0][1].tolist(), clipped[3][1].tolist()] == wanted


@pytest.mark.parametrize(("policy", "text", "wanted"), POLICIES)
def test_policies_are_values(policy: Any, text: str, wanted: Any) -> None:
    again = pickle.loads(pickle.dumps(policy))

    assert repr(policy) == text
    assert again == policy
    assert hash(again) == hash(policy)
    assert eval(text) == policy
    assert sum(policy == other for other, _, _ in POLICIES) == 1


def test_bad_arguments_are_refused_at_once() -> None:
    for make in (ClipByNorm, ClipByGlobalNorm):
        with pytest.raises(ValueError, match="clip_norm"):
            make(-1.0)
    with pytest.raises(ValueError, match="min"):
        ClipByValue(1.0, min=2.0)


@pytest.mark.parametrize(
    ("pairs", "error", "got"),
    [
        ([(1, 2, 3)], ValueError, "3 elements"),
        # Two gradients of two elements each: they could be mistaken for pairs.
        ([np.array([3.0, 4.0]), np.array([6.0, 8.0])], TypeError, "ndarray"),
        ({"ab": np.ones(2)}, TypeError, "dict"),
        (["ab"], TypeError, "str"),
        (5, TypeError, "int"),
        ([("weight", [np.ones(2)])], TypeError, "list"),
    ],
)
def test_anything_but_pairs_is_refused(pairs: Any, error: Any, got: str) -> None:
    for policy, _, _ in POLICIES:
        with pytest.raises(error, match=f"(pairs|gradient of a pair).* {got}"):
            policy(pairs)
