"""Check the rules about compiled forms, relations and rare abilities where no mutant shows the verdict.

Right functions must pass, however they round. Poor ones are of poor quality. Each rule catches a mutant, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mutants import WRONG
from mutants.abilities import PullsBack, UnusualCalls, WithAbilities
from mutants.steps import EVERY, Array, ByGlobalNorm, ByNorm, ByValue, ClipFunction
from runs import run_rules

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance import check_clipper
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.relations import OF_ONE, RELATIONS
from gradclip_reports.records import Cell

DTYPES = ("float16", "float32", "float64")

#: Each ability that a signature does not show, and the rules that need it: those for which a mutant has it.
ABLE = {
    f"{wrong.rule}-{wrong.adapter.__name__}": (wrong.adapter, wrong.rule)
    for wrong in WRONG
    if wrong.adapter is not PlainFunction
}
RIGHT = {base.short: base for base in EVERY}


def run_right_function(adapter: type[WithAbilities], rule: str, **members: object) -> list[Cell]:
    """Return the cells of a rule for a right function with abilities, with some members changed."""
    right = adapter.complete(RIGHT[rule.partition(".")[0]])
    function = type("Changed", (right,), members)()
    return list(run_rules(adapter(function, right.operation, DTYPES, None), rule, dtypes=DTYPES).cells)


@pytest.mark.parametrize("name", ABLE)
def test_right_function_with_an_ability_passes(name: str) -> None:
    assert {cell.status for cell in run_right_function(*ABLE[name])} == {"pass"}


@pytest.mark.parametrize("operation", ["value", "norm", "global-norm"])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_each_derivative_at_a_kink_is_right(operation: str, share: float) -> None:
    cells = run_right_function(PullsBack, f"{operation}.derivative", share=share)

    assert {cell.status for cell in cells} == {"pass"}


class OtherRoundings:
    """Multiply by the coefficient, or divide by its reciprocal when compiled."""

    is_compiled = False

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
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
        if not self.is_compiled:
            return super().limit(grad, low, high)
        limits = np.array([low, high], grad.dtype)
        return np.where(grad > limits[1], limits[1], np.where(grad < limits[0], limits[0], grad))


class Refuses(ByGlobalNorm):
    """Raise if a result is not finite, with another exception when compiled."""

    is_compiled = False

    def hand_back(self, grad: Array, result: Any) -> Any:
        if np.isfinite(result).all():
            return result
        kind = FloatingPointError if self.is_compiled else ValueError
        raise kind("not finite")


class RefusesCompiled(Refuses):
    """Raise only when compiled."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return super().hand_back(grad, result) if self.is_compiled else result


class LosesDigits(ByGlobalNorm):
    """Lose as many digits of a long sum as the dtype's arithmetic may lose, when compiled."""

    is_compiled = False

    def compute_global_norm(self, tensors: Any, p: float) -> float:
        norm = super().compute_global_norm(tensors, p)
        loses = self.is_compiled and sum(t.size for t in tensors) > 1000
        return norm * (1 + 20 * float(np.finfo(tensors[0].dtype).eps)) if loses else norm


def run_compiled(function: ClipFunction) -> list[Cell]:
    """Return the cells of the rule about compiled forms for a function with two forms."""
    adapter = UnusualCalls(function, function.operation, DTYPES, in_place=False)
    return list(run_rules(adapter, "*.compiled-agrees", dtypes=DTYPES).cells)


@pytest.mark.parametrize(
    ("function", "ulp"),
    [(OtherRoundingsByNorm, 1.0), (OtherRoundingsByGlobalNorm, 1.0), (LimitsOtherwise, 0.0), (Refuses, 0.0)],
)
def test_compiled_form_that_rounds_differently_is_not_blamed(function: type[ClipFunction], ulp: float) -> None:
    cells = run_compiled(function())

    assert {cell.status for cell in cells} == {"pass"}, [cell.detail for cell in cells if cell.status != "pass"]
    assert max(cell.ulp or 0.0 for cell in cells) >= ulp
    assert {cell.case.split("/")[1] for cell in cells} == {
        "clipped", "not-clipped", "long", "nan", "infinity", "zeros", "excluded", "none",
    }  # fmt: skip


def test_error_in_one_form_is_shown_beside_the_other_answer() -> None:
    blamed = [cell for cell in run_compiled(RefusesCompiled()) if cell.status != "pass"]

    assert {cell.case.split("/")[1] for cell in blamed} == {"nan", "infinity"}
    assert all(
        "The uncompiled call returned" in cell.detail and "The compiled call raised Floating" in cell.detail
        for cell in blamed
    )


def test_poor_accuracy_when_compiled_is_quality() -> None:
    statuses = {cell.case: cell.status for cell in run_compiled(LosesDigits())}

    assert statuses["global-norm.compiled-agrees/long/float32"] == "quality"
    assert "fail" not in statuses.values()


def test_other_roundings_for_other_magnitudes_are_quality() -> None:
    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        norm = math.sqrt(math.fsum(float(x) ** 2 for grad in grads for x in np.ravel(grad)))
        factor = np.float32(clip_norm / norm)
        return [grad / (np.float32(1.0) / factor) if clip_norm > 4 else grad * factor for grad in grads]

    cells = check_clipper(
        clip, "clip_by_global_norm", rule="global-norm.power-of-two-scaling/clipped-up-by-four/*", dtypes=["float32"]
    )

    assert [cell["status"] for cell in cells] == ["quality"]


def test_every_relation_has_cases() -> None:
    related = [case.expectation for case in list_all_cases() if case.expectation.name == "metamorphic"]

    assert {dict(one.parameters)["relation"] for one in related} == {*RELATIONS, *OF_ONE}
