"""Check the commands from outside: their exit codes, and their messages when something is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from runs import run_command

from gradclip_adapters.operations import PREFIXES
from gradclip_conformance import cli
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cli import VERBS, gradclip
from gradclip_conformance.cli.targets import OperationChoice
from gradclip_conformance.judge.model import Description
from gradclip_conformance.run.runner import make_header
from gradclip_reports.records import read_runs
from gradclip_spec import rules

HOSTS = Path(__file__).with_name("hosts")
RIGHT, MISBEHAVES, LACKING = (str(HOSTS / f"{name}.py") for name in ("right", "misbehaves", "does_not_start"))
LAUNCHER = f"{sys.executable} -m gradclip_adapters.host"
PUBLISHED = Path(__file__).parents[2] / "reports" / "published" / "torch.jsonl.gz"
NARROW = ["--rule", "norm.each-tensor-alone", "--dtype", "float32"]


def check_once(adapter: str, folder: Path, *options: str) -> tuple[Result, Path]:
    """Return what the check of three cells prints, and its record. One run serves many tests."""
    record = folder / "record.jsonl"
    return run_command("check", adapter, *NARROW, *options, "-o", record), record


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    # The same run checks that a Python may be named for one adapter, and that there may be no limit of time.
    options = ("--timeout", "inf", "--python", f"{RIGHT}={sys.executable}")
    return check_once(RIGHT, tmp_path_factory.mktemp("right"), *options)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    # The same run checks that a launcher may be any command, and a limit of time longer than any clock counts.
    options = ("--timeout", "1e300", "--command", LAUNCHER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADCLIP_FAKE", "return_integers")
        return check_once(MISBEHAVES, tmp_path_factory.mktemp("wrong"), *options)


class TestExitCodes:
    def test_exit_code_is_0_if_all_is_as_expected(self, right: tuple[Result, Path]) -> None:
        result, _ = right

        assert result.exit_code == 0, result.output
        assert "rules kept 1 of 1 tested." in result.stdout

    def test_exit_code_is_1_for_a_failure_and_its_input_is_shown(self, wrong: tuple[Result, Path]) -> None:
        result, _ = wrong

        assert result.exit_code == 1
        assert "came back as int32" in result.stdout
        assert "[6.0, 8.0]" in result.stdout

    def test_exit_code_is_3_if_no_case_is_chosen(self) -> None:
        result = run_command("check", RIGHT, "--rule", "value.bounds", "--format", "json", "--op", "clip_by_norm")

        assert result.exit_code == 3
        assert "nothing was judged, because no chosen case is about" in result.stderr
        assert '"as_expected": true' not in result.stdout

    @pytest.mark.thorough(sample=1)
    @pytest.mark.parametrize("rule", ["value.min-above-max", "*.sparse-*"])
    def test_exit_code_is_3_if_nothing_is_judged(self, rule: str, tmp_path: Path) -> None:
        record = tmp_path / "record.jsonl"

        result = run_command("check", "numpy", "--op", "value", "--rule", rule, "-o", record)

        assert result.exit_code == 3
        assert re.search(r"nothing was judged, because each of \d+ cells is unsupported or unspecified", result.stderr)
        summed = run_command("summary", record)
        assert summed.exit_code == 3
        assert "no judged cells" in summed.stderr
        assert " As expected." not in summed.stdout

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit of memory needs Linux")
    def test_memory_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GRADCLIP_FAKE", "allocate_gigabytes")

        result = run_command("check", MISBEHAVES, *NARROW, "--memory", "1G")

        assert result.exit_code == 1
        assert "raised MemoryError" in result.stdout or "ArrayMemoryError" in result.stdout
        assert "rules kept 0 of 1 tested; 1 broken by 1 finding." in result.stdout

    @pytest.mark.thorough(sample=2)
    @pytest.mark.parametrize(
        ("body", "status", "said"),
        [
            ("import time; time.sleep(3600)", "timeout", "Loading the module unloadable took longer than 1 s."),
            ("import os; os._exit(4)", "crash", "ended while it loaded the module unloadable, with exit code 4."),
            ("raise SystemExit('bye')", "crash", "the module unloadable, with exit code 1; its last output: bye"),
            ("import os; os.kill(os.getpid(), 9)", "crash", "the module unloadable, by signal SIGKILL."),
        ],
    )
    def test_module_that_does_not_load_has_a_record(
        self, body: str, status: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "unloadable.py").write_text(f"{body}\n", encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        narrow = ["--rule", "global-norm.negative-threshold-refused/minus-one/float32", "-o", "record.jsonl"]

        result = run_command("check", "unloadable:clip", "--op", "global_norm", "--timeout", "1", *narrow)

        assert result.exit_code == 1, result.output
        (one,) = read_runs("record.jsonl")
        assert [(cell.status, said in cell.detail) for cell in one.cells] == [(status, True)]

    @pytest.mark.parametrize("verb", [["expectations", "update"], ["summary"], ["check", "numpy", "-o"]])
    @pytest.mark.parametrize("argument", ["\ud800", "a\0b"])
    def test_argument_with_an_impossible_character_is_refused(self, verb: list[str], argument: str) -> None:
        result = run_command(*verb, argument)

        assert result.exit_code == 2
        assert "holds a character that no file name can have" in result.stderr

    @pytest.mark.thorough(sample=0)
    @pytest.mark.parametrize("arguments", [("check", *NARROW), ("smoke",)])
    def test_exit_code_is_3_for_a_mistake_of_the_adapter(
        self, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GRADCLIP_FAKE", "raise_in_the_adapter")
        monkeypatch.setattr("gradclip_conformance.cli.smoke.SMOKE_RULES", (NARROW[1],))

        result = run_command(*arguments, MISBEHAVES)

        assert result.exit_code == 3
        assert "a fault of the adapter" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (["check", "tensor-flow"], 2, "There is no adapter 'tensor-flow'. Did you mean tensorflow,"),
            (["check", "troch"], 2, "There is no adapter 'troch'. Did you mean torch?"),
            (["check", "dask"], 2, "reference-dask checks this project's own functions on dask."),
            (["check", "numpy", "--rule", "global-norm.at-treshold"], 2, "Did you mean global-norm.at-threshold"),
            (["check", "numpy", "--rule", "global-norm"], 2, "Did you mean 'global-norm.*'?"),
            (["check", "numpy", "--memory", "much"], 2, "'much' is not a size of memory"),
            (["check", "numpy", "--memory", "1K"], 2, "a host needs at least 256M"),
            (["check", "numpy:clip"], 2, "say with --op which operation"),
            (["check", "numpy", "--op", "clip"], 2, "'clip' is not one of"),
            (["check", "numpy", "--dtype", "int8"], 2, "'int8' is not one of"),
            (["check", "numpy", "--jobs", "0"], 2, "--jobs"),
            (["check", "numpy", "--timeout", "0"], 2, "--timeout"),
            (["check", "numpy", "--timeout", "nan"], 2, "--timeout"),
            (["check", "numpy", "--format", "pdf"], 2, "'pdf' is not one of"),
            (["check", "numpy", "--python", "a", "--python", "b"], 2, "--python is given twice"),
            (["check", "numpy", "--python", "a", "--venv"], 2, "exclude each other"),
            (["check", "numpy", "--command", 'a "b'], 2, "--command 'a \"b' cannot be split into words"),
            (["check", "numpy", "--command", " "], 2, "--command is empty"),
            (["chek"], 2, "No such command 'chek'"),
            (["check", "./no_such_adapter.py"], 2, "There is no file './no_such_adapter.py'"),
            (["check", "./no_such_adapter.py", "--command", LAUNCHER], 3, "There is no file './no_such_adapter.py'"),
            (["check", LACKING], 3, "'no_such_framework'. --python EXE names a Python"),
            (["check", "numpy", "--device", "cuda"], 3, "'numpy' has no choice of devices"),
            (["check", "math:pi", "--op", "clip_by_norm", "--device", "cuda"], 2, "no choice of devices"),
            (["check", "--device", "cuda"], 2, "--device needs the names of adapters"),
            (["check", "no_such_module:clip", "--op", "clip_by_norm"], 3, "There is no module 'no_such_module'"),
            (["check", "numpy", "--python", "/no/python"], 3, "Name another Python, or another launcher"),
            (["check", "numpy", "--command", "no-such-launcher --fast"], 3, "Cannot run 'no-such-launcher'"),
            (["summary"], 2, "Missing argument"),
            (["summary", "no-such-record.jsonl"], 2, "'no-such-record.jsonl' does not exist"),
            (["repro", "no-such-record.jsonl", "x"], 2, "'no-such-record.jsonl' does not exist"),
            (["expectations", "update", "no-such-record.jsonl"], 2, "'no-such-record.jsonl' does not exist"),
            (["show", "global-norm.at-treshold"], 2, "There is no rule or case"),
            (["rules", "*.no-such-*"], 2, "`gradclip rules` without a name lists all"),
            (["check", str(HOSTS)], 2, "is a folder: name an adapter's Python file in it. `gradclip summary"),
            (["diff", str(HOSTS), "numpy"], 2, "is a folder: name one record in it, or an adapter's Python file"),
            (["smoke", str(PUBLISHED)], 2, "is no adapter, whose name would end in .py. `gradclip summary"),
            (["smoke", LACKING], 3, "does not start (missing-framework)"),
            (["diff", str(PUBLISHED.with_name("thinc.jsonl.gz")), LACKING], 3, "does not start (missing-framework)"),
            (["summary", str(HOSTS)], 3, "There is no record"),
            (["report", str(HOSTS), "-o", "no-site"], 2, "There is no record"),
            (["expectations", "drift", "../../../x"], 2, "is not the name of an adapter"),
            (["expectations", "drift", "numpy"], 2, "No claim quotes a docstring of 'numpy'."),
            (["check", "numpy", "--mesh", "shard=2"], 2, "--mesh is for a function"),
            (["check", "own.py:clip", "--op", "clip_by_norm", "--partial"], 2, "--partial needs --mesh"),
            (["check", "math:pi", "--op", "norm", "--formula", "plain:\x1b[m"], 2, "is not a formula such as"),
            (["show", "at-threshold"], 2, "norm.at-threshold, global-norm.at-threshold, block-rms.at-threshold"),
            (["show", "global-norm"], 2, "`gradclip rules global-norm` lists its"),
            (["show", "global-norm.at-threshold/tree-four-five/float32"], 2, "Did you mean global-norm.at-threshold/"),
            (["rules", "global-norm.at-treshold"], 2, "Did you mean global-norm.at-threshold"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else None,
    )
    def test_error_message_appears_exactly_once(self, arguments: list[str], code: int, said: str) -> None:
        result = run_command(*arguments)

        assert result.exit_code == code, result.output
        assert result.stderr.count(said) == 1
        assert "Traceback" not in result.output
        assert "\x1b" not in result.output
        assert not result.stdout

    @pytest.mark.thorough(sample=0)
    def test_case_on_the_mesh_of_an_engine_is_known(self) -> None:
        case = "global-norm.shards-as-whole/split@shard:shard=2,tensor=3/float32"

        assert "No rule and no case" not in run_command("check", RIGHT, "--case", case).stderr
        assert "No rule and no case" in run_command("check", RIGHT, "--case", case.replace("@shard", "@stage")).stderr

    def test_module_in_the_working_directory_does_not_shadow_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "torch.py").write_text("raise RuntimeError", encoding="utf-8")
        monkeypatch.chdir(tmp_path)

        assert run_command("check", RIGHT, *NARROW).exit_code == 0

    @pytest.mark.parametrize(
        "arguments",
        [
            ("adapters", "\x1b[31mred\x1b]0;title\x07"),
            ("show", "\x1b[2J"),
            ("check", "\x1b[2J.py"),
            ("summary", "--\x1b[2J"),
            ("\x1b[2J",),
        ],
    )
    def test_error_of_usage_escapes_control_characters(self, arguments: tuple[str, ...]) -> None:
        result = run_command(*arguments, color=True)

        assert result.exit_code == 2
        assert "\\x1b[" in result.stderr
        assert "\x1b" not in result.stderr

    def test_error_of_usage_is_wrapped_only_for_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=(80, 24): os.terminal_size((60, 24)))
        whole = run_command("check", "troch").stderr

        monkeypatch.setattr(cli, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True), stdout=sys.stdout))
        wrapped = run_command("check", "troch").stderr

        assert max(map(len, whole.splitlines())) > 60
        assert max(map(len, wrapped.partition("Error:")[2].splitlines())) <= 60
        assert wrapped.split() == whole.split()

    def test_refused_record_may_have_any_file_name(self, tmp_path: Path) -> None:
        path = tmp_path / "\x1b[2Jrecord.jsonl"
        path.write_text("{", encoding="utf-8")

        result = run_command("summary", path, color=True)

        assert result.exit_code == 3
        assert "\\x1b[2Jrecord.jsonl" in result.stderr
        assert "\x1b" not in result.stderr


class TestTargets:
    @pytest.mark.thorough(sample=0)
    @pytest.mark.parametrize("target", ["my_clips:clip", "folder/my clips.py:clip"])
    def test_function_of_a_module_or_a_file_is_checked(
        self, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = "def clip(grads, *, min, max):\n    return [None if g is None else g.clip(min, max) for g in grads]\n"
        (tmp_path / "folder").mkdir()
        for name in ("my_clips.py", "folder/my clips.py"):
            (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)

        result = run_command("check", target, "--op", "clip_by_value", "--rule", "value.bounds", "--dtype", "float32")

        assert result.exit_code == 0, result.output
        name = Path(target).name
        assert f"\n{name}\n  Python " in f"\n{result.stdout}"
        assert re.match(rf".*{name}[:,] \d+ cells\n", result.stderr)

    @pytest.mark.thorough(sample=0)
    def test_operation_and_dtype_narrow_the_run(self, tmp_path: Path) -> None:
        record = tmp_path / "record.jsonl"
        narrow = ["--op", "Value", "--rule", "*.zero-threshold", "--dtype", "float16", "--dtype", "float64"]

        result = run_command("check", "numpy", *narrow, "-o", record)

        assert result.exit_code == 0, result.output
        (read,) = read_runs(record)
        assert {cell.operation for cell in read.cells} == {"clip_by_value"}
        assert {cell.dtype for cell in read.cells} == {"float16", "float64"}


class TestRecords:
    @pytest.mark.thorough(sample=0)
    def test_one_new_file_holds_all_adapters_that_start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        record = tmp_path / "record.jsonl"
        record.write_text("an earlier run", encoding="utf-8")
        monkeypatch.setenv("GRADCLIP_FAKE", "decline")

        result = run_command("check", LACKING, RIGHT, MISBEHAVES, *NARROW, "-o", record)

        assert result.exit_code == 3
        right, declining = read_runs(record)
        assert [cell.status for cell in right.cells] == ["pass", "pass", "pass"]
        assert [cell.lacks for cell in declining.cells] == [None, "kernel", None]
        assert f"{LACKING} does not start (missing-framework)" in result.stderr
        assert result.stdout.count("rules kept") == 2

    @pytest.mark.thorough(sample=0)
    def test_existing_file_is_kept_if_no_adapter_starts(self, tmp_path: Path) -> None:
        record, other = tmp_path / "record.jsonl", tmp_path / "other.jsonl"
        record.write_text("an earlier run", encoding="utf-8")

        assert run_command("check", LACKING, *NARROW, "-o", record).exit_code == 3
        assert run_command("check", LACKING, *NARROW, "-o", other).exit_code == 3
        assert record.read_text(encoding="utf-8") == "an earlier run"
        assert not other.exists()

    @pytest.mark.thorough(sample=1)
    @pytest.mark.parametrize("name", ["", "new/"])
    def test_folder_gets_a_file_for_each(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = f"{tmp_path}/{name}"
        monkeypatch.setenv("GRADCLIP_FAKE", "decline")

        result = run_command("check", RIGHT, MISBEHAVES, *NARROW, "-o", folder)

        assert result.exit_code == 0, result.output
        assert sorted(path.name for path in Path(folder).iterdir()) == ["misbehaves.jsonl", "right.jsonl"]
        assert run_command("summary", folder).exit_code == 0

    def test_two_records_of_one_name_are_refused_before_anything_runs(self, tmp_path: Path) -> None:
        folder, files = f"{tmp_path}/new/", [tmp_path / name / "clip.py" for name in "ab"]
        for file in files:
            file.parent.mkdir()
            file.write_text("Not even Python")

        result = run_command("check", *files, *NARROW, "-o", folder)

        assert result.exit_code == 2
        assert f"{files[0]} and {files[1]} would both be written to clip.jsonl" in result.stderr
        assert not Path(folder).exists()

    def test_functions_of_one_package_have_separate_records(self, tmp_path: Path) -> None:
        functions = ["no_such.module:clip", "no_such.other:clip"]

        result = run_command("check", *functions, "--op", "clip_by_norm", *NARROW, "-o", f"{tmp_path}/")

        assert result.exit_code == 3
        assert result.stderr.count("does not start") == 2

    def test_accuracy_without_measurements_writes_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "page.md").write_text("good", encoding="utf-8")
        result = run_command("accuracy", LACKING, "-o", tmp_path / "page")

        assert result.exit_code == 3
        assert "Nothing was measured, and nothing is written." in result.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["page.md"]
        assert (tmp_path / "page.md").read_text(encoding="utf-8") == "good"

    @pytest.mark.thorough(sample=2)
    @pytest.mark.parametrize(
        ("adapter", "says"),
        [
            (RIGHT, "Check it again, without --rule, --op, --dtype and --quick"),
            ("../../x", "cannot be recorded"),
            ("/etc/x", "cannot be recorded"),
            ("no-such-adapter", "cannot be recorded"),
            ("./no_such_file.py", "cannot be recorded"),
            ("my_module:clip", "says adapter = gradclip_adapters.plain.PlainFunction(fn, OP)"),
        ],
    )
    def test_entries_are_proposed_for_whole_runs_of_adapters_that_are_here_only(
        self, adapter: str, says: str, right: tuple[Result, Path], tmp_path: Path
    ) -> None:
        record = tmp_path / "record.jsonl"
        header, rest = right[1].read_text(encoding="utf-8").split("\n", 1)
        forged = json.dumps({**json.loads(header), "adapter": adapter})
        record.write_text(f"{forged}\n{rest}", encoding="utf-8")

        result = run_command("expectations", "update", record, "--write")

        assert result.exit_code == 2
        assert says in " ".join(result.stderr.split())

    @pytest.mark.thorough(sample=0)
    def test_several_jobs_give_the_same_cells_in_the_same_order(self, tmp_path: Path) -> None:
        found = []
        for jobs in ("1", "2"):
            record = tmp_path / f"{jobs}.jsonl"
            run_command("check", "numpy", "--rule", "norm.zero-*", "--rule", "*.at-*", "--jobs", jobs, "-o", record)
            (one,) = read_runs(record)
            found.append([(c.subject, c.case, c.status, c.ulp, c.detail) for c in one.cells])

        assert found[0] == found[1]
        assert len(found[0]) > 20

    def test_good_records_are_shown_despite_a_bad_one(self, right: tuple[Result, Path], tmp_path: Path) -> None:
        bad = tmp_path / "bad.jsonl"
        bad.write_text("{}\n", encoding="utf-8")

        result = run_command("summary", right[1], bad)

        assert result.exit_code == 3
        assert "rules kept 1 of 1 tested." in result.stdout
        assert "bad.jsonl" in result.stderr


LONG = "a" * 300


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", f"./{LONG}.py"], 2),
        (["diff", LONG, "numpy"], 2),
        (["diff", f"{LONG}.jsonl", "numpy"], 2),
        (["check", RIGHT, *NARROW, "-o", LONG], 3),
        (["check", RIGHT, *NARROW, "-o", f"{LONG}/"], 3),
        (["accuracy", RIGHT, "--largest", "100", "-o", f"{LONG}/x"], 2),
        (["repro", str(PUBLISHED), "global-norm.negative-threshold-refused/minus-one/float32", "-o", f"{LONG}/x"], 3),
    ],
    ids=["check", "diff-adapter", "diff-record", "output", "folder", "accuracy", "repro"],
)
def test_name_that_is_too_long_for_a_file_shows_no_traceback(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run_command(*arguments)

    assert result.exit_code == code, result.output
    assert LONG in result.stderr.replace("\n", "")


def test_faithful_port_is_as_expected_by_its_own_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
        import numpy as np

        def clip(grads, *, clip_norm):
            norm = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads))
            coefficient = min(1.0, clip_norm / (norm + 1e-3))
            return [(g * coefficient).astype(g.dtype) for g in grads]
    """
    (tmp_path / "ported.py").write_text(textwrap.dedent(text), encoding="utf-8")
    narrow = ("--op", "clip_by_global_norm", "--rule", "global-norm.scaled-above/*-four-*", "--dtype", "float32")

    result = run_command("check", "ported:clip", *narrow, "--formula", "coefficient:1e-3")

    assert result.exit_code == 0, result.output
    assert "declared" in result.stdout


