"""Check the comparison of the causes of mutants with the causes that findings name."""

from __future__ import annotations

import confusion
import pytest
from mutants import WRONG

from gradclip_adapters import arrays
from gradclip_reports.statuses import UNEXPLAINED
from gradclip_spec.rules.causes import load_causes

DEFECTS = {defect.name: number for number, defect in enumerate(confusion.list_defects())}

#: One mutant for each kind of model. Its first finding must name its defect.
CERTAIN = (
    "never clips (clip_by_global_norm)",
    "forgets the square root (clip_by_norm)",
    "clips each tensor by its own norm (clip_by_global_norm)",
    "counts excluded gradients in the norm (clip_by_global_norm)",
    "adds zero to excluded gradients, which changes the sign of -0.0 (clip_by_global_norm)",
    "divides by norm + 0.01 (clip_by_norm)",
    "squares and adds float32 gradients in float32 (clip_by_norm)",
    "scales by a negative threshold, which turns the signs (clip_by_norm)",
    "ignores `error_if_nonfinite` (clip_by_global_norm)",
    "has no lower bound if min is not passed (clip_by_value)",
    "clips only the first tensor (clip_by_value)",
    "stops clipping at the first missing gradient (clip_by_global_norm)",
    "clips in float16 (clip_by_value)",
    "truncates the bounds to integers (clip_by_value)",
    "drops missing gradients from the result (clip_by_value)",
    "adds the norms of the tensors (clip_by_global_norm)",
    "adds the squares one by one in float32 (clip_by_global_norm)",
    "rounds clip_norm / norm to the gradient's dtype (clip_by_global_norm)",
    "divides 0 by 0 if both the threshold and the norm are 0 (clip_by_global_norm)",
    "multiplies by clip_norm / max(norm, clip_norm), which is NaN for an infinite threshold (clip_by_global_norm)",
    "sets more than two gradients to zero before it raises the error (clip_by_global_norm)",
    "scales a tensor twice if it occurs twice in the list (clip_by_global_norm)",
    "replaces NaN by 0 in gradients of 201 to 1,999 elements (clip_by_value)",
    # No cause of the catalogue describes this defect.
    "leaves the last of several tensors out of the norm (clip_by_global_norm)",
)


def test_each_mutant_has_a_cause() -> None:
    assert {cause for wrong in WRONG for cause in wrong.causes} <= {*load_causes(), UNEXPLAINED}
    assert all(wrong.causes and len(set(wrong.causes)) == len(wrong.causes) for wrong in WRONG)


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("name", CERTAIN)
def test_first_finding_names_the_defect(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Let the end of the test restore what this function changes.
    monkeypatch.setattr(arrays, "PATIENCE", arrays.PATIENCE)
    confusion.wait_for_interrupting_calls()

    result = confusion.compare_causes(DEFECTS[name])

    assert result.is_named, f"{result.defect} The findings name {result.named}."


@pytest.mark.thorough(sample=0)
def test_causes_of_one_kind_of_mutants_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert confusion.main(["--cause", "elements-left-out"]) == 0

    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == sum("elements-left-out" in defect.wrong.causes for defect in confusion.list_defects())
    assert all(line.endswith(": elements-left-out") for line in printed)
