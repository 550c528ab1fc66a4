"""Check the badge: its numbers, its two forms, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from gradclip_reports.records import Cell, Header, Run
from gradclip_reports.render import render

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def whole_run(small_run: Run) -> Run:
    """Return a complete run with a failure."""
    return replace(small_run, footer=replace(small_run.footer, planned=4, incomplete=False, not_run=()))


def test_members_of_the_shields_endpoint(whole_run: Run) -> None:
    assert json.loads(render([whole_run], "badge")) == {
        "schemaVersion": 1,
        "label": "gradclip torch",
        "message": "0 of 1 rules kept, not as expected",
        "color": "red",
    }


def test_badge_of_a_run_without_judged_cells_is_red(
    make_header: Callable[..., Header], make_cell: Callable[..., Cell], make_run: Callable[..., Run]
) -> None:
    badge = json.loads(render([make_run(make_header(), [make_cell(status="unsupported")])], "badge"))

    assert (badge["message"], badge["color"]) == ("nothing judged", "red")


@pytest.mark.parametrize("format", ["badge", "badge-svg"])
def test_incomplete_run_is_refused_by_its_name(format: str, small_run: Run, whole_run: Run) -> None:
    with pytest.raises(ValueError, match="The run of torch is incomplete: 1 of 5 cells did not run"):
        render([whole_run, small_run], format)


def test_texts_of_the_badge_fit_into_its_picture(whole_run: Run) -> None:
    root = ElementTree.fromstring(render([whole_run], "badge-svg"))
    texts = root.findall(f".//{SVG}text")

    assert [text.text for text in texts] == ["gradclip torch", "0 of 1 rules kept, not as expected"]
    assert root.attrib["aria-label"] == "gradclip torch: 0 of 1 rules kept, not as expected"
    for text in texts:
        assert float(text.attrib["x"]) + float(text.attrib["textLength"]) <= float(root.attrib["width"]) - 6


def test_hostile_name_stays_text_in_the_picture(whole_run: Run) -> None:
    name = "</text><script>alert(1)</script>\"'&\x1b[2J"
    root = ElementTree.fromstring(
        render([replace(whole_run, header=replace(whole_run.header, adapter=name))], "badge-svg")
    )

    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        "svg", "title", "clipPath", "rect", "g", "text"
    }  # fmt: skip
    assert root.findall(f".//{SVG}text")[0].text == "gradclip </text><script>alert(1)</script>\"'&\\x1b[2J"
