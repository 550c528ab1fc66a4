"""Right clippers are not blamed, however they are written."""

from __future__ import annotations

import pytest
from clippers.right import RIGHT, Right

from gradclip_conformance import check_clipper
from gradclip_reports.statuses import SPOILING


def _may_be_rough(right: Right, rule: str) -> bool:
    """Quality is no blame: a norm that no float64 holds, or that many elements make inaccurate."""
    return rule.endswith(".norm-beyond-range") or (right.grows and rule.endswith(".large-tensor-accuracy"))


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: f"{right.operation}-{right.name}")
def test_right_clipper_is_not_blamed(right: Right) -> None:
    cells = check_clipper(right.function, right.operation, in_place=right.in_place, dtypes=right.dtypes)

    blamed = [
        f"{cell['case']} {cell['status']}: {cell['detail']}"
        for cell in cells
        if cell["status"] in SPOILING or (cell["status"] == "quality" and not _may_be_rough(right, cell["rule"]))
    ]
    assert not blamed, "\n".join(blamed)
    assert sum(cell["status"] == "pass" for cell in cells) > len(cells) / 2


def test_there_are_enough_right_clippers_of_each_operation() -> None:
    for operation in ("clip_by_value", "clip_by_norm", "clip_by_global_norm"):
        assert sum(right.operation == operation for right in RIGHT) >= 15
