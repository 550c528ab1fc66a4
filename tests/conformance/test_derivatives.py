"""Test the cases about derivatives with right and wrong functions."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Reply
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Cell

Arrays = Sequence[np.ndarray]


class Differentiable(Adapter):
    """An adapter for the derivatives of a clip by global norm, in NumPy."""

    #: At the threshold, the weight of the derivative from above.
    share = 0.0

    def about(self) -> About:
        """Return a framework that does not exist."""
        return About("fake", "1.0")

    def subjects(self) -> Sequence[EntryPoint]:
        """Return one function."""
        return [EntryPoint("fake.clip", "clip_by_global_norm", ("float32", "float64"), ("differentiable", "excludes"))]

    def call(self, call: Call) -> Reply:
        """Return the derivatives."""
        included = [gradient for gradient in call.gradients if gradient.need_clip]
        pulled = self.pull_back(
            [one.array.numpy() for one in included if one.array],
            [one.cotangent.numpy() for one in included if one.cotangent],
            call.options["clip_norm"],
        )
        found = iter(pulled)
        return Reply(tuple(Array.of(next(found)) if one.need_clip else one.cotangent for one in call.gradients))

    def pull_back(self, values: Arrays, vectors: Arrays, threshold: float) -> Arrays:
        """Return the derivatives of one group."""
        dtype = values[0].dtype.type
        size = np.sqrt(sum(float((x.astype(float) ** 2).sum()) for x in values))
        share = self.share if size == threshold else float(size > threshold)
        if not share:
            return vectors
        dot = sum(float((x.astype(float) * v).sum()) for x, v in zip(values, vectors, strict=True))
        above = [threshold / size * (v - x * dot / size**2) for x, v in zip(values, vectors, strict=True)]
        return [(share * y + (1 - share) * v).astype(dtype) for y, v in zip(above, vectors, strict=True)]


class FromAbove(Differentiable):
    """At the threshold, take the derivative from above."""

    share = 1.0


class Mean(Differentiable):
    """At the threshold, take the mean of both derivatives."""

    share = 0.5


class OneQuarter(Differentiable):
    """At the threshold, take another mixture of both derivatives, which is wrong."""

    share = 0.25


class ForgetsTheNorm(Differentiable):
    """Treat the norm as a constant."""

    def pull_back(self, values: Arrays, vectors: Arrays, threshold: float) -> Arrays:
        """Scale the vector only."""
        size = np.sqrt(sum(float((x.astype(float) ** 2).sum()) for x in values))
        return [(v * min(1.0, threshold / size)).astype(v.dtype) if size else v for v in vectors]


class LosesZero(Differentiable):
    """Return NaN as the derivative at a norm of zero."""

    def pull_back(self, values: Arrays, vectors: Arrays, threshold: float) -> Arrays:
        """Divide zero by zero."""
        if not any(x.any() for x in values):
            return [np.full_like(v, np.nan) for v in vectors]
        return super().pull_back(values, vectors, threshold)


class OffByLittle(Differentiable):
    """Return derivatives that have lost ten bits."""

    def pull_back(self, values: Arrays, vectors: Arrays, threshold: float) -> Arrays:
        """Scale by a little more than one."""
        found = super().pull_back(values, vectors, threshold)
        return [(one * (1 + 2.0**10 * np.finfo(one.dtype).eps)).astype(one.dtype) for one in found]


def check(kind: type[Adapter]) -> list[Cell]:
    """Return the cells of derivatives."""
    request = RunRequest("fake", lambda: InProcess(kind()), Selection(rules=("*.derivative",)))
    return list(run_adapter(request, io.StringIO()).cells)


@pytest.mark.parametrize(
    ("kind", "failing"),
    [
        (Differentiable, set()),
        (FromAbove, set()),
        (Mean, set()),
        (OneQuarter, {"at-threshold", "at-threshold-together"}),
        (ForgetsTheNorm, {"above", "above-together", "excluded", "zero-beside-others"}),
        (LosesZero, {"zero"}),
    ],
)
def test_each_wrong_derivative_fails(kind: type[Adapter], failing: set[str]) -> None:
    cells = check(kind)

    assert {cell.status for cell in cells} <= {"pass", "fail"}
    assert {cell.case.split("/")[1] for cell in cells if cell.status == "fail"} == failing


def test_tolerance_of_derivatives_is_a_few_roundings() -> None:
    assert {cell.status for cell in check(OffByLittle)} == {"fail"}
