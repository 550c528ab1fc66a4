"""Check the comparison of the causes of mutants with the causes that findings name."""

from __future__ import annotations

import confusion
import pytest
from mutants import WRONG
from mutants.defects import list_defects, load_written_causes

from gradclip_adapters import arrays
from gradclip_reports.statuses import UNEXPLAINED
from gradclip_spec.rules.causes import load_causes

DEFECTS = {defect.name: number for number, defect in enumerate(list_defects())}

#: One mutant for each kind of model. Its first finding must name its defect.
CERTAIN = (
    "NeverClips (clip_by_global_norm)",
    "ForgetsTheRoot (clip_by_norm)",
    "OwnInsteadOfGlobal (clip_by_global_norm)",
    "CountsTheExcluded (clip_by_global_norm)",
    "AddsAHundredth (clip_by_norm)",
    "SquaresInTheDtype (clip_by_norm)",
    "NegativeFlipsTheSign (clip_by_norm)",
    "IgnoresTheFlag (clip_by_global_norm)",
    "UpperBoundOnly (clip_by_value)",
    "FirstTensorOnly (clip_by_value)",
    "InsideThroughHalf (clip_by_value)",
    "DropsNone (clip_by_value)",
    # No cause of the catalogue describes these defects.
    "ForgetsTheLastTensor (clip_by_global_norm)",
    "WholeNumbers (clip_by_value)",
)


def test_each_mutant_has_a_cause() -> None:
    written = load_written_causes()

    assert set(written) == {type(wrong.function).__name__ for wrong in WRONG}
    assert {cause for causes in written.values() for cause in causes} <= {*load_causes(), UNEXPLAINED}
    assert all(causes and len(set(causes)) == len(causes) for causes in written.values())


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("name", CERTAIN)
def test_first_finding_names_the_defect(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Let the end of the test restore what this function changes.
    monkeypatch.setattr(arrays, "PATIENCE", arrays.PATIENCE)
    confusion.wait_for_interrupting_calls()

    result = confusion.name_causes(DEFECTS[name])

    assert result["is_named"], f"{result['defect']} The findings name {result['named']}."
