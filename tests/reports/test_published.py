"""Check that the published records are whole, and that the README and the matrix show them."""

from __future__ import annotations

import gzip
import json
import math
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from gradclip_conformance.known.faults import find_faults
from gradclip_conformance.run.environments import read_recipes
from gradclip_reports.counting import count_explained
from gradclip_reports.records import read_runs

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published"
RECORDS = sorted(PUBLISHED.glob("*.jsonl.gz"))
OLDER = sorted(PUBLISHED.glob("older/*.jsonl.gz"))

pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="a checkout is missing: source distributions hold no records"
)


def test_every_framework_has_a_record() -> None:
    assert {
        "numpy",
        "optax",
        "mlx",
        "mxnet",
        "chainer",
        "thinc",
        "nnabla",
        "torch",
        "paddle",
        "paddle-fluid",
        "tensorflow",
    } <= {path.name.removesuffix(".jsonl.gz") for path in RECORDS}


def test_every_older_version_that_the_suite_knows_has_a_record() -> None:
    known = {f"{name}-{one}.jsonl.gz" for name, recipe in read_recipes().items() for one in recipe.others}

    assert known == {path.name for path in OLDER}


#: The records with more unexplained cells, which are pinned by case with a reason.
LESS_EXPLAINED = {"deepspeed": 0.8, "jittor": 0.96, "mindspore": 0.96, "mlx-0.25": 0.9, "mlx-0.29": 0.9}


@pytest.mark.exam(sample=0)
@pytest.mark.parametrize("path", [*RECORDS, *OLDER], ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_record_is_whole_and_holds_no_path_of_a_machine(path: Path) -> None:
    (run,) = read_runs(path)

    differing, explained = count_explained([run])
    least = next((share for name, share in LESS_EXPLAINED.items() if path.name.startswith(name)), 0.98)
    assert explained >= least * differing
    assert run.footer.finished == run.footer.planned == len(run.cells)
    # What the suite knows about the framework is what the record shows.
    assert find_faults(run, str(run.header.framework["version"]) if path in OLDER else "") == []
    assert b"/home/" not in gzip.decompress(path.read_bytes())


@pytest.mark.exam(sample=0)
def test_pages_pictures_and_site_show_the_published_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = runpy.run_path(str(PUBLISHED / "update_readme.py"))
    monkeypatch.setattr("sys.argv", ["update_readme.py", "--check"])

    assert script["main"]() == 0, capsys.readouterr().out


class TestStale:
    """The check of stale files, with a folder of its own instead of the published one."""

    PAGE, FILES = "page.md", {"index.html": b"<p>", "rule/one.html": b"<b>"}

    @pytest.fixture
    def find_stale(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
        script = runpy.run_path(str(PUBLISHED / "update_readme.py"))
        find: Callable[..., list[str]] = script["find_stale"]
        monkeypatch.setitem(find.__globals__, "SUMMARIES", tmp_path / "summaries")
        monkeypatch.setitem(find.__globals__, "SITE", tmp_path / "site.zip")
        (tmp_path / "summaries").mkdir()
        (tmp_path / self.PAGE).write_text("text", encoding="utf-8")
        (tmp_path / "site.zip").write_bytes(script["pack"](self.FILES))
        return find

    def test_equal_files_are_fresh(self, find_stale: Callable[..., list[str]], tmp_path: Path) -> None:
        assert find_stale({tmp_path / self.PAGE: "text"}, self.FILES) == []

    def test_each_difference_is_named(self, find_stale: Callable[..., list[str]], tmp_path: Path) -> None:
        (tmp_path / "summaries" / "gone.md").touch()
        pages = {tmp_path / self.PAGE: "other", tmp_path / "missing.svg": ""}

        assert find_stale(pages, {**self.FILES, "rule/one.html": b"<i>"}) == [
            "page.md",
            "missing.svg",
            "gone.md",
            "site.zip",
        ]

    def test_missing_site_is_stale(self, find_stale: Callable[..., list[str]], tmp_path: Path) -> None:
        (tmp_path / "site.zip").unlink()

        assert find_stale({}, self.FILES) == ["site.zip"]


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


def read_answers(name: str, subject: str, case: str) -> list[tuple[float, ...]]:
    """Return the elements that entry points of a published record returned for a case.

    The whole record is not read, because that takes seconds.
    """
    lines = gzip.decompress((PUBLISHED / f"{name}.jsonl.gz").read_bytes()).decode("utf-8").splitlines()
    cells = [json.loads(line) for line in lines if f'"{case}"' in line]
    return [
        tuple(float.fromhex(value) for gradient in cell["observed"]["gradients"] for value in gradient["values"])
        for cell in cells
        if cell["record"] == "cell" and cell["subject"].startswith(subject)
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


@pytest.mark.parametrize("title", SURPRISES)
def test_surprising_result_stands_in_the_records(title: str) -> None:
    for name, subject, case, expected in SURPRISES[title]:
        answers = read_answers(name, subject, case)
        assert answers
        assert {describe(answer) for answer in answers} == {expected}, (name, case)


def test_readme_lists_the_surprising_results_that_are_checked() -> None:
    listed = re.findall(r"^- \*\*(.*?)\.?\*\*", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert listed == [title.removesuffix(".") for title in SURPRISES]
