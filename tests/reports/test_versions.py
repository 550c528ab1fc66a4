"""Check that findings of several versions of a framework say since when and until when they are shown."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sample_runs import make_cell, make_finding, make_header, make_run

from gradclip_conformance.cli import gradclip
from gradclip_reports.records import Run, write_run
from gradclip_reports.versions import count_changes, describe_span, draw_versions, sort_versions, trace_findings

#: The cause, the severity and the parameters of findings. The first one is shown by the first case, and so on.
FINDINGS = [("burns", "wrong", {"effect": "black"}), ("freezes", "destroyed", {}), ("raises", "refused", {"text": "a"})]


def make_version(version: str, asked: Mapping[int, bool], **changed: Any) -> Run:
    """Return a run of a version. It was asked cases by number, and shows some findings."""
    names = [f"norm.scaled-above/case-{number}/float32" for number in asked]
    cells = [
        make_cell(case=name, status="fail" if shown else "pass", behaviour="other" if shown else "agrees")
        for name, shown in zip(names, asked.values(), strict=True)
    ]
    shown = [
        make_finding(cell, cause=cause, title=cause, severity=severity, parameters={**parameters, **changed})
        for (number, is_shown), cell in zip(asked.items(), cells, strict=True)
        for cause, severity, parameters in [FINDINGS[number]]
        if is_shown
    ]
    return replace(make_run(make_header("toaster", version), cells), findings=tuple(shown))


def test_versions_are_sorted_by_their_numbers() -> None:
    runs = [make_version(version, {}) for version in ("1.10.0", "1.9", "2.0.0+cpu", "1.9.1")]

    assert [run.header.framework["version"] for run in sort_versions(runs)] == ["1.9", "1.9.1", "1.10.0", "2.0.0+cpu"]


def test_version_that_was_not_asked_says_nothing() -> None:
    old = make_version("1.0", {0: True, 1: False})
    new = make_version("2.0", {0: False, 1: True, 2: True})

    # The severest finding comes first.
    assert {trace.finding.cause: trace.shown for trace in trace_findings([old, new])} == {
        "freezes": (False, True),
        "burns": (True, False),
        "raises": (None, True),
    }


def test_finding_is_the_same_with_another_effect_or_message() -> None:
    old = make_version("1.0", {0: True, 2: True}, effect="red", text="b", bound=1)
    new = make_version("2.0", {0: True, 2: True}, bound=1)
    other = make_version("3.0", {0: True}, bound=2)

    assert sorted(trace.shown for trace in trace_findings([old, new])) == [(True, True), (True, True)]
    # Another parameter makes it another finding.
    assert (False, False, True) in [trace.shown for trace in trace_findings([old, new, other])]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ((True, True, True, True), "in all"),
        ((None, True, None, None), "in 2"),
        ((False, True, True, True), "since 2 (not in 1)"),
        ((True, True, False, None), "until 2 (not in 3)"),
        ((None, False, True, False), "since 3 (not in 2), until 3 (not in 4)"),
        ((True, False, None, True), "not in 2"),
        # A version that was not asked is passed over.
        ((False, None, True, True), "since 3 (not in 1)"),
    ],
)
def test_span_names_the_versions_at_its_ends(shown: tuple[bool | None, ...], said: str) -> None:
    assert describe_span(shown, ["1", "2", "3", "4"]) == said


def test_finding_that_depends_on_chance_has_no_dates() -> None:
    old, new = make_version("1.0", {0: False, 1: False}), make_version("2.0", {0: True, 1: True})
    first, second = (one.pair for one in new.cells)

    # By chance, the first case shows its finding. The second one always does.
    certain, lucky = trace_findings([old, new], lambda run, pair: pair == first)
    assert (lucky.finding.cause, lucky.shown, lucky.by_chance) == ("burns", (None, True), True)
    assert (certain.finding.cause, certain.shown, certain.by_chance) == ("freezes", (False, True), False)

    table = draw_versions([old, new], lambda run, pair: pair == second)
    assert table.splitlines()[2:4] == [
        "| freezes | destroyed |   | ● | by chance |",
        "| burns | wrong | – | ● | since 2.0 (not in 1.0) |",
    ]


def test_each_kind_of_error_has_its_own_dates() -> None:
    def raise_kinds(run: Run, *kinds: str) -> Run:
        """Let each cell raise an error of one kind, and join all in one finding, as the suite does."""
        cells = [replace(cell, behaviour=f"raises:{kind}") for cell, kind in zip(run.cells, kinds, strict=True)]
        cases = {run.cells[0].subject: [cell.case for cell in cells]}
        finding = replace(run.findings[0], cells=cases, parameters={"error": " | ".join(sorted({*kinds}))})
        return Run(run.header, cells, run.footer, (finding,))

    def trace_kinds(*runs: Run) -> dict[str, tuple[bool | None, ...]]:
        return {trace.finding.parameters["error"]: trace.shown for trace in trace_findings(runs)}

    new = raise_kinds(make_version("2.0", {0: True, 1: True}), "TypeError", "ValueError")
    old = raise_kinds(make_version("1.0", {0: True, 1: True}), "TypeError", "TypeError")
    assert trace_kinds(old, new) == {"TypeError": (True, True), "ValueError": (False, True)}
    # This version was not asked the case that raises a ValueError later.
    older = raise_kinds(make_version("0.5", {0: True}), "TypeError")
    assert trace_kinds(older, new) == {"TypeError": (True, True), "ValueError": (None, True)}


def test_answers_of_both_versions_are_compared() -> None:
    old, new = make_version("1.0", {0: True, 1: True}), make_version("2.0", {0: False, 1: True, 2: True})

    assert count_changes(old, new) == {"norm.scaled-above": 1}
    assert count_changes(old, old) == {}


def test_table_has_a_column_for_each_version() -> None:
    table = draw_versions([make_version("2.0", {0: True, 2: True}), make_version("1.0", {0: False})])

    assert table.splitlines()[0] == "| finding | severity | 1.0 | 2.0 | shown |"
    assert table.splitlines()[2:] == [
        "| burns | wrong | – | ● | since 2.0 (not in 1.0) |",
        "| raises | refused |   | ● | in 2.0 |",
        "",
        "- 1.0 to 2.0: `norm.scaled-above` (1 answer)",
    ]


@pytest.mark.parametrize(
    ("is_by_chance", "said"),
    [(False, ["in all", "since 2.0 (not in 1.0)"]), (True, ["by chance", "by chance"])],
    ids=["certain", "by chance"],
)
def test_site_names_the_versions_in_the_folder_older(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_by_chance: bool,
    said: list[str],
) -> None:
    if is_by_chance:
        report = importlib.import_module("gradclip_conformance.cli.report")
        monkeypatch.setattr(report, "depends_on_chance", lambda run, pair: True)
    (tmp_path / "older").mkdir()
    for path, run in {
        "toaster.jsonl": make_version("2.0", {0: True, 1: True}),
        "older/toaster-1.0.jsonl": make_version("1.0", {0: False, 1: True}),
    }.items():
        with (tmp_path / path).open("w") as stream:
            write_run(stream, run)

    result = CliRunner().invoke(gradclip, ["report", str(tmp_path), "-o", str(tmp_path / "site")])

    assert result.exit_code == 0, result.output
    # The older version has no page of its own.
    (page,) = (tmp_path / "site" / "framework").iterdir()
    shown = re.findall("<dt>Shown</dt><dd>(.*?)</dd>", page.read_text("utf-8"))
    assert shown == [f"{span}; checked: 1.0, 2.0" for span in said]
