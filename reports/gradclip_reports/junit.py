"""Write JUnit XML, which every service of continuous integration reads. Each planned cell is one test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from .failures import list_values
from .finding_text import write_short_line
from .lines import Cell, Finding, Run
from .statuses import NOT_RUN
from .values import escape_text, shorten_text

#: The element that says what became of a test, for each status. A test that passed has none. A known failure is
#: skipped, with its reason.
TAGS = {
    "pass": "",
    "quality": "",
    "documented": "",
    "known": "skipped",
    "unsupported": "skipped",
    "unspecified": "skipped",
    "fail": "failure",
    "crash": "error",
    "timeout": "error",
    "error": "error",
    NOT_RUN: "error",
}

#: The numbers of a suite: the attribute and the element that it counts.
_COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}

#: A longer reason is cut.
_DETAIL = 4000


def draw_junit(runs: Sequence[Run]) -> str:
    """Return one test suite for each run, with one test case for each cell."""
    root = ElementTree.Element("testsuites", name="gradclip")
    root.extend(map(_make_suite, runs))
    for name in ("tests", *_COUNTS):
        root.set(name, str(sum(int(suite.attrib[name]) for suite in root)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _make_suite(run: Run) -> ElementTree.Element:
    header, findings = run.header, run.map_singles()
    tests = [_make_test_of_cell(run, cell, findings.get(cell.pair)) for cell in run.cells]
    tests += [
        _make_test(run, entry_point, case, NOT_RUN, f"{NOT_RUN}: planned, and did not run")
        for entry_point, case in run.footer.not_run
    ]
    suite = ElementTree.Element(
        "testsuite", name=escape_text(f"{header.adapter} {header.framework['version']}".rstrip())
    )
    counts = Counter(child.tag for test in tests for child in test)
    suite.set("tests", str(len(tests)))
    for name, tag in _COUNTS.items():
        suite.set(name, str(counts[tag]))
    suite.set("timestamp", header.started)
    suite.set("time", f"{sum(cell.seconds for cell in run.cells):.3f}")
    properties = ElementTree.SubElement(suite, "properties")
    versions = {named["name"]: named["version"] for named in (header.suite, header.framework)}
    for name, value in {**versions, **header.environment}.items():
        ElementTree.SubElement(properties, "property", name=escape_text(name), value=escape_text(value))
    suite.extend(tests)
    return suite


def _make_test_of_cell(run: Run, cell: Cell, finding: Finding | None) -> ElementTree.Element:
    """Return a test that shows the input, the expected and the observed value of a cell, and its cause."""
    detail = f"{cell.status}: {shorten_text(cell.detail, _DETAIL)}" if cell.detail else cell.status
    lines = [f"{name}: {text}" for name, text in list_values(cell, _DETAIL)]
    lines += [f'documented: "{escape_text(cell.quote)}"'] if cell.quote else []
    lines += [f"see: {escape_text(cell.url)}"] if cell.url else []
    lines += [f"finding: {write_short_line(finding)}"] if finding else []
    return _make_test(run, *cell.pair, cell.status, escape_text(detail), "\n".join(lines), cell.seconds)


def _make_test(
    run: Run, entry_point: str, case: str, status: str, message: str, text: str = "", seconds: float = 0.0
) -> ElementTree.Element:
    name = f"{escape_text(run.header.adapter)}.{escape_text(entry_point)}"
    test = ElementTree.Element("testcase", classname=name, name=escape_text(case), time=f"{seconds:.3f}")
    if TAGS[status]:
        ElementTree.SubElement(test, TAGS[status], type=status, message=message).text = text
    elif status != "pass":
        ElementTree.SubElement(test, "system-out").text = f"{message}\n{text}"
    return test
