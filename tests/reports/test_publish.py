"""Check the programs that make the results of a release, and the records in the repository."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sample_runs import HOSTILE, make_run, write_record_text

import pages
import publish
from gradclip_reports.records import Header, Run
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.site.questions import answer_run
from gradclip_spec import __version__
from gradclip_spec.rules.questions import load_questions

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published"


def write_compressed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


@pytest.fixture
def run_instead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces the command line by one that writes a record and ends as it is told."""

    def replace_verbs(code: int, record: str = "") -> None:
        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            if record:
                Path(arguments[-1], "torch.jsonl").write_text(record, encoding="utf-8")
            return subprocess.CompletedProcess(arguments, code, stdout="what it says\n")

        monkeypatch.setattr(publish, "run_gradclip", run)

    return replace_verbs


class TestRecords:
    def test_record_of_a_run_with_failures_is_compressed_without_a_time(
        self, run_instead: Callable[..., None], tmp_path: Path
    ) -> None:
        run_instead(1, '{"record": "header"}\n')

        assert publish.make_record("torch@1.7.1", tmp_path) == ""
        content = (tmp_path / "older" / "torch-1.7.1.jsonl.gz").read_bytes()
        assert gzip.decompress(content) == b'{"record": "header"}\n'
        # These bytes of the header would hold the time.
        assert content[4:8] == bytes(4)

    @pytest.mark.parametrize(("code", "record"), [(3, "{}"), (0, "")], ids=["fault", "no-record"])
    def test_failed_check_leaves_the_old_record_and_says_why(
        self, code: int, record: str, run_instead: Callable[..., None], tmp_path: Path
    ) -> None:
        (tmp_path / "torch.jsonl.gz").write_bytes(b"old")
        run_instead(code, record)

        assert publish.make_record("torch", tmp_path) == "what it says\n"
        assert (tmp_path / "torch.jsonl.gz").read_bytes() == b"old"

    @pytest.mark.parametrize(("version", "is_current"), [(__version__, True), ("0.0.1", False)])
    def test_only_results_of_this_version_are_kept(self, version: str, is_current: bool, tmp_path: Path) -> None:
        record, table = tmp_path / "torch.jsonl.gz", tmp_path / "accuracy.json"
        write_compressed(record, json.dumps({"suite": {"version": version}}) + "\n{}\n")
        table.write_text(json.dumps({"suite": version}), encoding="utf-8")

        assert publish.is_current(record) is is_current
        assert publish.is_current(table) is is_current
        assert not publish.is_current(tmp_path / "missing.jsonl.gz")

    def test_every_adapter_and_every_older_version_gets_a_record(self) -> None:
        names = publish.list_names()

        assert {"numpy", "torch", "tensorflow-js", "torch@1.7.1"} <= {*names}
        assert not any(name.startswith("reference-") for name in names)


class TestPages:
    @pytest.fixture
    def folder(self, several_runs: Sequence[Run], tmp_path: Path) -> Path:
        """Return a folder with three current records, an older one, and measurements of nothing."""
        runs = [make_run(run.header, run.cells[:200]) for run in several_runs]
        for run in runs:
            write_compressed(tmp_path / f"{run.header.adapter}.jsonl.gz", write_record_text([run]))
        first = runs[0]
        older = replace(first, header=replace(first.header, framework={"name": "torch", "version": "1.7.1"}))
        write_compressed(tmp_path / "older" / "torch-1.7.1.jsonl.gz", write_record_text([older]))
        (tmp_path / "accuracy.json").write_text('{"frameworks": []}', encoding="utf-8")
        (tmp_path / "benchmarks.json").write_text("[]", encoding="utf-8")
        return tmp_path

    def test_each_page_says_of_which_release_it_is(self, folder: Path) -> None:
        texts = pages.write_pages(folder)

        assert {*texts} == {"questions.md", "questions.svg", "matrix.md", "versions.md"}
        assert all("gradclip-spec 0.1.0" in text for name, text in texts.items() if name.endswith(".md"))
        assert "## torch" in texts["versions.md"]
        assert texts["questions.md"].index("torch 2.13.0") < texts["questions.md"].index("tensorflow 2.21.0")

    def test_records_of_two_releases_make_no_pages(self, folder: Path, torch_run: Run) -> None:
        header = replace(torch_run.header, suite={"name": "gradclip-spec", "version": "0.2.0"})
        write_compressed(folder / "torch.jsonl.gz", write_record_text([replace(torch_run, header=header)]))

        with pytest.raises(ValueError, match=r"several versions of gradclip-spec: 0\.1\.0, 0\.2\.0"):
            pages.write_pages(folder)

    def test_hostile_names_stay_text(self, torch_run: Run) -> None:
        header: Header = replace(torch_run.header, framework={"name": HOSTILE, "version": HOSTILE})
        run = replace(torch_run, header=header)
        catalogue = Catalogue(load_questions())

        picture = pages.draw_picture(catalogue.questions, [run], [answer_run(run, catalogue)])
        table = pages.draw_table([run], catalogue)

        assert not {"script", "image", "a"} & {
            each.tag.rpartition("}")[2] for each in ElementTree.fromstring(picture).iter()
        }
        assert "\x1b" not in picture + table
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1


