"""Check that a run names findings: causes with their cells, worst first, each with its smallest example."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import make_adapter, run_rules
from sample_runs import write_record_text

from gradclip_conformance import assert_conforms, check_clipper
from gradclip_conformance.causes.model import Judged
from gradclip_conformance.judge.model import Connection
from gradclip_conformance.run.runner import ask_again
from gradclip_reports.records import read_runs

#: Rules that are enough to fit a formula, and few enough to be quick.
RULES = "global-norm.scaled-above"
OPTIONS: dict[str, Any] = {"op": "clip_by_global_norm", "dtypes": ["float32"], "isolated": False, "rule": RULES}


def measure_norm(grads: Any) -> float:
    return float(np.sqrt(sum(float((np.asarray(g, np.float64) ** 2).sum()) for g in grads)))


def add_eps(grads: Any, *, clip_norm: float) -> Any:
    coefficient = min(1.0, clip_norm / (measure_norm(grads) + 1e-2))
    return [(g.astype(np.float64) * coefficient).astype(g.dtype) for g in grads]


def never_clip(grads: Any, *, clip_norm: float) -> Any:
    return list(grads)


@pytest.mark.thorough(sample=0)
def test_function_gets_a_finding_for_each_cause() -> None:
    results = check_clipper(add_eps, **OPTIONS)

    (finding,) = results.findings
    assert (finding["cause"], finding["parameters"], finding["severity"]) == (
        "eps-in-coefficient",
        {"eps": 0.01},
        "wrong",
    )
    failed = [cell["case"] for cell in results if cell["status"] == "fail"]
    (cases,) = finding["cells"].values()
    assert failed
    assert set(failed) <= set(cases)
    assert finding["rules"] == {RULES: len(cases)}
    assert "/float32" in finding["example"]["case"]
    text = str(results)
    assert "wrong: the clip multiplies by min(1, c / (n + eps)) (eps = 0.01) (new" in " ".join(text.split())
    assert "Not as expected." in text


def flip_signs(grads: Any, *, clip_norm: float) -> Any:
    """Clip by a negative threshold, as frameworks do, and give NaN for minus infinity."""
    coefficient = min(1.0, clip_norm / (measure_norm(grads) or 1.0))
    factor = math.nan if coefficient == -math.inf else coefficient
    return [(g.astype(np.float64) * factor).astype(g.dtype) for g in grads]


def test_example_has_ordinary_numbers_even_if_infinities_do_worse() -> None:
    results = check_clipper(flip_signs, **{**OPTIONS, "rule": "global-norm.negative-threshold-refused"})

    (finding,) = results.findings
    assert (finding["cause"], finding["severity"]) == ("negative-threshold", "destroyed")
    assert finding["example"]["case"] == "global-norm.negative-threshold-refused/minus-one/float32"


SUMS: dict[Any, Any] = {}


def add_to_earlier(grads: Any, *, clip_norm: float) -> Any:
    """Clip, and add the results of earlier calls with gradients of the same shapes."""
    coefficient = min(1.0, clip_norm / (measure_norm(grads) or 1.0))
    keys = [(place, g.shape, g.dtype) for place, g in enumerate(grads)]
    for key, g in zip(keys, grads, strict=True):
        SUMS[key] = SUMS.get(key, 0.0) + g.astype(np.float64) * coefficient
    return [SUMS[key].astype(g.dtype) for key, g in zip(keys, grads, strict=True)]


@pytest.mark.parametrize(("isolated", "cause"), [(True, "state-kept"), (False, "unexplained")])
def test_fresh_process_shows_that_earlier_calls_are_to_blame(isolated: bool, cause: str) -> None:
    """A function in this process cannot be asked without its earlier calls."""
    results = check_clipper(add_to_earlier, **{**OPTIONS, "isolated": isolated})

    assert [finding["cause"] for finding in results.findings] == [cause]


def raise_in_two_ways(grads: Any, *, clip_norm: float) -> Any:
    if len(grads) > 1:
        raise TypeError("give one gradient")
    raise KeyError("no kernel")


def test_one_cause_with_two_parameters_is_one_finding_with_parts() -> None:
    results = check_clipper(raise_in_two_ways, **{**OPTIONS, "rule": "global-norm.one-norm-over-all*"})
    single = check_clipper(raise_in_two_ways, **OPTIONS)

    assert [finding["cause"] for finding in (*results.findings, *single.findings)] == ["raises", "raises"]
    errors = {part["parameters"]["error"] for finding in single.findings for part in finding["parts"]}
    assert errors == {"KeyError", "TypeError"}
    assert "parts" not in results.findings[0]
    assert str(single).count("  part ") == 2


#: One case is enough for a formula that is given.
ONE_CASE: dict[str, Any] = {**OPTIONS, "rule": f"{RULES}/three-four-five/*"}


@pytest.mark.parametrize("large", [1 << 20, 0])
def test_declared_formula_is_no_failure_and_named_whether_answers_are_kept_or_not(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradclip_conformance.causes.findings.LARGE", large)
    results = check_clipper(add_eps, **ONE_CASE, formula="coefficient:0.01")

    assert not {cell["status"] for cell in results} & {"fail", "error"}
    assert "declared" in str(results)
    assert [finding["cause"] for finding in results.findings] == ["eps-in-coefficient"]


def test_other_formula_than_the_declared_one_fails() -> None:
    assert_conforms(add_eps, **ONE_CASE, formula="coefficient:0.01")
    with pytest.raises(AssertionError, match="Not as expected"):
        assert_conforms(add_eps, **ONE_CASE, formula="coefficient:0.02")


@pytest.mark.thorough(sample=0)
def test_findings_are_in_the_record_and_name_each_cell_once(tmp_path: Path) -> None:
    run = run_rules(make_adapter(never_clip), "global-norm.*-above", dtypes=("float32",))

    path = tmp_path / "record.jsonl"
    path.write_text(write_record_text([run]), encoding="utf-8")
    (read,) = read_runs(path)
    assert read.findings == run.findings
    named = [pair for one in run.findings for pair in one.pairs]
    wrong = {cell.pair for cell in run.cells if cell.status in ("fail", "quality")}
    assert len(named) == len(set(named))
    assert set(named) == wrong
    assert run.findings[0].cause == "not-clipped"
    assert run.findings[0].severity == "unclipped"


def sum_one_after_another(grads: Any, *, clip_norm: float) -> Any:
    """Add in the dtype. The results are within the error bound of a sum, and no better."""
    squares = [np.square(grad.ravel()) for grad in grads if grad is not None]
    norm = float(np.sqrt(np.cumsum(np.concatenate([np.float32([1e-30]), *squares]))[-1]))
    return [None if grad is None else grad * np.float32(min(1.0, clip_norm / norm)) for grad in grads]


@pytest.mark.parametrize(("rule", "times"), [("*.combinations*", 0), ("*.large-tensor-accuracy/*", 1)])
def test_long_sum_is_asked_again_only_if_no_short_call_shows_it(
    rule: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Judged] = []

    def note_and_ask_again(connection: Connection, timeout: float, judged: Judged) -> Judged:
        asked.append(judged)
        return ask_again(connection, timeout, judged)

    monkeypatch.setattr("gradclip_conformance.run.runner.ask_again", note_and_ask_again)
    results = check_clipper(sum_one_after_another, **{**OPTIONS, "rule": rule})
    named = {case for one in results.findings if one["cause"] == "long-sum" for case in one["cells"].popitem()[1]}

    assert {cell["case"] for cell in results if cell["status"] == "quality"} <= named
    assert len([judged for judged in asked if judged.verdict.status == "quality"]) == times
