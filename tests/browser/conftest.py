"""Build the site of the published records once, and open it in headless Chromium.

`nox -s browser` sets GRADCLIP_BROWSER to the program of Chromium.
"""

from __future__ import annotations

import gzip
import json
import os
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
def open_page(browser: Browser, site: str) -> Iterator[Callable[..., Page]]:
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
