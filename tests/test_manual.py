"""Check every code block, command and link of the README and the manual.

Sphinx checks the directives, the references to names and the form of the pages (`nox -s docs`).
"""

from __future__ import annotations

import ast
import gzip
import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from frameworks import find_python

import gradclip_adapters
import gradclip_conformance
import gradclip_reports
import gradclip_spec
from gradclip_adapters import wire
from gradclip_conformance.cli import gradclip
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.failures import read_known
from gradclip_reports.records import read_runs
from gradclip_reports.statuses import CELL_STATUSES
from gradclip_spec.rules import load
from gradclip_spec.rules.causes import load_causes
from manual.links import find_broken_links
from manual.pages import PARTS, fill_page, keep_columns, write_rules, write_table

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

#: A code block: its fence, its language and its text.
FENCE = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
#: The sentence that stands before the content of a file.
FILE = re.compile(r"Save this as `([\w.]+)`[^`]*\Z")
#: A link to a file of the project, with an optional heading in it.
LINK = re.compile(r"\]\((?!https?://)([\w./-]*)(#[\w-]+)?\)")
#: The commands in `sh` blocks that are not checked: they belong to Python, to the shell or to other projects.
OTHER_PROGRAMS = ("npm install", "python3 -m venv", ". .venv/bin/activate", "eval ", "pre-commit ")

#: For each page with Python blocks, the tests that run them.
RUN_BY = {
    "README.md": "test_reference_prints_what_the_page_shows and test_naive_clip_fails_the_rules_that_the_readme_names",
    "docs/how-to/check-a-function.md": "test_function_is_checked_as_the_page_says",
    "docs/how-to/check-a-mesh.md": "test_function_on_a_mesh_is_right_as_the_page_says",
    "docs/how-to/pytest.md": "tests/conformance/test_pytest_plugin.py",
    "docs/how-to/new-expectation.md": "tests/conformance/test_expectations.py",
    "docs/how-to/use-the-reference.md": "test_reference_excludes_by_path and tests/spec/test_package.py",
    "docs/how-to/own-collectives.md": "tests/spec/test_package.py",
    "docs/tutorial/adapter.md": "test_tutorial_prints_what_it_shows",
    "docs/tutorial/function.md": "test_tutorial_prints_what_it_shows",
    "docs/tutorial/trainer.md": "tests/adapters/test_torch_meshes.py",
    # This page explains one call, line by line.
    "docs/explanation/reference-design.md": "test_call_of_the_tour_gives_the_norm",
    "docs/explanation/norm-over-a-mesh.md": "test_ranks_get_the_norm_that_the_page_says",
}


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str
    #: The file whose content the block shows. It is empty if it shows no file.
    file: str = ""


@cache
def read_page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def find_blocks(path: Path) -> Iterator[Block]:
    text = read_page(path)
    for found in FENCE.finditer(text):
        named = FILE.search(text[: found.start()])
        yield Block(path.relative_to(ROOT).as_posix(), found[2].strip(), found[3], named[1] if named else "")


BLOCKS = [block for path in PAGES for block in find_blocks(path)]


def choose_blocks(language: str, page: str | None = None) -> list[Block]:
    return [block for block in BLOCKS if block.language == language and page in (None, block.page)]


def test_every_block_has_a_language_that_is_checked() -> None:
    known = {"js", "python", "sh", "text", "toml", "yaml", "{toctree}", "{eval-rst}"}

    assert {block.language for block in BLOCKS} <= known


def test_every_page_with_programs_has_a_test_that_runs_them() -> None:
    assert {block.page for block in choose_blocks("python")} == set(RUN_BY)


def find_links() -> Iterator[tuple[str, str, str]]:
    for path in (*PAGES, CONTRIBUTING):
        for file, heading in sorted(set(LINK.findall(read_page(path)))):
            yield path.relative_to(ROOT).as_posix(), file, heading.removeprefix("#")


