"""Check the files that `gradclip new-adapter` writes: they run, count cells rightly, and may be another package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from runs import run_command

from gradclip_adapters import registry
from gradclip_adapters.contract import FEATURES, OPERATIONS, Array, Call, EntryPoint, FrameworkRaised, Gradient
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.failures import load_known
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import RunRequest, plan_rows, run_adapter
from gradclip_conformance.skeleton.files import STYLES, write_files
from gradclip_reports.statuses import SPOILING

ROOT = Path(__file__).resolve().parents[2]

#: An ability in the file: its comment, and its name in a line that is commented out.
ABILITY = re.compile(r'((?:    # (?!"\w+",$).*\n)+)    # "(\w+)",$', re.MULTILINE)


@pytest.fixture(autouse=True)
def restore_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore Python's path after each test, because loading an adapter adds the folder of its file.

    Write no bytecode. Two versions of a file with one length, written within a second, have the same bytecode.
    """
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def declare(text: str, ability: str) -> str:
    return text.replace(f'# "{ability}",', f'"{ability}",')


def load_entry_point(path: Path) -> EntryPoint:
    (entry_point,) = registry.resolve(str(path)).subjects()
    return entry_point


def count_supported(entry_point: EntryPoint) -> int:
    """Return the number of cells of a run that the entry point supports."""
    planned = [*plan_cells([entry_point], list_all_cases(), Selection()), *plan_rows([entry_point], Selection())]
    return sum(cell.missing is None for cell in planned)


#: A sum over examples cannot be written into the gradients. Parameters of zero show no clip relative to them.
REFUSED = (("in-place", "clip_per_example"), ("optimizer", "clip_unitwise"))


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("style", "operation"),
    [(style, operation) for style in STYLES for operation in OPERATIONS if (style, operation) not in REFUSED],
)
def test_written_adapter_passes_smoke_and_lists_every_ability(style: str, operation: str, tmp_path: Path) -> None:
    written = run_command("new-adapter", "fresh", "--style", style, "--op", operation, "--folder", tmp_path)
    result = run_command("smoke", tmp_path / "fresh.py")

    assert (written.exit_code, result.exit_code) == (0, 0), written.output + result.output
    assert "  pass  " in result.output
    text = (tmp_path / "fresh.py").read_text(encoding="utf-8")
    declared = load_entry_point(tmp_path / "fresh.py").features
    assert {name for _, name in ABILITY.findall(text)} | set(declared) == set(FEATURES)
    assert max(map(len, text.splitlines())) <= 120
    assert load_claims(str(tmp_path / "fresh.py")) == ()
    assert load_known(str(tmp_path / "fresh.py")) == ()


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("style", STYLES)
def test_numbers_of_cells_are_those_of_the_plan(style: str, tmp_path: Path) -> None:
    path = tmp_path / "fresh.py"
    text = write_files("fresh", style, "clip_by_global_norm")["fresh.py"]
    path.write_text(text, encoding="utf-8")
    before = count_supported(load_entry_point(path))

    for comment, name in ABILITY.findall(text):
        if name in ("excludes", "norm_type", "none_grads", "strided"):
            path.write_text(declare(text, name), encoding="utf-8")
            assert f"# {count_supported(load_entry_point(path)) - before} cells: {FEATURES[name][:20]}" in comment


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("style", ["functional", "in-place"])
def test_filled_in_adapter_honours_the_abilities_that_need_no_code(style: str, tmp_path: Path) -> None:
    text = write_files("filled", style, "clip_by_global_norm")["filled.py"]
    in_place = style == "in-place"
    for comment, name in ABILITY.findall(text):
        # A clip in place refuses gradients that cannot be written, so its adapter does not declare them.
        if in_place and "cannot be written" in FEATURES[name]:
            continue
        if not comment.startswith("    # 0 cells") and "To do" not in comment and "optimizer" not in comment:
            text = declare(text, name)
    start = text.index("    results, norm = gradclip_spec.")
    end = text.index("def make_tensor")
    body = (
        "    threshold, flags = options.pop('clip_norm'), options.pop('need_clip')\n"
        "    clipped, norm = gradclip_spec.clip_by_global_norm(\n"
        f"        tensors, threshold, need_clip=flags, inplace={in_place}, **options\n"
        "    )\n"
        f"    return {'norm' if in_place else 'clipped, norm'}\n\n\n"
    )
    text = text[:start] + body + text[end:]
    (tmp_path / "filled.py").write_text(text)
    adapter = registry.resolve(str(tmp_path / "filled.py"))

    record = run_adapter(RunRequest("filled", lambda: InProcess(adapter), Selection(dtypes=("float32",)), rows=20))

    assert [f"{one.case}: {one.detail}" for one in record.cells if one.status in SPOILING] == []
    assert sum(one.status == "pass" for one in record.cells) > 100


