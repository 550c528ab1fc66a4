"""Check the accuracy table. Its exact numbers match the oracle's, and it shows the errors of known functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt
from runs import run_command

from gradclip_adapters.contract import Array
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.accuracy import measure as accuracy
from gradclip_conformance.accuracy.page import make_document, write_page
from gradclip_conformance.judge.model import TimedOut
from gradclip_conformance.run.in_process import InProcess


@pytest.mark.parametrize(
    ("first", "second", "gap"),
    [
        ([1.0, -0.0], [1.0, 0.0], 0.0),
        ([np.nan, np.inf, 1.0], [np.nan, np.inf, 1 + 2.0**-22], 2.0),
        ([np.inf], [1.0], np.inf),
        ([1.0], [np.nan], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([2.0**-126], [0.0], 2.0**23),
        ([1.0, 1.0], [1.0, 1 - 2.0**-23], 1.0),
    ],
)
def test_gap_between_two_arrays_is_measured_in_ulp(first: list[float], second: list[float], gap: float) -> None:
    one, other = (Array.of(np.array(values, np.float32)) for values in (first, second))

    assert accuracy._measure_largest_gap(one, other) == gap


def measure_row(function: Any, dtype: str = "float32", size: int = 1000) -> accuracy.Row:
    """Return one row of the table for a plain function."""
    connection = InProcess(PlainFunction(function, "clip_by_global_norm"))
    return accuracy.measure_accuracy(connection, connection.description.subjects[0], dtype, size)


def clip_carefully(grads: list[Any], *, clip_norm: float) -> tuple[list[Any], Any]:
    """Clip by the formula in float64."""
    norm = np.sqrt(sum(np.sum(np.square(grad.astype(np.float64))) for grad in grads))
    return [(grad * (clip_norm / norm)).astype(grad.dtype) for grad in grads], norm


def clip_by_running_sum(grads: list[Any], *, clip_norm: float) -> tuple[list[Any], Any]:
    """Clip by the formula with one running sum in the dtype."""
    total = grads[0].dtype.type(0)
    for grad in grads:
        total = total + np.cumsum(np.square(grad), dtype=grad.dtype)[-1]
    norm = np.sqrt(total)
    return [grad * (grad.dtype.type(clip_norm) / norm) for grad in grads], norm


def test_careful_function_is_within_an_ulp_in_any_order() -> None:
    row = measure_row(clip_carefully)

    assert row.norm is not None
    assert row.norm < 0.001
    assert 0 < row.elements <= 0.51
    assert row.spread <= 1


def test_running_sum_is_caught_by_the_swamped_input() -> None:
    row = measure_row(clip_by_running_sum)

    assert row.norm is not None
    assert row.norm > 10
    assert row.norm_input.startswith("swamped")
    assert row.elements > 10
    assert row.spread > 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda results: (results, results[0]), "has the shape (1000,), not one number"),
        (lambda results: (results, np.array("x")), "is of the dtype"),
        (lambda results: [], "do not have the number, the dtypes and the shapes"),
        (lambda results: [None for _ in results], "do not have the number, the dtypes and the shapes"),
        (lambda results: [*results, results[0]], "do not have the number, the dtypes and the shapes"),
        (lambda results: [np.ones(one.shape, "int64") for one in results], "do not have the number, the dtypes"),
        (lambda results: [one[:1] for one in results], "do not have the number, the dtypes and the shapes"),
        (lambda results: {"clipped": results}, "returned a value of type dict"),
    ],
    ids=["norm-array", "norm-text", "empty", "none", "longer", "integers", "shorter", "dictionary"],
)
def test_answer_of_another_form_is_reported(change: Callable[[list[Any]], Any], problem: str) -> None:
    def returns_another_form(grads: list[Any], *, clip_norm: float) -> Any:
        return change(list(grads))

    row = measure_row(returns_another_form)

    assert problem in row.problem
    assert (row.norm, row.elements) == (None, 0.0)


def test_timeout_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcess, "ask", lambda *_: TimedOut(300.0))

    assert measure_row(clip_carefully).problem == "normal, seed 1, one tensor: no answer within 300 s"


def test_command_writes_a_document_a_page_and_a_table(tmp_path: Path) -> None:
    arguments = ["accuracy", "numpy", "--op", "clip_by_norm", "--dtype", "float32", "--largest", "1000"]
    result = run_command(*arguments, "-o", tmp_path / "accuracy")

    assert result.exit_code == 0, result.output
    assert "gradclip_spec.clip_by_norm[inplace=True]: largest errors in ulp" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    made = json.loads((tmp_path / "accuracy.json").read_text(encoding="utf-8"))
    (framework,) = made["frameworks"]
    assert framework["framework"] == "gradclip_spec on NumPy"
    assert [(row["subject"][-14:], row["size"]) for row in framework["rows"][-1:]] == [("[inplace=True]", 1000)]
    assert all(row["elements"] < 4 and row["norm"] is None for row in framework["rows"])
    assert (tmp_path / "accuracy.md").read_text(encoding="utf-8") == write_page(made)


def test_update_keeps_what_was_measured_of_other_adapters(tmp_path: Path) -> None:
    output = tmp_path / "accuracy"
    arguments = ["accuracy", "numpy", "--op", "clip_by_norm", "--dtype", "float32", "--largest", "100"]
    names = ("other", "torch", "numpy")
    earlier = [{"adapter": name, "framework": name, "version": "1", "rows": []} for name in names]
    output.with_suffix(".json").write_text(json.dumps({"made": "2020-02-02", "frameworks": earlier}), encoding="utf-8")

    result = run_command(*arguments, "-o", output, "--update")

    assert result.exit_code == 0, result.output
    made = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    dates = {one["adapter"]: one["made"] for one in made["frameworks"]}
    # Adapters of the suite come first, in the order of their list.
    assert list(dates) == ["numpy", "torch", "other"]
    assert dates == {"numpy": made["made"], "torch": "2020-02-02", "other": "2020-02-02"}
    assert [bool(one["rows"]) for one in made["frameworks"]] == [True, False, False]
    assert "## torch 1\n\nMeasured on 2020-02-02." in output.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--update needs -o NAME"),
        (("-o", "absent"), "is not a table of measurements: it cannot be read"),
        (("-o", "wrong"), "is not a table of measurements: it has no list of frameworks"),
    ],
)
def test_update_of_nothing_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    result = run_command("accuracy", "numpy", *arguments, "--update")

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


HOSTILE = """
from gradclip_adapters.contract import About, Adapter, EntryPoint, framework_call