#: The results that the README calls surprising: for each, the entry points and the case that show it, and what becomes
#: of every element of the gradients.
SURPRISES = {
    "Nothing to clip, and everything lost": [
        ("torch", "torch.nn.utils.clip_grad_norm_", "global-norm.overflow-of-squares/below/float32", "zero"),
        ("paddle", "paddle.nn.ClipGradByGlobalNorm", "global-norm.overflow-of-squares/below/float32", "zero"),
        ("tensorflow", "tf.clip_by_global_norm", "global-norm.overflow-of-squares/below/float32", "NaN"),
    ],
    '"Only tell me the norm."': [
        ("paddle", "paddle.nn.ClipGradByGlobalNorm [SGD", "global-norm.infinite-threshold/finite/float32", "NaN"),
        ("tensorflow", "tf.clip_by_global_norm", "global-norm.infinite-threshold/finite/float32", "NaN"),
    ],
    "A negative threshold": [
        ("torch", "torch.nn.utils", "global-norm.negative-threshold-refused/minus-one/float32", "flipped"),
        (
            "paddle",
            "paddle.nn.ClipGradByGlobalNorm",
            "global-norm.negative-threshold-refused/minus-one/float32",
            "flipped",
        ),
    ],
    "A zero gradient": [
        ("paddle-fluid", "paddle.fluid.clip.GradientClipByNorm", "norm.zero-gradient/alone/float32", "NaN"),
    ],
    "A NaN in one gradient": [
        (
            "paddle-fluid",
            "paddle.fluid.clip.GradientClipByGlobalNorm [SGD, dygraph]",
            "global-norm.nan-not-silent/one-among-many/float32",
            "unchanged",
        ),
    ],
}


def read_answers(name: str, entry_point: str, case: str) -> list[tuple[float, ...]]:
    """Return the elements that entry points of a published record returned for a case.

    The whole record is not read, because that takes seconds.
    """
    lines = gzip.decompress((PUBLISHED / f"{name}.jsonl.gz").read_bytes()).decode("utf-8").splitlines()
    cells = [json.loads(line) for line in lines if f'"{case}"' in line]
    return [
        tuple(float.fromhex(value) for gradient in cell["observed"]["gradients"] for value in gradient["values"])
        for cell in cells
        if cell["record"] == "cell" and cell["subject"].startswith(entry_point)
    ]


def describe(answer: tuple[float, ...]) -> str:
    """Say what became of every element of gradients that were `[3], [-4]` or `[1, 2], ...`."""
    if all(map(math.isnan, answer)):
        return "NaN"
    if not any(answer):
        return "zero"
    if answer == pytest.approx((-0.6, 0.8)):
        return "flipped"
    return "unchanged" if answer[:4] == (1, 2, 1, 2) else str(answer)


@pytest.mark.skipif(
    not (PUBLISHED / "torch.jsonl.gz").is_file(), reason="a checkout is missing: source distributions hold no records"
)
@pytest.mark.parametrize("title", SURPRISES)
def test_surprising_result_stands_in_the_records(title: str) -> None:
    for name, entry_point, case, expected in SURPRISES[title]:
        answers = read_answers(name, entry_point, case)
        assert answers
        assert {describe(answer) for answer in answers} == {expected}, (name, case)


def test_readme_lists_the_surprising_results_that_are_checked() -> None:
    listed = re.findall(r"^- \*\*(.*?)\.?\*\*", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert listed == [title.removesuffix(".") for title in SURPRISES]