@pytest.mark.thorough(sample=0)
def test_error_that_rises_when_a_result_is_read_is_the_answer_of_the_framework(tmp_path: Path) -> None:
    text = write_files("lazy", "functional", "clip_by_value")["lazy.py"]
    late = "class Late:\n    def __array__(self, *_, **__):\n        raise ArithmeticError('computed too late')\n\n\n"
    text = text.replace("# FILL IN", f"{late}# FILL IN").replace("return results, norm", "return [Late()], norm")
    (tmp_path / "lazy.py").write_text(text, encoding="utf-8")
    call = Call("lazy.clip", (Gradient("g0", Array.of(np.ones(2, np.float32))),), {"max": 1.0})

    with pytest.raises(FrameworkRaised, match="computed too late"):
        registry.resolve(str(tmp_path / "lazy.py")).call(call)


def test_tutorial_names_the_choices_of_each_option() -> None:
    text = (ROOT / "docs/tutorial/adapter.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `--(\w+)` \|(.*)$", text, re.MULTILINE)
    named = {option: set(re.findall(r"`([\w-]+)`", choices)) for option, choices in rows}

    assert named["style"] == set(STYLES)
    assert named["op"] <= set(OPERATIONS)


@pytest.mark.thorough(sample=0)
def test_other_files_are_written_as_documents_of_their_kinds() -> None:
    texts = write_files("fresh", "functional", "clip_by_norm")

    assert tomllib.loads(texts["fresh.claims.toml"]) == {"framework": "fresh", "version": "0"}
    example = re.sub(r"^# (?=\[\[|\w+ = )", "", texts["fresh.expectations.toml"], flags=re.MULTILINE)
    assert tomllib.loads(example)["known"][0]["subjects"] == ["fresh.clip"]
    assert "gradclip check ./fresh.py -o fresh.jsonl" in texts["fresh.workflow.yml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["../x"], "NAME is '../x'"),
        (["numpy"], "There is a module numpy"),
        (["x", "--style", "lazy"], "'lazy' is not one of"),
        (["x", "--style", "in-place", "--op", "clip_per_example"], "has another shape than the gradients"),
        (["x", "--style", "optimizer", "--op", "clip_unitwise"], "shows no clip relative to them"),
        (["x", "--folder", "missing"], "does not exist"),
    ],
)
def test_wrong_usage_writes_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gradclip_conformance.skeleton.command.write_files", lambda *_: {"x.py": "", "numpy.py": ""})

    result = run_command("new-adapter", *arguments)

    assert result.exit_code == 2
    assert message in result.output
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradclip_conformance.skeleton.command.write_files", lambda *_: {"x.py": "new", "x.toml": ""})
    (tmp_path / "x.py").write_text("old", encoding="utf-8")

    result = run_command("new-adapter", "x", "--folder", tmp_path)

    assert result.exit_code == 2
    assert "x.py exists already. Nothing was written." in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["x.py"]
    assert (tmp_path / "x.py").read_text(encoding="utf-8") == "old"


METADATA = "Metadata-Version: 2.1\nName: second-package\nVersion: 1.0\n"
ENTRY_POINTS = "[gradclip.adapters]\nsecond = second_package.fresh:NewAdapter\n"
CLAIMS = """
framework = "second"
version = "0"

[[claim]]
subject = "fresh.clip"
rules = ["global-norm.scaled-above"]
formula = { kind = "coefficient", eps = 1.0 }
phrase = "multiplies by min(1, max_norm / (norm + 1))"
where = "docstring of fresh.clip"
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with an installed adapter that divides by the norm plus 1, and a claim that says so."""
    adapter = write_files("fresh", "functional", "clip_by_global_norm")["fresh.py"].replace(
        'clip_by_global_norm(tensors, options["clip_norm"])',
        'clip_by_global_norm(tensors, options["clip_norm"], eps=1.0)',
    )
    files = {
        # The suite must not import the package, because that may import the framework.
        "second_package/__init__.py": "import sys\nassert 'gradclip_conformance' not in sys.modules\n",
        "second_package/fresh.py": adapter,
        "second_package/fresh.claims.toml": CLAIMS,
        "second_package-1.0.dist-info/METADATA": METADATA,
        "second_package-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "site"


@pytest.mark.thorough(sample=0)
def test_adapter_of_another_distribution_is_found_by_its_entry_point(site: Path) -> None:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gradclip_conformance", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
            cwd=site.parent,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "second_package.fresh:NewAdapter" in run("adapters")
    smoke = run("smoke", "second")
    assert "second: fresh 0, Python" in smoke
    assert "  documented  global-norm.scaled-above/three-four-five/float32" in smoke