ADAPTER = """
from gradclip_adapters.plain import PlainFunction

def clip(grads, *, max, min=None):
    min = -max if min is None else min
    return [None if g is None else g.clip(min, max) for g in grads]

adapter = PlainFunction(clip, "clip_by_value", dtypes=["float32"])
"""


class TestFilesBesideAnAdapter:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Return the working directory, which holds an adapter whose clip by value ignores the lower bound."""
        (tmp_path / "my_adapter.py").write_text(ADAPTER.replace("(min, max)", "(None, max)"), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    @pytest.mark.thorough(sample=0)
    def test_entries_apply_however_the_path_is_spelled(self, folder: Path) -> None:
        # Check every rule of the operation except the random calls, whose many cells take long.
        designed = ("value.combinations", "value.combinations-extreme")
        every_rule = [
            f"--rule={rule.id}" for rule in rules.load() if rule.id.startswith("value.") and rule.id not in designed
        ]
        assert run_command("check", "./my_adapter.py", *every_rule, "-o", "record.jsonl").exit_code == 1
        known = folder / "my_adapter.expectations.toml"
        # A shell that redirects output to this file empties it before the command starts.
        known.touch()
        known.write_text(run_command("expectations", "update", "record.jsonl").stdout, encoding="utf-8")
        assert known.read_text(encoding="utf-8").startswith("# Known failures of ")

        # With one spelling of the path, one rule is enough.
        for spelling, chosen in (("my_adapter.py", ["--rule=value.bounds"]), (folder / "my_adapter.py", every_rule)):
            result = run_command("check", spelling, *chosen, "-o", "known.jsonl")
            assert result.exit_code == 0, result.output
            assert "known;" in result.stdout
        assert run_command("expectations", "update", "known.jsonl").exit_code == 0

    @pytest.mark.thorough(sample=0)
    def test_claims_apply_and_documented_cells_show_their_input(self, folder: Path) -> None:
        claim = '[[claim]]\nsubject = "*"\npredicts = "raises"\nphrase = "min raises"\nwhere = "there"\n'
        text = (folder / "my_adapter.py").read_text(encoding="utf-8").replace("g.clip(None, max)", "1 / 0")
        (folder / "claimed.py").write_text(text, encoding="utf-8")
        (folder / "claimed.claims.toml").write_text(claim, encoding="utf-8")

        result = run_command("check", "./claimed.py", "--rule", "value.bounds", "-o", "my record.jsonl")

        assert result.exit_code == 0, result.output
        listed = "gradclip summary --format json 'my record.jsonl'"
        assert listed in result.stdout
        assert listed in run_command("summary", "my record.jsonl").stdout
        cells = json.loads(run_command(*shlex.split(listed)[1:]).stdout)["cells"]
        documented = [cell for cell in cells if cell["status"] == "documented"]
        assert {cell["quote"] for cell in documented} == {"min raises"}
        assert all(cell["input"]["gradients"] for cell in documented)

    @pytest.mark.parametrize("kind", ["expectations", "claims"])
    def test_unreadable_file_is_wrong_usage(self, kind: str, folder: Path) -> None:
        # A process reads the files beside an adapter only once.
        (folder / f"broken_{kind}.py").write_bytes((folder / "my_adapter.py").read_bytes())
        (folder / f"broken_{kind}.{kind}.toml").write_text("[[known", encoding="utf-8")

        result = run_command("check", f"broken_{kind}.py")

        assert result.exit_code == 2
        assert f"broken_{kind}.{kind}.toml is not TOML" in " ".join(result.stderr.split())

    @pytest.mark.thorough(sample=0)
    def test_nothing_is_proposed_without_the_known_failures_of_the_record(self, folder: Path) -> None:
        entry = 'subjects = ["*"]\nrules = ["value.bounds/*"]\nreason = "r"\nurl = "u"\nchecked = ""'
        (folder / "my_adapter.expectations.toml").write_text(f"[[known]]\n{entry}\n", encoding="utf-8")
        run_command("check", "my_adapter.py", "--rule", "value.bounds", "-o", "record.jsonl")
        # A shell that redirects output to this file empties it before the command starts.
        (folder / "my_adapter.expectations.toml").write_text("", encoding="utf-8")

        result = run_command("expectations", "update", "record.jsonl")

        assert result.exit_code == 2
        assert "there are none in my_adapter.expectations.toml" in " ".join(result.stderr.split())


class TestOtherVerbs:
    def test_check_prints_the_same_as_summary(self, wrong: tuple[Result, Path]) -> None:
        checked, summed = wrong[0], run_command("summary", wrong[1])

        assert checked.stdout.endswith(summed.stdout)
        assert summed.exit_code == 1
        assert "\x1b" not in summed.stdout

    def test_help_names_the_exit_codes_and_every_verb(self) -> None:
        result = run_command("--help")

        assert result.exit_code == 0
        assert "Exit codes" in result.stdout
        assert set(VERBS) <= set(result.stdout.split())

    @pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS), ["expectations", "update"]], ids=str)
    def test_help_fits_80_columns(self, verb: list[str]) -> None:
        result = CliRunner().invoke(gradclip, [*verb, "--help"], terminal_width=80)

        assert max(map(len, result.stdout.splitlines())) <= 80

    @pytest.mark.thorough(sample=20)
    @pytest.mark.parametrize("rule", rules.load(), ids=lambda rule: rule.id)
    def test_show_describes_every_rule(self, rule: rules.Rule) -> None:
        result = run_command("show", rule.id)

        assert result.exit_code == 0
        assert rule.statement in " ".join(result.stdout.split())
        assert "Source(" not in result.stdout
        assert all(source.where.split()[0] in result.stdout for source in rule.source)
        assert ("the documents are silent here" in result.stdout) == (not rule.source)

    def test_show_describes_every_kind_of_case(self) -> None:
        kinds = {case.expectation: case for case in list_all_cases() if case.dtype == "float32"}

        for case in kinds.values():
            result = run_command("show", case.id)
            assert result.exit_code == 0, case.id
            assert result.stdout.startswith(case.id)
            assert "\nSource" in result.stdout
            assert "Expected:" in result.stdout
            assert "has no description" not in result.stdout, case.id
            assert max(map(len, result.stdout.splitlines())) <= 80

    def test_show_gives_numbers_in_decimal_and_exactly(self) -> None:
        readable, exact = run_command("show", "norm.scaled-above/three-four-five/float16").stdout.split(
            "\nThe call exactly:\n"
        )
        called, expected = readable.split("\nExpected:\n")
        exact_call, exact_expected = map(json.loads, exact.split("\nExpected exactly:\n"))

        assert "gradients: [float16[2] [3.0, 4.0]]" in " ".join(called.split())
        assert expected.startswith("[float16[2] [0.6, 0.8]]\n")
        assert exact_call["gradients"][0]["array"]["values"][0] == "0x1.8000000000000p+1"
        assert exact_expected[0]["values"][0] == "0x1.3340000000000p-1"
        assert "the norm 5.0 (0x1.4" in run_command("show", "global-norm.returned-norm/above/float32").stdout

    @pytest.mark.parametrize(
        ("case", "says"),
        [
            ("norm.twice-is-once/clipped/float32", "the results of the first call are clipped again"),
            ("value.tensor-order/clipped/float32", "in reverse order. {operation: clip_by_value, "),
            ("global-norm.splitting-and-joining/clipped/float32", "The results of the second call, joined again, must"),
            ("norm.power-of-two-scaling/clipped-up-by-four/float32", '"clip_norm": "0x1.4000000000000p+2"'),
            ("norm.power-of-two-scaling/clipped-up-by-four/float32", "at most 0 ulp apart pass"),
            ("value.power-of-two-scaling/clipped-up-by-four/float32", "No element may differ."),
            ("norm.signs-kept/clipped/float32", "has the sign of its element"),
            ("value.repeatable/twice/float32", "again, on fresh copies"),
            ("value.threads-agree/eight/float32", "from 8 threads at once"),
        ],
    )
    def test_show_describes_relations_between_calls(self, case: str, says: str) -> None:
        result = run_command("show", case)

        assert says in " ".join(result.stdout.partition("Expected:")[2].split())

    @pytest.mark.parametrize("prefix", PREFIXES)
    def test_an_operation_may_be_spelled_in_several_ways(self, prefix: str) -> None:
        function, choice = PREFIXES[prefix].function, OperationChoice()
        listed = run_command("rules", f"{prefix}.*").stdout

        for name in (prefix, prefix.replace("-", "_"), prefix.title(), function):
            assert run_command("rules", name).stdout == run_command("rules", f"{name}.").stdout == listed
            assert choice.convert(name, None, None) == function

    @pytest.mark.thorough(sample=0)
    def test_repro_of_a_rule_shows_its_first_failing_cell(self, tmp_path: Path) -> None:
        function, record = tmp_path / "half_module.py", tmp_path / "record.jsonl"
        function.write_text("def clip(grads, *, clip_norm):\n    return [g * g.dtype.type(0.75) for g in grads]\n")
        names = ("global-norm.scaled-above", "global-norm.empty-list")
        rules = [word for name in names for word in ("--rule", name)]
        environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
        arguments = ["check", "half_module:clip", "--op", "clip_by_global_norm", *rules, "--dtype", "float32"]
        CliRunner(env=environment).invoke(gradclip, [*arguments, "-o", str(record)])
        first = next(cell.case for cell in read_runs(record)[0].cells if cell.status == "fail")

        of_rule = run_command("repro", record, first.partition("/")[0])

        assert of_rule.stdout == run_command("repro", record, first).stdout != ""
        assert "Did you mean global-norm.scaled-above" in run_command("repro", record, "global-norm.scaled-abve").stderr
        assert "as expected" in run_command("repro", record, "global-norm.empty-list").stderr

    def test_rules_lists_all_rules_or_a_selection(self) -> None:
        listed = run_command("rules").stdout
        some = run_command("rules", "value.*").stdout
        assert listed.endswith("Without a case: none. Cases without a rule: none.\n")

        assert all(rule.id in listed for rule in rules.load())
        assert "\n1 rule, " in run_command("rules", "value.bounds").stdout
        named = [rule.id for rule in rules.load() if rule.id.endswith(".at-threshold")]
        assert f"\n{len(named)} rules, " in run_command("rules", "at-threshold").stdout
        assert "value.bounds" in some
        assert "norm.at-threshold" not in some

    def test_adapters_lists_every_adapter(self) -> None:
        result = run_command("adapters")

        assert result.exit_code == 0
        assert {"numpy", "optax", "torch", "paddle", "paddle-fluid", "tensorflow"} <= set(result.stdout.split())
        assert not re.search("-$", result.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gradclip sum", ["plain,summary"]),
        ("gradclip check paddl", ["plain,paddle", "plain,paddle-fluid"]),
        ("gradclip check ./ada", ["file,./ada"]),
        ("gradclip show value.inside", ["plain,value.inside-unchanged"]),
        ("gradclip check --rule value.inside", ["plain,value.inside-unchanged"]),
        ("gradclip repro record.jsonl value.inside", ["plain,value.inside-unchanged"]),
        ("gradclip summary --format ju", ["plain,junit"]),
    ],
)
def test_words_are_completed_as_the_manual_says(words: str, offered: list[str]) -> None:
    asked = {"_GRADCLIP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}

    made = CliRunner(env=asked).invoke(gradclip, [], prog_name="gradclip")

    assert made.stdout.split() == offered, made.output


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/data/runs/run.jsonl", "run.jsonl"),
        ("--output=/data/runs/run.jsonl", "--output=run.jsonl"),
        ("torch=/opt/torch/bin/python", "torch=python"),
        ("node /data/runs/adapter.js", "node adapter.js"),
        ("C:\\Users\\me\\run.jsonl", "run.jsonl"),
        ("./folder/adapter.py", "./folder/adapter.py"),
        ("*.combinations/s9_n1*", "*.combinations/s9_n1*"),
    ],
)
def test_record_shows_no_folders_of_its_machine(word: str, shown: str) -> None:
    header = make_header("numpy", Description("NumPy", "1.0", {}, ()), ["check", word])

    assert header.command == ["check", shown]


def test_record_that_is_given_twice_is_refused(right: tuple[Result, Path], tmp_path: Path) -> None:
    result = run_command("summary", right[1], shutil.copy(right[1], tmp_path / "copy.jsonl"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "copy.jsonl is given twice" in " ".join(result.stderr.split())


def test_verbose_summary_shows_the_table_of_rules_first(right: tuple[Result, Path]) -> None:
    brief, verbose = run_command("summary", right[1]), run_command("summary", right[1], "--verbose")

    assert brief.exit_code == verbose.exit_code == 0, verbose.output
    # Without the hint that names --verbose.
    below = brief.stdout.partition("Add -v")[0]
    assert verbose.stdout.endswith(below)
    assert "each-tensor-alone" in verbose.stdout.removesuffix(below)


def test_folder_of_environments_that_is_a_file_stops_the_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRADCLIP_VENVS", str(tmp_path / "file"))

    result = run_command("smoke", "torch", "--venv")

    assert result.exit_code == 3
    assert "torch does not start (no-host)" in result.stderr
    assert "GRADCLIP_VENVS names another folder" in " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def checked_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an adapter of one dtype and the record of its whole run."""
    folder = tmp_path_factory.mktemp("adapter")
    (folder / "my_adapter.py").write_text(ADAPTER, encoding="utf-8")
    result = run_command("check", folder / "my_adapter.py", "-o", folder / "whole.jsonl")
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.thorough(sample=0)
def test_file_in_another_folder_is_not_replaced(
    checked_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in checked_folder.iterdir() if path.is_file()}

    result = run_command("expectations", "update", checked_folder / "whole.jsonl", "--write")

    assert result.exit_code == 2
    assert "is not in or below the working directory" in " ".join(result.stderr.split())
    assert {path: path.read_bytes() for path in checked_folder.iterdir() if path.is_file()} == before


@pytest.mark.thorough(sample=0)
def test_file_in_the_working_directory_is_written_but_not_through_a_link(
    checked_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checked_folder)
    path, victim = checked_folder / "my_adapter.expectations.toml", tmp_path / "victim"
    victim.write_text("as it was", encoding="utf-8")
    # A folder, and then a link, has the name of the file that is written before it gets its own name.
    new = path.with_name(f"{path.name}.new")

    new.mkdir()
    refused = run_command("expectations", "update", "whole.jsonl", "--write")
    new.rmdir()
    new.symlink_to(victim)
    written = run_command("expectations", "update", "whole.jsonl", "--write")

    assert (refused.exit_code, written.exit_code) == (3, 0), written.output
    assert "Cannot write the known failures" in refused.stderr
    assert path.is_file()
    assert not path.is_symlink()
    assert victim.read_text(encoding="utf-8") == "as it was"


@pytest.mark.thorough(sample=0)
def test_difference_runs_an_adapter_that_is_named(checked_folder: Path) -> None:
    result = run_command("diff", checked_folder / "my_adapter.py", checked_folder / "whole.jsonl", "--dtype", "float32")

    assert result.exit_code == 0, result.output
    assert "Equal answers in " in result.stdout
