"""Check that right clippers are not blamed, however they are written."""

from __future__ import annotations

import pytest
from clippers.right import RIGHT, Right

from gradclip_conformance import check_clipper
from gradclip_reports.statuses import SPOILING


def _may_be_rough(right: Right, rule: str) -> bool:
    """Tell whether poor quality is excused: float64 cannot hold the norm, or many elements make it inaccurate."""
    about_many = (".large-tensor-accuracy", ".combinations", ".combinations-extreme")
    return rule.endswith(".norm-beyond-range") or (right.grows and rule.endswith(about_many))


@pytest.mark.exam
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
