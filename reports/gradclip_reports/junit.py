"""Write JUnit XML, which every service of continuous integration reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from .lines import Run
from .outcomes import Outcome, describe_outcome, list_outcomes
from .values import escape_text

__all__ = ["draw_junit"]

_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}


def draw_junit(runs: Sequence[Run]) -> str:
    """Return one test suite for each run, with one test case for each cell."""
    root = ElementTree.Element("testsuites", name="gradclip")
    totals: Counter[str] = Counter()
    for run in runs:
        found = list(list_outcomes(run))
        counts = _count_outcomes(found)
        totals += counts
        root.append(_make_suite(run, found, counts))
    root.attrib.update({name: str(totals[name]) for name in ("tests", "failures", "errors", "skipped")})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _count_outcomes(found: Sequence[Outcome]) -> Counter[str]:
    by = Counter(item.outcome for item in found)
    return Counter(tests=len(found), failures=by["failed"], errors=by["error"], skipped=by["skipped"])


def _make_suite(run: Run, found: Sequence[Outcome], counts: Counter[str]) -> ElementTree.Element:
    header = run.header
    suite = ElementTree.Element(
        "testsuite", name=escape_text(f"{header.adapter} {header.framework['version']}".rstrip())
    )
    suite.attrib.update({name: str(counts[name]) for name in ("tests", "failures", "errors", "skipped")})
    suite.attrib["timestamp"] = header.started
    suite.attrib["time"] = f"{sum(item.seconds for item in found):.3f}"
    properties = ElementTree.SubElement(suite, "properties")
    versions = {named["name"]: named["version"] for named in (header.suite, header.framework)}
    for name, value in {**versions, **header.environment}.items():
        ElementTree.SubElement(properties, "property", name=escape_text(name), value=escape_text(value))
    suite.extend(_make_test(run, item) for item in found)
    return suite


def _make_test(run: Run, item: Outcome) -> ElementTree.Element:
    name = f"{escape_text(run.header.adapter)}.{escape_text(item.subject)}"
    test = ElementTree.Element("testcase", classname=name, name=escape_text(item.case), time=f"{item.seconds:.3f}")
    if item.outcome in _TAGS:
        ElementTree.SubElement(
            test, _TAGS[item.outcome], type=item.status, message=item.message
        ).text = describe_outcome(item)
    elif item.status != "pass":
        ElementTree.SubElement(test, "system-out").text = f"{item.message}\n{describe_outcome(item)}"
    return test
