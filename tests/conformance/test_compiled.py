"""Check the rule about compiled forms: other roundings are accepted, and two errors count as equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mutants.abilities import UnusualCalls
from mutants.steps import Array, ByGlobalNorm, ByNorm, ByValue, ClipFunction
from runs import run_rules

from gradclip_reports.records import Cell


class OtherRoundings:
    """Multiply by the coefficient, or divide by its reciprocal when compiled."""

    is_compiled = False

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        """Scale one gradient."""
        one = grad.dtype.type
        with np.errstate(invalid="ignore"):
            if self.is_compiled:
                return np.asarray(grad / (one(norm) / one(clip_norm)))
            return np.asarray(grad * (one(clip_norm) / one(norm)))


class OtherRoundingsByNorm(OtherRoundings, ByNorm):
    """Clip each gradient by its own norm."""


class OtherRoundingsByGlobalNorm(OtherRoundings, ByGlobalNorm):
    """Clip all gradients by the global norm."""


class LimitsOtherwise(ByValue):
    """Call NumPy's function, or make two selections when compiled."""

    is_compiled = False

    def limit(self, grad: Array, low: float, high: float) -> Array:
        """Clip one gradient."""
        if not self.is_compiled:
            return super().limit(grad, low, high)
        limits = np.array([low, high], grad.dtype)
        return np.where(grad > limits[1], limits[1], np.where(grad < limits[0], limits[0], grad))


class Refuses(ByGlobalNorm):
    """Raise if a result is not finite, with another exception when compiled."""

    is_compiled = False

    def hand_back(self, grad: Array, result: Any) -> Any:
        """Return one result, or raise."""
        if np.isfinite(result).all():
            return result
        kind = FloatingPointError if self.is_compiled else ValueError
        raise kind("not finite")


def run_cells(function: ClipFunction) -> list[Cell]:
    """Return the cells of the rule for a function with two forms."""
    dtypes = ("float16", "float32", "float64")
    adapter = UnusualCalls(function, function.operation, dtypes, in_place=False)
    return list(run_rules(adapter, "*.compiled-agrees", dtypes=dtypes).cells)


@pytest.mark.parametrize("function", [OtherRoundingsByNorm, OtherRoundingsByGlobalNorm, LimitsOtherwise, Refuses])
def test_compiled_form_that_rounds_differently_is_not_blamed(function: type[ClipFunction]) -> None:
    cells = run_cells(function())

    assert {cell.status for cell in cells} == {"pass"}, [cell.detail for cell in cells if cell.status != "pass"]
    assert {cell.case.split("/")[1] for cell in cells} == {
        "clipped", "not-clipped", "long", "nan", "infinity", "zeros", "excluded", "none",
    }  # fmt: skip


def test_error_in_one_form_is_shown_beside_the_other_answer() -> None:
    class RefusesCompiled(Refuses):
        """Raise only when compiled."""

        def hand_back(self, grad: Array, result: Any) -> Any:
            """Return one result, or raise."""
            return super().hand_back(grad, result) if self.is_compiled else result

    blamed = [cell for cell in run_cells(RefusesCompiled()) if cell.status != "pass"]

    assert {cell.case.split("/")[1] for cell in blamed} == {"nan", "infinity"}
    assert all(
        "The uncompiled call returned" in cell.detail and "The compiled call raised Floating" in cell.detail
        for cell in blamed
    )


def test_forms_round_differently() -> None:
    cells = run_cells(OtherRoundingsByGlobalNorm())

    assert max(cell.ulp or 0.0 for cell in cells) >= 1


def test_poor_accuracy_when_compiled_is_quality() -> None:
    class LosesDigits(ByGlobalNorm):
        """Lose as many digits of a long sum as the dtype's arithmetic may lose, when compiled."""

        is_compiled = False

        def compute_global_norm(self, tensors: Any, p: float) -> float:
            norm = super().compute_global_norm(tensors, p)
            loses = self.is_compiled and sum(t.size for t in tensors) > 1000
            return norm * (1 + 20 * float(np.finfo(tensors[0].dtype).eps)) if loses else norm

    statuses = {cell.case: cell.status for cell in run_cells(LosesDigits())}

    assert statuses["global-norm.compiled-agrees/long/float32"] == "quality"
    assert "fail" not in statuses.values()
