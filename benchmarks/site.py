"""Measure a site of 30 frameworks and 200 rules: the time of its making, the size of its first load, and filters.

`nox -s browser -- --measure` runs this program. The frameworks are copies of the published record of Paddle, which has
the most findings and rules.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from gradclip_reports.records import Run, read_runs
from gradclip_reports.site.book import Book
from gradclip_reports.site.build import build_site
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_causes
from gradclip_spec.rules.questions import load_questions

PUBLISHED = Path(__file__).resolve().parents[1] / "reports" / "published"
FRAMEWORKS, RULES = 30, 200

#: For each page: the filter's form, the field, and what is typed into it.
FILTERS = {
    "index.html": ("matrix", "frameworks", "framework 7"),
    "rules.html": ("rows", "text", "overflow"),
    "framework/paddle-3-3-1.html": ("findings", "text", "threshold"),
    "causes.html": ("rows", "text", "norm"),
}
#: Types a text into a field and returns the milliseconds until the page is laid out again.
TYPE_AND_WAIT = """([form, field, text]) => {
    const control = document.querySelector(`form[data-filters=${form}]`).elements[field];
    const before = performance.now();
    control.value = text;
    control.dispatchEvent(new Event("input", { bubbles: true }));
    document.documentElement.getBoundingClientRect();
    return performance.now() - before;
}"""


def make_runs() -> list[Run]:
    """Return copies of the published run of Paddle under other names, with the cells of 200 rules."""
    (run,) = read_runs(PUBLISHED / "paddle.jsonl.gz")
    kept = set(list(dict.fromkeys(cell.rule for cell in run.cells))[:RULES])
    cells = tuple(cell for cell in run.cells if cell.rule in kept)
    headers = [replace(run.header, adapter=f"framework-{i}") for i in range(FRAMEWORKS - 1)]
    headers = [replace(one, framework={"name": f"framework {i}", "version": "1"}) for i, one in enumerate(headers)]
    return [replace(run, header=header, cells=cells) for header in (run.header, *headers)]


def measure_filter(page: Page, form: str, field: str, text: str) -> float:
    """Return the median of the milliseconds of a filter, which is used and cleared five times."""
    times = [page.evaluate(TYPE_AND_WAIT, [form, field, one]) for one in (text, "") * 5]
    return statistics.median(times)


def main() -> None:
    """Build the site, open it, and print the figures."""
    accuracy, speeds = read_accuracy(PUBLISHED / "accuracy.json"), read_speeds(PUBLISHED / "benchmarks.json")
    book = Book(load_questions(), rules.load(), tuple(load_causes().values()), accuracy, speeds)
    runs = make_runs()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = time.process_time()
        count = build_site([(run, "record.jsonl") for run in runs], folder, book)
        seconds = time.process_time() - before
        cells, asked = len(runs[0].cells), len({cell.rule for cell in runs[0].cells})
        print(f"{FRAMEWORKS} frameworks, {asked} rules, {cells} cells each: {count} files in {seconds:.1f} s of CPU")
        first = ("index.html", "static/site.css", "static/site.js")
        print(f"first load: {sum((folder / one).stat().st_size for one in first) / 1000:.0f} kB")
        with sync_playwright() as playwright:
            # Chromium's sandbox does not work in most containers, and the pages are our own.
            browser = playwright.chromium.launch(executable_path=os.environ["GRADCLIP_BROWSER"], args=["--no-sandbox"])
            for path, (form, field, text) in FILTERS.items():
                page = browser.new_page()
                page.goto(f"{folder.as_uri()}/{path}")
                print(f"{path}: filtered in {measure_filter(page, form, field, text):.0f} ms")
            browser.close()


if __name__ == "__main__":
    main()
