"""Use the site as people do: click, type, press keys, on narrow and wide screens, in light and dark.

The site of the published records is built once, and opened in headless Chromium. `nox -s browser` sets
GRADCLIP_BROWSER to the program of Chromium.
"""

from __future__ import annotations

import gzip
import importlib.resources
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect, sync_playwright

from gradclip_conformance.cli import gradclip

PUBLISHED = Path(__file__).resolve().parents[2] / "reports" / "published"

# A page is ready in a second. On a busy machine it takes longer. Tests end as soon as it is ready.
expect.set_options(timeout=60_000)

#: One page of each kind.
KINDS = {
    "matrix": "index.html",
    "matrix-of-an-operation": "by-norm.html",
    "framework": "framework/torch-2-13-0-cpu.html",
    "framework-without-findings": "framework/numpy-0-1-0.html",
    "framework-with-history": "framework/optax-0-2-8.html",
    "entry": "entry/torch-2-13-0-cpu-torch-nn-utils-clip-grad-norm-foreach-true.html",
    "rule": "rule/global-norm-p-norm.html",
    "rules": "rules.html",
    "cause": "cause/squares-overflow.html",
    "causes": "causes.html",
    "compare": "compare.html#torch-2-13-0-cpu..tensorflow-2-21-0",
}
AXE = importlib.resources.files("axe_playwright_python") / "axe.min.js"
TORCH, TENSORFLOW = "torch-2-13-0-cpu", "tensorflow-2-21-0"

