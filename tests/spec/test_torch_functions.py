"""Compare `gradclip_spec.torch` with torch's two functions, option by option, and check calls that torch gets wrong."""

from __future__ import annotations

import inspect
import math
import operator
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gradclip_spec
import gradclip_spec.torch as reference
from gradclip_spec.backends import torch_private
from gradclip_spec.kernels import threads

theirs = torch.nn.utils

dtypes = st.sampled_from(["float16", "bfloat16", "float32", "float64"])
elements = st.floats(-100, 100, width=16, allow_subnormal=False) | st.sampled_from([0.0, math.inf, math.nan])
gradients = st.lists(st.none() | st.lists(elements, min_size=0, max_size=6), min_size=0, max_size=5)


def make(lists: Any, dtype: str) -> list[Any]:
    """Return parameters with gradients of these elements."""
    parameters = []
    for values in lists:
        parameter = torch.nn.Parameter(torch.zeros(len(values or []), dtype=getattr(torch, dtype)))
        parameter.grad = None if values is None else torch.tensor(values, dtype=parameter.dtype)
        parameters.append(parameter)
    return parameters


def assert_close(ours: list[Any], others: list[Any]) -> None:
    """Assert that gradients agree within a few roundings."""
    __tracebackhide__ = True
    for x, y in zip(ours, others, strict=True):
        assert (x.grad is None) == (y.grad is None)
        if x.grad is not None:
            if not x.grad.isnan().any() and y.grad.isnan().any():
                # If the norm is zero, torch multiplies max_norm by the reciprocal of 1e-6, which is infinite in
                # float16. Zero times infinity is NaN.
                continue
            eps = torch.finfo(x.dtype).eps
            torch.testing.assert_close(x.grad, y.grad, rtol=4 * eps, atol=4 * float(eps), equal_nan=True)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(
    gradients,
    dtypes,
    st.sampled_from([0.0, 0.5, 1, 30.0, 1e4, math.inf]),
    st.sampled_from([1, 2, 3.0, math.inf, "inf"]),
    st.booleans(),
    st.sampled_from([None, True, False]),
)
def test_clip_grad_norm_agrees_with_torch(
    lists: Any, dtype: str, max_norm: float, norm_type: Any, error_if_nonfinite: bool, foreach: bool | None
) -> None:
    ours, others = make(lists, dtype), make(lists, dtype)
    options = {"norm_type": norm_type, "error_if_nonfinite": error_if_nonfinite, "foreach": foreach}
    sizes = [x.grad.numel() for x in ours if x.grad is not None]
    if 0 in sizes and norm_type in (math.inf, "inf"):
        # torch cannot compute the maximum of an empty tensor.
        return
    refused = ""
    try:
        expected = theirs.clip_grad_norm_(others, max_norm, **options)
    except RuntimeError as error:
        refused = str(error)
    if refused:
        with pytest.raises(RuntimeError, match=re.escape(refused)):
            reference.clip_grad_norm_(ours, max_norm, **options)
        return
    norm = reference.clip_grad_norm_(ours, max_norm, **options)
    assert (norm.dtype, norm.shape, norm.device) == (expected.dtype, expected.shape, expected.device)
    eps = torch.finfo(norm.dtype).eps
    torch.testing.assert_close(norm, expected, rtol=8 * eps, atol=0.0, equal_nan=True)
    if not math.isnan(float(expected)) and max_norm != math.inf:
        assert_close(ours, others)


@settings(derandomize=True, deadline=None, max_examples=80, database=None)
@given(gradients, dtypes, st.sampled_from([0.0, 0.5, 3, math.inf]), st.sampled_from([None, True, False]))
def test_clip_grad_value_agrees_with_torch(lists: Any, dtype: str, clip_value: float, foreach: bool | None) -> None:
    ours, others = make(lists, dtype), make(lists, dtype)
    assert reference.clip_grad_value_(ours, clip_value, foreach) is None
    if any(x.grad is not None for x in others):
        theirs.clip_grad_value_(others, clip_value, foreach)
    assert_close(ours, others)