@pytest.mark.parametrize(("page", "file", "heading"), sorted(find_links()), ids=str)
def test_link_leads_to_a_file_and_a_heading(page: str, file: str, heading: str) -> None:
    source = ROOT / page
    target = source.parent / file if file else source

    assert target.exists()
    if heading:
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert heading in {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


def test_page_for_contributors_names_files_that_exist() -> None:
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    # An angle bracket stands for a name that a contributor chooses.
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", read_page(CONTRIBUTING))

    assert named
    assert [name for name in named if not name.startswith("build/") and not (ROOT / name).exists()] == []


def test_page_for_contributors_names_modules_that_exist() -> None:
    modules = {path.name for path in ROOT.rglob("*.py") if not path.is_relative_to(ROOT / ".nox")}
    named = set(re.findall(r"`(\w+\.py)`", read_page(CONTRIBUTING)))

    assert named
    assert named <= modules


def find_commands() -> Iterator[str]:
    """Yield each command line of the pages, without comments, pipes and redirections."""
    lines = [line for block in choose_blocks("sh") for line in block.text.splitlines()]
    for block in choose_blocks("yaml"):
        lines += re.findall(r"^ *- (?:run: )?((?:gradclip|pip|python) .*)$", block.text, re.MULTILINE)
    for line in lines:
        yield from (part.strip() for part in re.split(r" && | \|\| | >>? ", line) if part.strip())


COMMANDS = sorted({line for line in find_commands() if not line.startswith(('"$', *OTHER_PROGRAMS)) and " " in line})


@pytest.mark.parametrize("line", COMMANDS)
def test_command_accepts_the_arguments_that_a_page_shows(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *words = shlex.split(line, comments=True)
    if program == "gradclip":
        check_gradclip(words, tmp_path, monkeypatch)
    elif "nox" in words and "-s" in words:
        sessions = {
            node.name
            for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
        named = words[words.index("-s") + 1 :]
        assert set(named[: named.index("--") if "--" in named else None]) <= sessions
    elif program == "pytest":
        plugin = (ROOT / "conformance" / "gradclip_conformance" / "pytest_plugin.py").read_text(encoding="utf-8")
        known = {*re.findall(r'"(--gradclip-\w+)"', plugin), "--pyargs", "--junitxml", "-k", "-n", "-x"}
        assert {word for word in words if word.startswith("-")} <= known
    else:
        assert "pip" in (program, *words[:2]), f"nothing checks {line!r}"
        assert "install" in words
        extras = {extra for found in re.findall(r"\[([\w,]+)\]", line) for extra in found.split(",")}
        assert extras <= set(PROJECT["project"]["optional-dependencies"])


def check_gradclip(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let click read the arguments, without running the command."""
    monkeypatch.chdir(folder)
    # The files that commands read, so that click accepts their names.
    for word in words:
        if re.fullmatch(r"[\w./-]+\.(py|jsonl|jsonl\.gz)", word):
            Path(word).parent.mkdir(parents=True, exist_ok=True)
            Path(word).touch()
    context = gradclip.make_context("gradclip", [*words])
    group, rest = gradclip, words
    while True:
        _, command, rest = group.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(command.name, rest, parent=context)
        if not hasattr(command, "resolve_command"):
            return
        group = command


def test_workflow_passes_inputs_that_the_action_has() -> None:
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    (inputs,) = re.findall(r"^inputs:\n((?:  .*\n)+)", action, re.MULTILINE)
    known = set(re.findall(r"^  ([\w-]+):", inputs, re.MULTILINE))
    (workflow,) = (block.text for block in choose_blocks("yaml") if "gradclip-spec@" in block.text)
    given = re.findall(r"^ {6}([\w-]+): ", workflow.partition("gradclip-spec@")[2], re.MULTILINE)

    assert given
    assert set(given) <= known


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, id=f"{block.page}-{number}") for number, block in enumerate(choose_blocks("toml"), start=1)],
)
def test_file_beside_an_adapter_is_valid(block: Block, tmp_path: Path) -> None:
    if "[[known]]" in block.text:
        (entry,) = read_known(block.text, block.page)
        assert entry.reason
    else:
        adapter = tmp_path / "my_adapter.py"
        (tmp_path / "my_adapter.claims.toml").write_text(block.text, encoding="utf-8")
        (claim,) = load_claims(str(adapter))
        assert claim.phrase


def test_conversation_follows_the_schemas_and_clips() -> None:
    (block,) = choose_blocks("text", "docs/how-to/another-language.md")
    messages: list[dict[str, Any]] = [json.loads(line.removeprefix("> ")) for line in block.text.splitlines()]
    schemas = Path(str(gradclip_adapters.__file__)).with_name("schemas")

    for message in messages:
        schema = json.loads((schemas / f"{message['message']}.json").read_text(encoding="utf-8"))
        jsonschema.validate(message, schema)
    about, call, reply = (
        next(one for one in messages if one["message"] == kind) for kind in ("about", "call", "reply")
    )
    wire.decode_about(about)
    asked = wire.decode_call(call)
    ((given,), (got,)) = [gradient.array for gradient in asked.gradients], wire.decode_reply(reply).gradients
    assert given is not None
    assert got is not None
    norm = float(np.linalg.norm(given.numpy()))
    np.testing.assert_array_equal(got.numpy(), given.numpy() * np.float32(asked.options["clip_norm"] / norm))


#: A stand-in for the functions of TensorFlow.js that the adapter calls, and for its tensors.
TENSORFLOW_JS = """
const make = (values, shape) => ({ dtype: "float32", shape, dataSync: () => values });
exports.version = { tfjs: "0" };
exports.setBackend = () => true;
exports.getBackend = () => "none";
exports.tensor = make;
exports.clipByValue = (tensor, min, max) => {
  if (min > max) throw new RangeError("min is above max");
  return make(tensor.dataSync().map((one) => (one < min ? min : one > max ? max : one)), tensor.shape);
};
"""


@pytest.mark.thorough(sample=0)
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is missing")
def test_adapter_in_javascript_speaks_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a right function with the adapter of the page, through the command that the page shows."""
    (block,) = choose_blocks("js")
    monkeypatch.chdir(tmp_path)
    Path(block.file).write_text(block.text, encoding="utf-8")
    library = Path("node_modules/@tensorflow/tfjs")
    library.mkdir(parents=True)
    (library / "index.js").write_text(TENSORFLOW_JS, encoding="utf-8")
    command = ["--command", f"node {block.file}"]
    rules = [f"--rule=value.{name}" for name in ("bounds", "nan-stays", "dtype-kept", "empty-tensor", "min-above-max")]

    result = CliRunner().invoke(gradclip, ["check", *command, *rules, "-o", "record.jsonl"])

    assert result.exit_code == 0, result.output
    (run,) = read_runs(Path("record.jsonl"))
    assert (run.header.adapter, run.header.framework["name"]) == (block.file, "TensorFlow.js")
    asked = [cell for cell in run.cells if cell.status != "unsupported"]
    assert {cell.rule for cell in asked if cell.status == "pass"} >= {"value.bounds", "value.nan-stays"}
    assert {cell.behaviour for cell in asked if cell.rule == "value.min-above-max"} == {"raises:RangeError"}


def test_page_shows_the_adapter_in_javascript_that_the_project_uses() -> None:
    (block,) = choose_blocks("js")

    ours = Path(gradclip_adapters.__file__).parent / "frameworks" / "tensorflow_js.js"
    assert block.text == ours.read_text(encoding="utf-8")


def run_block(page: str, capsys: pytest.CaptureFixture[str], words: str = "") -> str:
    """Return what the one Python block of a page with some words prints."""
    (program,) = [block.text for block in choose_blocks("python", page) if words in block.text]
    exec(compile(program, page, "exec"), {"__name__": "page"})
    return capsys.readouterr().out


def return_all(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Clip the gradients of an empty list correctly."""
    return list(grads)


def test_function_is_checked_as_the_page_says() -> None:
    (block,) = choose_blocks("python", "docs/how-to/check-a-function.md")
    one_rule = block.text.replace(', op="clip_by', ', rule="global-norm.empty-list", op="clip_by')
    namespace: dict[str, Any] = {"clip": return_all}

    exec(compile(one_rule, block.page, "exec"), namespace)

    assert {result["rule"] for result in namespace["results"]} == {"global-norm.empty-list"}
    # A plain function that returns no norm cannot be asked for one.
    assert {result["status"] for result in namespace["results"]} == {"pass", "unsupported"}


@pytest.mark.thorough(sample=0)
def test_function_on_a_mesh_is_right_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert "As expected." in run_block("docs/how-to/check-a-mesh.md", capsys)


def test_ranks_get_the_norm_that_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = choose_blocks("python", "docs/explanation/norm-over-a-mesh.md")

    assert run_block(block.page, capsys) == block.text.rpartition("#")[2].lstrip()


def test_call_of_the_tour_gives_the_norm() -> None:
    (block,) = choose_blocks("python", "docs/explanation/reference-design.md")

    _, norm = eval(block.text, {"np": np, "clip_by_global_norm": gradclip_spec.clip_by_global_norm})

    assert norm == 5.0


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("page", ["docs/tutorial/adapter.md", "docs/tutorial/function.md"])
def test_tutorial_prints_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow a tutorial: write its files, and run each command whose output it shows."""
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONUTF8": "1"}
    blocks = [block for block in BLOCKS if block.page == page]
    for block, following in zip(blocks, [*blocks[1:], Block(page, "", "")], strict=True):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "sh" and following.language == "text":
            # Run the command in a separate process, because a process reads the files beside an adapter only once.
            command = [sys.executable, "-m", "gradclip_conformance", *shlex.split(block.text)[1:]]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
            assert_shown(following.text, done.stdout)


def assert_shown(expected: str, printed: str) -> None:
    """Fail unless the lines that a page shows were printed, in their order. `...` stands for anything."""
    rest = " ".join(printed.split())
    for wanted in filter(None, (" ".join(part.split()) for part in expected.split("..."))):
        before, found, rest = rest.partition(wanted)
        assert found, f"{wanted!r} was not printed in {before!r}"


def test_every_part_that_comes_from_data_is_in_a_page() -> None:
    asked = {found for path in PAGES for found in re.findall(r"<!-- data: ([\w-]+)", read_page(path))}

    assert asked == set(PARTS)


def test_pages_hold_every_rule_cause_and_field(tmp_path: Path) -> None:
    write_rules(tmp_path)
    text = "\n".join(fill_page(read_page(path), path.name) for path in (*PAGES, *tmp_path.iterdir()))

    assert "<!-- data:" not in text
    assert all(f"\n### `{rule.id}` ({rule.level})\n" in text for rule in load())
    assert all(f"\n### `{cause}`\n" in text for cause in load_causes())
    for folder in (Path(str(gradclip_adapters.__file__)).parent, Path(str(gradclip_reports.__file__)).parent):
        for path in folder.glob("schemas/*.json"):
            assert path.read_text(encoding="utf-8").strip() in text, f"no page shows {path.name}"


def test_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="page: there is no part 'roles'"):
        fill_page("<!-- data: roles -->", "page")


def test_bar_in_a_cell_does_not_start_a_column() -> None:
    assert write_table(("a",), [("x | y",)]) == "| a |\n| --- |\n| x \\| y |"


def test_examples_in_a_help_keep_their_columns() -> None:
    kept = keep_columns(["Say it.", "| a  b", "|   c", "Then."])

    assert kept == ["Say it.", ".. code-block:: text", "", "    a  b", "      c", "", "Then."]


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="b.html#there">', ""),
        ('<a href="b.html#missing">', "the page has no such anchor"),
        ('<a href="b.html#here..there">', ""),
        ('<a href="b.html#?severity=wrong">', ""),
        ('<a href="c.html">', "there is no such file"),
        ('<a href="../outside.html">', "it leads out of the folder"),
        ('<a href="https://example.org/">', ""),
        ('<script src="https://example.org/x.js">', "it is loaded from the network"),
        ('<link href="//example.org/x.css">', "it is loaded from the network"),
        ('<img src="data:image/png;base64,AAAA">', ""),
        ('<a href="#">', ""),
    ],
)
def test_links_of_built_pages_are_checked(link: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(link, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h1 id="there"><option value="here">', encoding="utf-8")

    assert [line.rpartition(": ")[2] for line in find_broken_links(tmp_path)] == ([fault] if fault else [])


def test_page_of_functions_lists_every_public_name() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\.\. auto(?:function|class):: (?:[\w.]+\.)?(\w+)$", page, flags=re.MULTILINE))

    # A name that goes, or comes, changes what users can rely on: the page and the changelog must say so.
    assert named - {"Results"} == {*gradclip_spec.__all__, *gradclip_conformance.__all__}


# The page about meshes quotes docstrings.

QUOTE = re.compile(r'^\| (torch|JAX|TensorFlow) [\d.]+ \| "(.+)" \| `([\w.]+)`', re.MULTILINE)
QUOTES = QUOTE.findall(read_page(DOCS / "explanation" / "norm-over-a-mesh.md"))

#: The modules of the names that the page gives without one.
MODULES = {
    "FullyShardedDataParallel": "torch.distributed.fsdp",
    "fully_shard": "torch.distributed.fsdp",
    "Replicate": "torch.distributed.tensor",
    "jax": "jax",
    "tensorflow": "tensorflow",
}


def test_page_about_meshes_has_quotes() -> None:
    assert len(QUOTES) >= 6


@pytest.mark.parametrize(("library", "phrase", "name"), QUOTES)
def test_phrase_stands_in_the_docstring(library: str, phrase: str, name: str) -> None:
    pytest.importorskip(library.lower(), reason=f"{library} is not installed in this Python")
    first, _, rest = name.partition(".")
    found: Any = importlib.import_module(MODULES[first])
    for part in (rest if first == MODULES[first] else name).split("."):
        found = getattr(found, part)
    words = " ".join((inspect.getdoc(found) or "").split())

    assert len(phrase.split()) <= 15
    assert phrase in words


# The programs and commands of the README.


@pytest.mark.parametrize("rule", ["overflow-of-squares", "negative-threshold-refused", "zero-gradient-zero-threshold"])
def test_naive_clip_fails_the_rules_that_the_readme_names(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = [block.text for block in choose_blocks("python", "README.md") if "check_clipper" in block.text]
    every_rule = 'op="clip_by_global_norm")'
    # The whole check takes ten times as long as one rule.
    one_rule = program.replace(every_rule, f'op="clip_by_global_norm", rule="global-norm.{rule}")')
    assert one_rule != program

    exec(compile(one_rule, "README.md", "exec"), {"__name__": "readme"})
    assert f"global-norm.{rule}/" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/use-the-reference.md"])
def test_reference_prints_what_the_page_shows(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_block(page, capsys, "print(norm") == "5.0 [0.6 0. ]\n"


def test_reference_excludes_by_path() -> None:
    namespace: dict[str, Any] = {}
    for block in choose_blocks("python", "docs/how-to/use-the-reference.md"):
        if "gradclip_spec import" in block.text:
            exec(compile(block.text, block.page, "exec"), namespace)

    assert namespace["norm"] == 3.0
    ((_, weight), (_, bias)) = namespace["pairs"]
    assert weight.tolist() == pytest.approx([0.6, 0.0], rel=2**-52)
    assert bias.tolist() == pytest.approx([0.8], rel=2**-52)


#: The command that `nox -s check` runs after an installation.
CHECK = "gradclip check numpy --venv"


@pytest.mark.parametrize("page", ["README.md", "SPEC.md"])
def test_page_names_each_status_of_a_cell(page: str) -> None:
    (table,) = re.findall(r"\| status \|.*\n((?:\|.*\n)+)", (ROOT / page).read_text(encoding="utf-8"))
    named = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]

    assert sorted(named) == sorted(CELL_STATUSES)


DIFF = "gradclip diff reports/published/torch.jsonl.gz reports/published/tensorflow.jsonl.gz"
SUMMARY = 'gradclip check ./my_adapter.py -o record.jsonl --format markdown >> "$GITHUB_STEP_SUMMARY"'
#: Each command of the README, with its exit code and something that it prints. Commands that check are limited to one
#: rule.
README_COMMANDS = {
    DIFF: (0, "zero.*TensorFlow.*NaN"),
    "gradclip check": (0, "gradclip_spec on NumPy"),
    CHECK: (0, "gradclip_spec on NumPy"),
    "gradclip check ./my_adapter.py": (1, r"tinyframe 1\.0.*a negative threshold is not refused"),
    "gradclip show global-norm.at-threshold/three-four-five/float32": (0, r"clip_norm: 5\.0"),
    "gradclip repro torch.jsonl global-norm.negative-threshold-refused/minus-one/float32": (0, "import torch"),
    SUMMARY: (1, r"\*\*Not as exp"),
}
#: The command that needs a framework.
WITH_TORCH = "gradclip check torch --venv -o torch.jsonl"


def test_every_command_of_the_readme_is_run() -> None:
    lines = [line for block in choose_blocks("sh", "README.md") for line in block.text.splitlines()]
    run_by_continuous_integration = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install = "python3 -m pip install nox && python3 -m nox -s"

    assert f"{install} tests" in run_by_continuous_integration
    assert {re.sub(r" +# .*", "", line) for line in lines} == {
        f"{install} tests",
        f"{install} check",  # its session runs CHECK
        "python3 -m pip install '.[check]'",
        *(command for command in README_COMMANDS if command != CHECK),
        WITH_TORCH,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the commands of the README name."""
    for block in choose_blocks("python", "docs/tutorial/adapter.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    (tmp_path / "torch.jsonl").write_bytes(gzip.decompress((ROOT / "reports/published/torch.jsonl.gz").read_bytes()))
    return tmp_path


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Run a command in a folder with one rule. Return its exit code and everything that it prints or writes."""
    narrowed = command.replace("gradclip check", "gradclip check --rule global-norm.negative-threshold-refused")
    summary = folder / "summary.md"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = subprocess.run(
        ["bash", "-c", narrowed], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    written = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return done.returncode, " ".join((done.stdout + written + done.stderr).split())


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("command", README_COMMANDS)
def test_command_of_the_readme_runs(command: str, folder: Path) -> None:
    expected, shown = README_COMMANDS[command]

    code, printed = run_command(command, folder)

    assert code == expected, printed
    assert re.search(shown, printed), printed


@pytest.mark.framework("torch")
def test_command_of_the_readme_with_a_framework_runs(folder: Path) -> None:
    """Run the command in an environment that exists, so that the test needs no network."""
    code, printed = run_command(WITH_TORCH.replace("--venv", f"--python {find_python('torch')}"), folder)

    assert code == 0, printed
    assert "PyTorch" in printed
    assert (folder / "torch.jsonl").read_text(encoding="utf-8").startswith('{"record": "header"')