#: Returns the texts of elements that stick out at the right, outside of regions that scroll.
FIND_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .filter(one => !one.closest('.scroll, pre, .hidden'))
    .map(one => one.outerHTML.slice(0, 100))"""

#: Returns pairs of elements in one line of controls, or in one row of a table, that cover each other.
FIND_OVERLAPS = """() => {
    const found = [];
    for (const group of document.querySelectorAll('nav, .filters, tr, .both, .copied, .legend')) {
        const places = [...group.children].map(one => [one, one.getBoundingClientRect()]);
        const boxes = places.filter(([, box]) => box.width && box.height);
        boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 1 && down > 4) found.push([one.textContent.trim(), other.textContent.trim()]);
        }));
    }
    return found;
}"""

#: Returns words that are broken in two within a cell or a button. Only identifiers and paths in code may be.
FIND_BROKEN_WORDS = """() => {
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode, parent = node.parentElement;
        // On narrow screens, the head of a table is one pixel large: only screen readers read it.
        const head = parent.closest('thead');
        if (!parent.checkVisibility() || parent.closest('code, svg, option, h1, a, .hidden')) continue;
        if (head && head.getBoundingClientRect().width <= 1) continue;
        for (const word of node.data.matchAll(/[A-Za-z]{2,}/g)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
            if (tops.size > 1) found.push(word[0]);
        }
    }
    return found;
}"""

#: Returns fields whose placeholder does not fit into them.
FIND_CUT_PLACEHOLDERS = """() => [...document.querySelectorAll('input')]
    .filter(one => one.checkVisibility() && one.scrollWidth > one.clientWidth).map(one => one.placeholder)"""

Open = Callable[..., Page]


def write_older_record(path: Path) -> None:
    """Write the published record of Optax as if an older version had been checked, which did not show one finding."""
    lines = gzip.decompress((PUBLISHED / "optax.jsonl.gz").read_bytes()).decode().splitlines()
    header = json.loads(lines[0])
    header |= {"framework": {**header["framework"], "version": "0.2.5"}, "started": "2025-06-01T00:00:00Z"}
    first = next(line for line in lines if '"record":"finding"' in line.replace(" ", ""))
    lines.remove(first)
    path.write_text("\n".join([json.dumps(header), *lines[1:]]), encoding="utf-8")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a site of the published records and an older one of Optax."""
    folder, older = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("older") / "older.jsonl"
    write_older_record(older)
    result = CliRunner().invoke(gradclip, ["report", str(PUBLISHED), str(older), "-o", str(folder)])
    assert result.exit_code == 0, result.output
    return folder.as_uri()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work in most containers, and the pages are our own.
        chromium = playwright.chromium.launch(executable_path=os.environ["GRADCLIP_BROWSER"], args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, site: str) -> Iterator[Open]:
    """Return a function that opens a page of the site. Errors of scripts and requests elsewhere fail the test."""
    contexts: list[Any] = []
    problems: list[str] = []

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: problems.append(asked.url) if not asked.url.startswith("file:") else None)

    def open_(name: str = "index.html", width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(f"{site}/{name}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_sticks_out_or_overlaps(kind: str, width: int, open_page: Open) -> None:
    page = open_page(KINDS[kind], width)
    page.wait_for_load_state()
    if folder := os.environ.get("GRADCLIP_SCREENSHOTS"):
        page.screenshot(path=Path(folder, f"{kind}-{width}.png"), full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(FIND_WIDE) == []
    assert page.evaluate(FIND_OVERLAPS) == []
    assert page.evaluate(FIND_BROKEN_WORDS) == []
    assert page.evaluate(FIND_CUT_PLACEHOLDERS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(kind: str, scheme: str, open_page: Open) -> None:
    page = open_page(KINDS[kind], color_scheme=scheme)
    for details in page.locator("details").all()[:20]:
        details.evaluate("one => { one.open = true; }")
    page.add_script_tag(path=str(AXE))

    # Without `preload`, axe does not ask for the style sheets once more, which Chromium refuses for files.
    result = page.evaluate("axe.run({ preload: false })")

    told = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in result["violations"]]
    assert told == []
    assert result["passes"]


class TestMatrix:
    def test_answer_leads_to_its_reason(self, open_page: Open) -> None:
        page = open_page()
        row = page.locator("#negative-threshold")
        row.locator(f"a[href*={TORCH}]", has_text="signs flip").click()

        expect(page).to_have_url(re.compile(rf"/{TORCH}\.html#q-negative-threshold$"))
        page.locator("#q-negative-threshold").get_by_role("link", name="Why").first.click()
        expect(page.locator("article:target h3")).to_contain_text("a negative threshold is not refused")
        expect(page.locator("article:target")).to_be_in_viewport()

    def test_filters_hide_questions_and_frameworks_and_stay_in_the_address(self, open_page: Open) -> None:
        page = open_page()
        rows = page.locator("table.matrix tbody tr:visible")
        expect(rows).to_have_count(16)
        # A cell says how many entry points answer otherwise.
        expect(page.locator("table.matrix")).to_contain_text("c / (n + 1e-06) (§ 1 of 5)")

        form = page.locator("form[data-filters=matrix]")
        form.get_by_label("Questions").select_option("answered differently")
        form.get_by_label("Frameworks").fill("pytorch")

        expect(rows).to_have_count(0)
        expect(page.get_by_text("No question or framework fits.")).to_be_visible()
        form.get_by_label("Questions").select_option("with a broken rule")
        expect(rows).to_have_count(2)
        page.reload()
        expect(rows).to_have_count(2)
        expect(page.locator("table.matrix thead th:visible")).to_have_count(2)

    def test_tabs_show_other_operations(self, open_page: Open) -> None:
        page = open_page()
        page.get_by_role("navigation", name="Operation").get_by_role("link", name="by value").click()

        expect(page.locator("[aria-current=page]")).to_have_text("by value")
        expect(page.locator("#overflow td[data-label^=PyTorch]")).to_contain_text("not asked")

    def test_what_to_type_first_is_one_click_away(self, open_page: Open) -> None:
        page = open_page()
        page.get_by_role("link", name="Check your own").click()

        expect(page.get_by_text("python3 -m pip install '.[check]'")).to_be_in_viewport()


class TestKeyboard:
    def test_first_stop_skips_to_the_content(self, open_page: Open) -> None:
        page = open_page()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()

    def test_tables_that_scroll_can_be_reached(self, open_page: Open) -> None:
        page = open_page()

        assert page.locator(".scroll:not([tabindex='0'])").count() == 0
        assert page.locator(".scroll:not([aria-label])").count() == 0


class TestFramework:
    def test_findings_are_filtered_by_severity_and_words(self, open_page: Open) -> None:
        page = open_page(KINDS["framework"])
        findings = page.locator("article.finding:visible")
        total = findings.count()
        form = page.locator("form[data-filters=findings]")

        form.get_by_label("Severity").select_option("destroyed")
        destroyed = findings.count()
        assert 0 < destroyed < total
        expect(form.get_by_role("status")).to_have_text(f"{destroyed} of {total}")
        form.get_by_label("Search").fill("negative")
        expect(findings).to_have_count(1)
        form.get_by_label("Search").fill("no such words")
        expect(page.get_by_text("No finding fits.")).to_be_visible()

    def test_command_can_be_copied(self, open_page: Open) -> None:
        page = open_page(KINDS["framework"])
        button = page.get_by_role("button", name="Copy: the command").first
        button.click()

        expect(button).to_have_text(re.compile("Copied|Selected"))

    def test_script_is_shown_on_demand(self, open_page: Open) -> None:
        page = open_page(KINDS["framework"])
        first = page.locator("article.finding").first
        expect(first.locator("details pre")).to_be_hidden()
        first.get_by_text("The script").click()

        expect(first.locator("details pre")).to_contain_text("import torch")


class TestHistory:
    def test_page_names_what_appeared_since_the_version_before(self, open_page: Open) -> None:
        page = open_page(KINDS["framework-with-history"])
        stages = page.locator("ol.history > li")
        expect(stages).to_have_count(2)
        expect(stages.first).to_contain_text("Optax 0.2.8, 2026-")
        expect(stages.first.get_by_text("New:")).to_have_count(1)
        expect(page.get_by_text("since 0.2.8 (not in 0.2.5)")).to_have_count(1)

        stages.last.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Optax 0.2.5")

    def test_two_versions_are_compared(self, open_page: Open) -> None:
        page = open_page("compare.html#optax-0-2-5..optax-0-2-8")
        only = page.locator("h2", has_text="Only Optax 0.2.8 shows")
        # The finding that the older run lacks combines several. Each of them is compared for itself.
        told = " ".join(only.locator("+ ul > li").all_inner_texts())
        causes = ("the powers in the norm overflow", "the powers in the norm underflow", "the norm is too large")
        assert [one for one in causes if one not in told] == []
        assert "zero gradients" not in told

    def test_cause_that_two_findings_share_is_not_listed_as_a_difference(self, open_page: Open) -> None:
        page = open_page(f"compare.html#optax-0-2-8..{TENSORFLOW}")
        lists = page.locator("h2", has_text="shows").locator("+ ul")
        expect(lists).to_have_count(2)

        told = " ".join(lists.all_inner_texts())
        # Optax shows it in a finding of one cause, TensorFlow in one of several.
        for run in ("optax-0-2-8", TENSORFLOW):
            body = open_page(f"framework/{run}.html").locator("body")
            expect(body).to_contain_text("zero gradients and a zero threshold")
        assert "zero gradients" not in told


class TestRules:
    def test_rules_that_a_framework_breaks(self, open_page: Open) -> None:
        page = open_page("rules.html")
        rows = page.locator("#rules tbody tr:visible")
        total = rows.count()

        page.get_by_label("Broken by").select_option(TORCH)
        assert 0 < rows.count() < total
        page.get_by_label("Search", exact=True).last.fill("overflow-of-squares")
        expect(rows).to_have_count(1)
        rows.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("global-norm.overflow-of-squares")
        expect(page.locator("math")).to_be_visible()


class TestCompare:
    def test_differences_of_two_frameworks(self, open_page: Open) -> None:
        page = open_page(f"compare.html#{TORCH}..{TENSORFLOW}")
        expect(page.get_by_role("status").first).to_contain_text("From PyTorch 2.13.0+cpu to TensorFlow 2.21.0")
        row = page.locator("tr", has_text="What does a negative threshold do?")
        expect(row).to_contain_text("signs flip")
        expect(row).to_contain_text("unchanged")
        page.get_by_role("button", name="Swap").click()
        expect(page.get_by_role("status").first).to_contain_text("From TensorFlow 2.21.0 to PyTorch 2.13.0+cpu")
        assert page.url.endswith(f"#{TENSORFLOW}..{TORCH}")

    def test_table_of_formulas_stands_first(self, open_page: Open) -> None:
        page = open_page(KINDS["compare"])
        expect(page.get_by_role("heading", level=2).first).to_have_text("The formulas")
        row = page.get_by_role("row", name="Factor above the threshold")
        expect(row.get_by_role("cell")).to_have_text(["c / (n + 1e-06)", "c / n"])

    def test_page_opens_with_the_commonest_port(self, open_page: Open) -> None:
        page = open_page("compare.html")
        expect(page.get_by_role("status").first).to_contain_text("From PyTorch 2.13.0+cpu to TensorFlow 2.21.0")

        page = open_page(f"compare.html#{TENSORFLOW}")
        expect(page.get_by_role("status").first).to_contain_text("From TensorFlow 2.21.0 to PyTorch 2.13.0+cpu")

    def test_choice_by_keyboard_changes_the_address(self, open_page: Open) -> None:
        page = open_page("compare.html")
        form = page.locator("#compare")
        form.get_by_label("From").focus()
        page.keyboard.type("PyTorch")
        form.locator("select[name=to]").select_option(TENSORFLOW)
        form.get_by_label("Operation").select_option("by value")

        assert page.url.endswith(f"#{TORCH}..{TENSORFLOW}..clip_by_value")

    def test_same_run_twice_is_said(self, open_page: Open) -> None:
        page = open_page(f"compare.html#{TORCH}..{TORCH}")

        expect(page.get_by_role("status").first).to_have_text("Choose two different runs.")


class TestWithoutScripts:
    def test_everything_but_the_comparison_is_there(self, open_page: Open) -> None:
        page = open_page(java_script_enabled=False)
        expect(page.locator("table.matrix tbody tr:visible")).to_have_count(16)
        expect(page.locator("form:visible")).to_have_count(0)
        page.goto(page.url.replace("index.html", "compare.html"))

        expect(page.get_by_text("Comparing needs JavaScript.")).to_be_visible()