class Hostile(Adapter):
    def about(self):
        return About("f|<b>`x`", "1|<b>", {"k|`": "v|<b>"})

    def subjects(self):
        return [EntryPoint("s|`<b>`[x]", "clip_by_norm", ("float32",))]

    def call(self, call):
        with framework_call():
            raise ValueError("\\ud800\\x1b[31m|<b>`\\n\\n# heading")
"""


def test_texts_of_a_framework_are_escaped_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE, encoding="utf-8")
    result = run_command("accuracy", tmp_path / "hostile.py", "--largest", "100", "-o", tmp_path / "accuracy")

    assert result.exit_code == 0, result.output
    markdown, document = ((tmp_path / f"accuracy.{end}").read_text(encoding="utf-8") for end in ("md", "json"))
    for text in (result.stdout, result.stderr, markdown, document):
        assert all(character.isprintable() or character == "\n" for character in text)
    assert json.loads(document)["frameworks"][0]["rows"][0]["problem"].endswith("# heading")
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    assert "<b>" not in html
    assert html.count("<h1>") == 1
    assert html.count("<td") == 6


@pytest.mark.parametrize("number", [1, 6, 11, 16])
def test_worst_input_is_rebuilt_from_its_name(number: int) -> None:
    calls: list[list[np.ndarray[Any, Any]]] = []

    def clip_wrong_once(grads: list[Any], *, clip_norm: float) -> tuple[list[Any], Any]:
        results, norm = clip_carefully(grads, clip_norm=clip_norm)
        calls.append(grads)
        return (
            ([result * np.float32(2) for result in results], norm * 2) if len(calls) == number + 1 else (results, norm)
        )

    row = measure_row(clip_wrong_once)
    again = accuracy.rebuild_gradients(row.norm_input, row.size, row.dtype)

    # The first call finds out whether a norm is returned.
    assert len(calls) == 17
    assert [array.numpy().tolist() for array in again] == [grad.tolist() for grad in calls[number]]


def test_norm_that_depends_on_the_grouping_has_a_spread() -> None:
    def counts_tensors(grads: list[Any], *, clip_norm: float) -> tuple[list[Any], Any]:
        results, norm = clip_carefully(grads, clip_norm=clip_norm)
        return results, norm * (1 + len(grads) * 2.0**-20)

    assert measure_row(counts_tensors).spread > 30


def test_entry_points_of_the_same_numbers_share_a_table_of_the_page() -> None:
    rows = [accuracy.Row(name, "float32", 100, None, "", elements, "normal, seed 1, one tensor", 0.5) for name, elements
            in (("a.clip", 1.5), ("b_clip", 1.5), ("c.clip", np.inf))]  # fmt: skip
    framework = {"adapter": "lib", "framework": "Lib", "version": "2.0"}
    measured = {"made": "2026-01-01", "environment": {"device": "cpu"}, "rows": [row.to_json() for row in rows]}
    text = write_page(make_document([{**framework, **measured}]))

    assert "## Lib 2.0\n\nMeasured on 2026-01-01: device cpu.\n\n- `a.clip`\n- `b_clip`\n\n| dtype" in text
    assert text.count("| float32 | 100 | - | 1.5 | 0.5 | normal, seed 1, one tensor |") == 1
    assert "| float32 | 100 | - | inf | 0.5 |" in text