def test_signatures_equal_those_of_torch() -> None:
    for name in reference.__all__:
        parameters = inspect.signature(getattr(theirs, name)).parameters.values()
        wanted = [(x.name, x.kind, x.default) for x in parameters]
        own = inspect.signature(getattr(reference, name)).parameters.values()
        assert [(x.name, x.kind, x.default) for x in own] == wanted


def test_clip_is_right_if_torch_overflows() -> None:
    for values in ([1e30, 1e30], [1e-30, 1e-30]):
        (ours,) = make([values], "float32")
        norm = reference.clip_grad_norm_(ours, 1.0)
        assert float(norm) == pytest.approx(math.hypot(*values))
        assert float(ours.grad[0]) == pytest.approx(min(values[0], 0.5**0.5))


def test_single_parameter_generator_and_empty_list() -> None:
    (one,) = make([[3.0, 4.0]], "float32")
    assert float(reference.clip_grad_norm_(one, 1.0)) == 5.0
    assert one.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
    reference.clip_grad_norm_((x for x in [one]), 0.5)
    assert one.grad.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)
    reference.clip_grad_value_(one, 0.25)
    assert one.grad.tolist() == [0.25, 0.25]
    with pytest.warns(UserWarning, match="empty generator"):
        assert float(reference.clip_grad_norm_((x for x in []), 1.0)) == 0.0


def test_negative_thresholds_are_refused() -> None:
    parameters = make([[3.0, 4.0]], "float32")
    with pytest.raises(ValueError, match="`max_norm` must be a number that is zero or more"):
        reference.clip_grad_norm_(parameters, -1.0)
    with pytest.raises(ValueError, match="zero or more"):
        reference.clip_grad_value_(parameters, -1.0)
    assert parameters[0].grad.tolist() == [3.0, 4.0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="torch uses GNU's OpenMP only on Linux")
def test_team_runs_on_torchs_own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    team = torch_private.find_team()
    assert team is not None
    meeting, seen = threading.Barrier(2, timeout=600), []

    def meet() -> None:
        meeting.wait()
        seen.append(threading.get_ident())

    for _ in range(2):
        team(meet, 2)
    # The same two threads come again.
    assert len(seen) == 4
    assert len(set(seen)) == 2
    assert threading.get_ident() in seen
    with pytest.raises(ZeroDivisionError):
        threads.spread(lambda first, last: operator.floordiv(last, 0), [1, 1], 2, team)
    monkeypatch.setattr(torch_private, "_process", -1)
    assert torch_private.find_team() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="torch uses GNU's OpenMP only on Linux")
def test_team_can_be_interrupted() -> None:
    team = torch_private.find_team()
    caller = threading.get_ident()

    def interrupt() -> None:
        if threading.get_ident() == caller:
            signal.raise_signal(signal.SIGINT)

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            team(interrupt, 2)


@pytest.mark.parametrize("owns", [True, False])
def test_results_do_not_depend_on_the_threads(owns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not owns:
        monkeypatch.setattr(torch_private, "_process", -1)
    tensors = [torch.randn(size, generator=torch.manual_seed(5)) for size in (3, 2_500_001, 70_000)]
    seen = set()
    for count in (1, 2, 3):
        monkeypatch.setenv("OMP_NUM_THREADS", str(count))
        monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
        copies = [x.clone() for x in tensors]
        _, norm = gradclip_spec.clip_by_global_norm(copies, 1.0, inplace=True)
        seen.add((float(norm), b"".join(x.numpy().tobytes() for x in copies)))
    assert len(seen) == 1


FORKING = """
import os, warnings
import torch
import gradclip_spec

tensors = [torch.ones(1 << 22), torch.ones(5)]
expected = float(gradclip_spec.global_norm(tensors))
warnings.simplefilter("ignore")
child = os.fork()
if not child:
    os._exit(float(gradclip_spec.global_norm(tensors)) != expected)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing on this system")
def test_clip_works_after_a_fork() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", FORKING], timeout=600, check=False, env=environment)
    assert done.returncode == 0
