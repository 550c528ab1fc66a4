"""Count how often findings name the defect of a wrong function that somebody else wrote, and how often another one."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest
from clippers.written_elsewhere import ELSEWHERE

from gradclip_conformance.api import check_clipper
from gradclip_reports.statuses import SPOILING, UNEXPLAINED

#: The least share of functions whose defect is named, and the largest share with a wrong name.
NAMED, MISLED = 0.6, 0.03


def find_cause(number: int) -> str:
    """Return the cause that explains most cells that fail, or `UNEXPLAINED`."""
    wrong = ELSEWHERE[number]
    results = check_clipper(
        wrong.function, wrong.operation, dtypes=("float32",), in_place=wrong.in_place, isolated=False
    )
    times: Counter[str] = Counter()
    for finding in results.findings:
        for part in finding.get("parts") or [finding]:
            times[part["cause"]] += sum(count for status, count in part["statuses"].items() if status in SPOILING)
    return max(times, key=lambda cause: times[cause], default="")


@pytest.mark.exam(sample=0)
def test_defects_of_functions_written_elsewhere_are_named() -> None:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        named = dict(zip([wrong.name for wrong in ELSEWHERE], pool.map(find_cause, range(len(ELSEWHERE))), strict=True))

    causes = {wrong.name: wrong.causes for wrong in ELSEWHERE}
    right = [name for name, cause in named.items() if cause in causes[name] and cause != UNEXPLAINED]
    misled = {name: cause for name, cause in named.items() if cause not in (*causes[name], UNEXPLAINED)}
    unexplained = [name for name, cause in named.items() if cause == UNEXPLAINED]
    assert len(misled) <= MISLED * len(named), misled
    assert len(right) >= NAMED * len(named), unexplained


def test_each_function_written_elsewhere_has_its_own_name() -> None:
    assert len({wrong.name for wrong in ELSEWHERE}) == len(ELSEWHERE)
