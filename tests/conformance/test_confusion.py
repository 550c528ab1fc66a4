"""Check the comparison of the causes of wrong clippers with the causes that findings name."""

from __future__ import annotations

from typing import Any

import confusion
import pytest
from clippers import WRONG
from clippers.defects import list_defects, load_written_causes

from gradclip_adapters import arrays
from gradclip_reports.statuses import UNEXPLAINED
from gradclip_spec.rules.causes import load_causes

DEFECTS = {defect.name: number for number, defect in enumerate(list_defects())}

#: One wrong clipper for each kind of model. Its first finding must name its defect.
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


def test_each_wrong_clipper_has_a_cause() -> None:
    written = load_written_causes()

    assert set(written) == {type(wrong.function).__name__ for wrong in WRONG}
    assert {cause for causes in written.values() for cause in causes} <= {*load_causes(), UNEXPLAINED}
    assert all(causes and len(set(causes)) == len(causes) for causes in written.values())


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("name", CERTAIN)
def test_first_finding_names_the_defect(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Let the end of the test restore what this function changes.
    monkeypatch.setattr(arrays, "PATIENCE", arrays.PATIENCE)
    confusion.wait_for_interrupting_calls()

    result = confusion.name_causes(DEFECTS[name])

    assert result["is_named"], f"{result['defect']} The findings name {result['named']}."


def make_result(clipper: str, written: list[str], named: list[str]) -> dict[str, Any]:
    is_named = bool(named) and named[0] in written
    return {"clipper": clipper, "defect": "Wrong.", "written": written, "named": named, "is_named": is_named}


def test_comparison_counts_and_lists_other_names() -> None:
    each = [make_result(f"Right{number}", ["raises"], ["raises"]) for number in range(19)]
    good = confusion.summarize([*each, make_result("Late", ["raises"], ["unexplained", "raises"])])
    bad = confusion.summarize(
        [*each[:8], make_result("Unseen", [UNEXPLAINED], ["raises"] * 4), make_result("No", ["raises"], [])]
    )

    assert (good["named"], good["clippers"], confusion.list_faults(good)) == (19, 20, [])
    assert confusion.list_faults(bad) == [
        "the first finding names the defect of only 8 of 10 clippers",
        "only 9 of 10 clippers have at most 3 findings",
    ]
    assert bad["unseen_named_falsely"] == ["Unseen"]
    page = confusion.write_markdown(bad)
    assert "8 of 10 (80.0 %)" in page
    assert "**Wrong here:** the first finding names" in page
    assert "no finding" in page
