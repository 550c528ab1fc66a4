"""Check the site. Every text of a record is escaped, every link leads somewhere, and nothing leaves the folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fuzzing.drawings import check_pages
from sample_runs import HOSTILE, make_cell, make_header, make_run, make_uniform

from gradclip_reports.records import RecordError, Run
from gradclip_reports.site.build import LARGEST, build_site, write_mathml
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.site.slugs import Slugs, is_safe_link
from gradclip_reports.site.views import make_views
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_causes
from gradclip_spec.rules.questions import load_questions
from manual.links import Page, find_broken_links

RULES = rules.load()[:6]
CATALOGUE = Catalogue(load_questions(), RULES, tuple(load_causes().values())[:5])


def read_site(folder: Path) -> Mapping[str, Page]:
    return {str(path.relative_to(folder)): Page(path.read_text("utf-8")) for path in folder.rglob("*.html")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, torch_run: Run, hostile_run: Run) -> Path:
    """Return the folder of a site of an ordinary and a hostile run."""
    differing = next(cell for cell in torch_run.cells if cell.status == "fail")
    finding = make_uniform(differing, "plain", cause=CATALOGUE.causes[0].id, url="https://example.org/1")
    runs = [replace(torch_run, findings=(finding,)), hostile_run]
    folder = tmp_path_factory.mktemp("made") / "made" / "site"
    count = build_site([(run, HOSTILE) for run in runs], folder, CATALOGUE, lambda run, cell: HOSTILE)
    check_pages(folder, count)
    return folder


class TestUntrustedTexts:
    def test_texts_are_not_templates(self, site: Path) -> None:
        assert "{{ 7*7 }}" in (site / "index.html").read_text("utf-8")

    def test_files_stay_in_the_folder(self, site: Path) -> None:
        written = [path for path in site.parent.parent.rglob("*") if path.is_file()]

        assert all(path.is_relative_to(site) for path in written)
        assert len(list((site / "data").iterdir())) == 3

    @pytest.mark.parametrize(
        ("url", "safe"),
        [
            ("https://github.com/pytorch/pytorch/issues/1", True),
            ("http://example.org", False),
            ("javascript:alert(1)", False),
            ("https://", False),
            ("https://user@example.org", False),
            ("https://example.org/\x1b", False),
            ("https://example.org/ onclick=1", False),
            ("https://[", False),
            ("data:text/html,x", False),
            (None, False),
        ],
    )
    def test_only_https_addresses_are_links(self, url: str | None, safe: bool) -> None:
        assert is_safe_link(url) is safe


class TestLinks:
    def test_every_link_leads_to_a_file_and_an_anchor(self, site: Path) -> None:
        assert list(find_broken_links(site)) == []
        for name, page in read_site(site).items():
            ids = page.list_values("id")
            assert len(set(ids)) == len(ids), name

    def test_title_of_a_cause_keeps_its_capitals(self, torch_run: Run, tmp_path: Path) -> None:
        cause = load_causes()["none-changed"]

        build_site([(torch_run, "torch.jsonl")], tmp_path, replace(CATALOGUE, causes=[cause]))

        text = (tmp_path / f"cause/{cause.id}.html").read_text("utf-8")
        wanted = "A None becomes a gradient, or a gradient becomes None"
        assert [f"<{tag}>{wanted}</{tag}>" in text for tag in ("title", "h1")] == [True, True]

    def test_only_safe_address_is_a_link(self, site: Path) -> None:
        links = {link for page in read_site(site).values() for link in page.list_values("href") if ":" in link}

        assert links == {"https://example.org/1"}

    def test_pages_link_to_a_manual_that_is_named(self, torch_run: Run, tmp_path: Path) -> None:
        build_site([(torch_run, "torch.jsonl")], tmp_path, CATALOGUE, manual="../index.html")

        assert "../index.html" in Page((tmp_path / "index.html").read_text("utf-8")).list_values("href")
        assert "../../index.html" in Page((tmp_path / "framework/torch-2-13-0.html").read_text("utf-8")).list_values(
            "href"
        )


class TestSlugs:
    def test_names_are_safe_and_given_once(self) -> None:
        slugs = Slugs()
        texts = ["torch 2.1", "Torch-2.1", "torch 2.1", "../..", "", "\u202e", "CON", "com1", "a" * 500, HOSTILE]

        names = [slugs.choose(text) for text in texts]

        assert len(set(names)) == len(texts)
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,99}", name) for name in names)
        assert not {"con", "com1"} & set(names)


class TestFormulas:
    def test_every_formula_of_the_book_is_well_formed(self) -> None:
        for rule in rules.load():
            if rule.formula:
                ElementTree.fromstring(write_mathml(rule.formula))

    def test_arrow_has_its_spaces(self) -> None:
        assert "<mspace" in write_mathml(r"a \implies b")


class TestContents:
    def test_first_load_is_small(self, torch_run: Run, tmp_path: Path) -> None:
        run = make_run(torch_run.header, torch_run.cells[:40])
        headers = [
            replace(run.header, framework={"name": f"framework {number}", "version": "2.13.0"}) for number in range(30)
        ]
        build_site([(replace(run, header=header), "record.jsonl") for header in headers], tmp_path, CATALOGUE)

        first = ["index.html", "static/site.css", "static/site.js"]
        assert sum((tmp_path / name).stat().st_size for name in first) < 500_000

    def test_history_names_what_appeared_and_what_went(self, tmp_path: Path) -> None:
        cell = make_cell(status="fail")
        runs = []
        for version, started, cause in [("1.0", "2026-01-01", "old"), ("2.0", "2026-02-01", "new")]:
            header = replace(make_header("torch", version), started=f"{started}T00:00:00Z")
            finding = make_uniform(cell, "text", cause=cause, title=f"does the {cause} thing", parameters={})
            runs.append((replace(make_run(header, [cell]), findings=(finding,)), "record.jsonl"))

        build_site(runs[::-1], tmp_path, CATALOGUE)
        text = (tmp_path / "framework" / "torch-2-0.html").read_text("utf-8")

        assert "<b>New:</b> does the new thing" in text
        assert "<b>Gone:</b> does the old thing" in text
        assert "since 2.0 (not in 1.0); checked: 1.0, 2.0" in text

    def test_finding_with_another_effect_is_the_same_in_two_versions(self) -> None:
        cell = make_cell(status="fail")
        runs = []
        for version, started in [("1.0", "2026-01-01"), ("2.0", "2026-02-01")]:
            header = replace(make_header("torch", version), started=f"{started}T00:00:00Z")
            finding = make_uniform(cell, "text", parameters={"effect": f"of {version}"})
            runs.append((replace(make_run(header, [cell]), findings=(finding,)), "record.jsonl"))

        views = make_views(runs, CATALOGUE, lambda run, cell: "")

        assert [(stage.appeared, stage.gone) for stage in views[1].history] == [([], []), ([], [])]
        assert [one.versions for one in views[1].findings] == ["in all; checked: 1.0, 2.0"]

    def test_findings_stand_worst_first(self) -> None:
        cell = make_cell(status="fail")
        findings = tuple(make_uniform(cell, name, severity=name) for name in ("unheard-of", "rounding", "destroyed"))
        run = replace(make_run(make_header(), [cell]), findings=findings)

        (view,) = make_views([(run, "record.jsonl")], CATALOGUE, lambda run, cell: "")

        assert [one.finding.severity for one in view.findings] == ["destroyed", "rounding", "unheard-of"]

    def test_finding_shows_its_script_and_its_command(self, site: Path) -> None:
        (page,) = (site / "framework").glob("torch-*.html")
        text = page.read_text("utf-8")

        assert "gradclip repro" in text
        assert "<summary>The script</summary>" in text

    @pytest.mark.parametrize("number", [0, LARGEST + 1])
    def test_other_numbers_of_runs_are_refused(self, number: int, torch_run: Run, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match=f"1 to {LARGEST} runs; {number} were given"):
            build_site([(torch_run, "a")] * number, tmp_path, CATALOGUE)
        assert not list(tmp_path.iterdir())

    def test_combined_finding_names_equal_parts_once(self) -> None:
        cell = make_cell(status="fail")
        parts = tuple(make_uniform(cell, reason, title="overflows", parameters={}) for reason in ("one", "another"))
        finding = replace(make_uniform(cell, "text"), parts=parts)
        run = replace(make_run(make_header(), [cell]), findings=(finding,))

        (view,) = make_views([(run, "record.jsonl")], CATALOGUE, lambda run, cell: "")

        assert view.findings[0].parts == [("overflows", "")]

    def test_wrong_answer_to_a_question_has_an_example(self, tmp_path: Path) -> None:
        rule = "global-norm.negative-threshold-refused"
        shown: dict[str, Any] = {"input": {"options": {"clip_norm": -1.0}}, "observed": {"gradients": ["flipped"]}}
        cell = make_cell(subject="f", operation="clip_by_global_norm", rule=rule, case=f"{rule}/minus-one/float32")
        wrong = replace(cell, status="fail", behaviour="sign-flipped", **shown)
        header = make_header("torch", "1.0", [("f", "clip_by_global_norm")])

        build_site([(make_run(header, [wrong]), "record.jsonl")], tmp_path, CATALOGUE)
        text = (tmp_path / "framework" / "torch-1-0.html").read_text("utf-8")

        row = text.partition('<tr id="q-negative-threshold">')[2].partition("</tr>")[0]
        assert "signs flip" in row
        assert "clip_norm: -1.0" in row
        assert "gradients: [flipped]" in row


@pytest.mark.parametrize(
    ("adapters", "pair"),
    [
        (["numpy", "tensorflow", "optax", "torch"], ("torch", "tensorflow")),
        (["numpy", "torch", "optax"], ("numpy", "torch")),
    ],
)
def test_comparison_opens_with_torch_and_tensorflow_or_the_first_two(
    adapters: list[str], pair: tuple[str, str], tmp_path: Path
) -> None:
    runs = [(make_run(make_header(name, "1.0"), [make_cell()]), f"{name}.jsonl") for name in adapters]

    build_site(runs, tmp_path, CATALOGUE)

    selects = re.findall(r"<select.*?</select>", (tmp_path / "compare.html").read_text("utf-8"))
    chosen = [re.findall(r'<option value="(\S+)" selected>', select) for select in selects[:2]]
    assert chosen == [[f"{name}-1-0"] for name in pair]
    address = "..".join(f"{name}-1-0" for name in pair)
    assert f'href="compare.html#{address}"' in (tmp_path / "index.html").read_text("utf-8")
