"""Check the structure of the project: imports, public names, lists that must agree, supported Pythons."""

from __future__ import annotations

import ast
import functools
import graphlib
import gzip
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import gradclip_adapters
import gradclip_conformance
import gradclip_reports
import gradclip_spec
from gradclip_adapters import registry, wire
from gradclip_adapters.contract import Array, Call, Gradient
from gradclip_adapters.operations import OPERATIONS, PREFIXES
from gradclip_conformance.cases.catalogue import THEMES, list_all_cases
from gradclip_conformance.cases.patterns import matches_any
from gradclip_conformance.cli.smoke import SMOKE_RULES
from gradclip_conformance.judge.model import Raised, Replied
from gradclip_conformance.repro.source import has_source
from gradclip_conformance.run.environments import folders, making, recipes
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.sampler.rows import list_all_rows
from gradclip_spec import rules

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    package.__name__: Path(str(package.__file__)).parent
    for package in (gradclip_spec, gradclip_adapters, gradclip_reports, gradclip_conformance)
}
MODULES = {
    ".".join([name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"): path
    for name, folder in PACKAGES.items()
    for path in folder.rglob("*.py")
}

#: The other packages that a module may import. The longest prefix of its name decides.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "gradclip_spec": (),
    # The records of the operations import nothing. They are beside the contract, because the host imports them.
    "gradclip_spec.rules": ("gradclip_adapters.operations",),
    "gradclip_reports": ("gradclip_adapters.operations", "gradclip_spec.rules"),
    "gradclip_adapters": (),
    "gradclip_adapters.reference": ("gradclip_spec",),
    # The oracle shares no code with the reference: the suite imports only the rules of `gradclip_spec`.
    "gradclip_conformance": ("gradclip_spec.rules", "gradclip_adapters", "gradclip_reports"),
}


@functools.cache
def parse(module: str) -> ast.Module:
    """Return the syntax tree of a module, which several tests walk."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@functools.cache
def list_edges(module: str) -> set[str]:
    """Return the modules of the four packages that a module imports anywhere in its file."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # A name that is imported from a package may be one of its modules.
            names = [f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names]
        else:
            continue
        found |= {name for name in names if name in MODULES}
    return found - {module}


def list_allowed(module: str) -> tuple[str, ...]:
    rule = max((prefix for prefix in MAY_IMPORT if f"{module}.".startswith(f"{prefix}.")), key=len)
    return (module.partition(".")[0], *MAY_IMPORT[rule])


@pytest.mark.thorough(sample=0)
def test_modules_import_only_allowed_packages() -> None:
    bad = [
        f"{module} imports {name}, but may import only {list_allowed(module)}"
        for module in MODULES
        for name in list_edges(module)
        # The suite locates the folder of that package with a bare `import gradclip_adapters`.
        if not any(f"{name}.".startswith(f"{prefix}.") for prefix in list_allowed(module))
    ]

    assert not bad


def test_oracles_do_not_import_each_other() -> None:
    oracles = ("integers", "balls")
    texts = {name: MODULES[f"gradclip_conformance.oracle.{name}"].read_text("utf-8") for name in oracles}

    assert not re.search(r"^from .*\bballs\b", texts["integers"], re.MULTILINE)
    assert not re.search(r"^from .*\bintegers\b", texts["balls"], re.MULTILINE)


# Circular imports in any package, and the order of the suite's folders.

#: Each folder may import the folders before it, and itself.
FOLDERS = (
    ("oracle",),
    ("cases",),
    ("sampler",),
    ("judge",),
    ("causes",),
    ("known",),
    ("run",),
    ("repro", "accuracy", "skeleton"),
    ("cli",),
)

SUITE = {name: path for name, path in MODULES.items() if name.startswith("gradclip_conformance")}


def find_folder(module: str) -> str:
    """Return the suite's folder that holds a module, or an empty text if there is none."""
    parts = module.split(".")
    return parts[1] if len(parts) > 2 or (SUITE[module].name == "__init__.py" and len(parts) > 1) else ""


def test_folders_import_only_folders_below_them() -> None:
    place = {folder: number for number, folders in enumerate(FOLDERS) for folder in folders}
    assert {find_folder(module) for module in SUITE} - {""} == set(place)

    bad = [
        f"{module} imports {other}"
        for module in SUITE
        for other in list_edges(module) & SUITE.keys()
        if find_folder(module) and find_folder(other) != find_folder(module)
        if not find_folder(other) or place[find_folder(other)] >= place[find_folder(module)]
    ]

    assert not bad


def test_imports_have_no_circle() -> None:
    graph = {module: list_edges(module) for module in MODULES}

    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle of imports: {error.args[1]}")


# Public names.


@functools.cache
def list_names(module: str) -> tuple[set[str], set[str]]:
    """Return the names that other packages may import from a module, and all names that it binds.

    Without an `__all__`, these are the names that the module defines and that have no leading underscore.
    """
    tree = parse(module)
    defined: set[str] = set()
    imported: set[str] = set()
    exported: list[str] = []
    # The module's `__getattr__` supplies the names that are imported for the type checker only. Modules that warn when
    # they are imported are imported in a `with`.
    guarded = [inner for node in tree.body if isinstance(node, ast.If | ast.With) for inner in node.body]
    for node in [*tree.body, *guarded]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            defined |= names
            if "__all__" in names and node.value:
                exported = ast.literal_eval(node.value)
    return set(exported) or {name for name in defined if not name.startswith("_")}, defined | imported


def list_hidden_imports(module: str) -> Iterator[str]:
    """Yield the names that a module imports from another package, and that are private or not defined there."""
    for node in ast.walk(parse(module)):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module not in MODULES:
            continue
        if node.module.partition(".")[0] == module.partition(".")[0]:
            continue
        public, bound = list_names(node.module)
        submodules = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == node.module}
        yield from (alias.name for alias in node.names if alias.name in bound - public - submodules)


def test_packages_import_only_public_names() -> None:
    hidden = {module: list(list_hidden_imports(module)) for module in MODULES}

    assert {module: names for module, names in hidden.items() if names} == {}


# Programs that run without the extras.

#: Packages that `pip install gradclip-spec` does not install. None in `sys.modules` makes an import fail.
EXTRAS = ["click", "rich", "fastjsonschema", "jinja2", "ml_dtypes", "pytest", "hypothesis", "optree", "flint"]
WITHOUT_EXTRAS = "import sys; sys.modules.update(dict.fromkeys({extras!r}))\n{program}"


#: What works without the extras. Each program adds imports to those before it.
PROGRAMS = """
import numpy, gradclip_spec
assert gradclip_spec.global_norm([numpy.array([3.0, 4.0])]) == 5
from gradclip_spec import rules
assert rules.load()
import gradclip_adapters.host, gradclip_adapters.registry, gradclip_adapters.plain
from gradclip_reports.records import write_run
from gradclip_adapters import registry
assert registry.resolve('numpy').subjects()
from gradclip_conformance import check_clipper
def clip(grads, *, max, min): return [None if g is None else g.clip(min, max) for g in grads]
assert check_clipper(clip, 'clip_by_value', dtypes=['float32'], rule='value.n*')
"""


@pytest.mark.thorough(sample=0)
def test_core_runs_without_extras() -> None:
    code = WITHOUT_EXTRAS.format(extras=EXTRAS, program=PROGRAMS)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_command_line_names_the_missing_extra() -> None:
    code = WITHOUT_EXTRAS.format(extras=EXTRAS, program="import gradclip_conformance.cli")

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "pip install 'gradclip-spec[check]'" in done.stderr
    assert "Traceback" not in done.stderr


# Lists that must agree.


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    with_cases = {case.rule for case in (*list_all_cases(), *list_all_rows())}
    known = {rule.id for rule in rules.load()}

    assert with_cases == known, f"without a case: {known - with_cases}; without a rule: {with_cases - known}"


def test_case_ids_are_unique_and_readable() -> None:
    ids = [case.id for case in list_all_cases()]
    dtype = "(float16|bfloat16|float32|float64)"

    assert [name for name, count in Counter(ids).items() if count > 1] == []
    form = re.compile(rf"({'|'.join(PREFIXES)})\.[a-z-]+/[a-z0-9-]+/{dtype}(\+{dtype})*")
    assert [name for name in ids if not form.fullmatch(name)] == []


def test_cases_have_the_theme_of_their_rule() -> None:
    themes = {rule.id: rule.theme for rule in rules.load()}

    for theme in rules.THEMES:
        cases = list_all_rows() if theme == "combinations" else THEMES[theme].make_cases()
        assert {themes[case.rule] for case in cases} <= {theme}


def test_smoke_has_a_case_of_every_operation() -> None:
    asked = {case.operation for case in list_all_cases() if matches_any(SMOKE_RULES, case.id)}

    assert asked == set(OPERATIONS), f"no case of {set(OPERATIONS) - asked} matches {SMOKE_RULES}"


def test_registry_and_recipes_list_the_same_adapters() -> None:
    only = sorted(set(recipes.read_recipes()) ^ set(registry.BUILT_IN))
    assert not only, f"only in registry.py, or without a table [adapters.NAME] in environments.toml: {only}"
    for where in registry.BUILT_IN.values():
        module, _, attribute = where.partition(":")
        public, _ = list_names(module)
        assert attribute in public, f"{where} does not exist, or is private"


def test_each_framework_has_functions_for_scripts() -> None:
    for name, where in registry.BUILT_IN.items():
        # TensorFlow.js is called from JavaScript.
        if ".reference:" not in where and name != "tensorflow-js":
            assert has_source(name), f"no module of gradclip_adapters.scripts belongs to {name}"


def test_scripts_and_plugins_of_the_project_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    for where in (*project["scripts"].values(), *project["entry-points"]["pytest11"].values()):
        module, _, attribute = where.partition(":")
        assert attribute == "" or hasattr(importlib.import_module(module), attribute)


SCHEMAS = sorted(path for folder in PACKAGES.values() for path in folder.rglob("schemas/*.json"))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_schema_is_valid_and_closed(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False, "a misspelt member must be refused"


def test_every_message_has_a_schema() -> None:
    documented = set(re.findall(r"^(\w+) +(?:suite|host) ", str(wire.__doc__), re.MULTILINE))

    assert {path.stem for path in (PACKAGES["gradclip_adapters"] / "schemas").glob("*.json")} == documented


# What runs on Python 3.7.


@pytest.fixture(scope="module")
def old_python() -> str:
    """Return a Python 3.7, or the one that an environment variable names, which has NumPy."""
    if named := os.environ.get("GRADCLIP_PYTHON_PADDLE_FLUID"):
        return named
    try:
        return making.find_interpreter("3.7", "paddle-fluid")
    except folders.EnvironmentProblem:
        pytest.skip("a Python 3.7 is missing")


def test_files_listed_for_python_3_7_compile_there(old_python: str) -> None:
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    files = [sorted(ROOT.glob(pattern)) for pattern in ruff["per-file-target-version"]]
    code = "import sys; [compile(open(path, encoding='utf-8').read(), path, 'exec') for path in sys.argv[1:]]"
    command = [old_python, "-c", code, *(str(path) for some in files for path in some)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert all(files)
    assert done.returncode == 0, done.stderr


FAKE = """
from gradclip_adapters.contract import About, Adapter, Array, Reply, EntryPoint, framework_call

class Fake(Adapter):
    def about(self):
        return About("fake", "1.0")

    def subjects(self):
        return [EntryPoint("halve", "clip_by_norm", ("float32",), ("functional",))]

    def call(self, call):
        arrays = [gradient.array.numpy() for gradient in call.gradients]
        with framework_call() as seen:
            if call.options["clip_norm"] < 0:
                raise ValueError("negative")
            halves = [array / 2 for array in arrays]
        return Reply(tuple(Array.of(half) for half in halves), warnings=seen.warnings)
"""


def test_suite_talks_to_a_host_on_python_3_7(old_python: str, tmp_path: Path) -> None:
    if subprocess.run([old_python, "-c", "import numpy"], capture_output=True, check=False).returncode:
        pytest.skip("NumPy for Python 3.7 is missing: name a Python with it in GRADCLIP_PYTHON_PADDLE_FLUID")
    path = tmp_path / "fake.py"
    path.write_text(FAKE, encoding="utf-8")
    gradients = (Gradient("g", Array("float32", (2,), b"\0\0\x40\x40\0\0\x80\x40")),)

    host = HostProcess([*build_host_command(old_python), str(path)], start_seconds=60)
    try:
        halved: Any = host.ask(Call("halve", gradients, {"clip_norm": 2.5}), 30)
        refused: Any = host.ask(Call("halve", gradients, {"clip_norm": -1.0}), 30)
    finally:
        host.close()

    assert host.description.environment["python"].startswith("3.7.")
    assert isinstance(halved, Replied)
    assert halved.reply.gradients[0] is not None
    assert halved.reply.gradients[0].numpy().tolist() == [1.5, 2.0]
    assert isinstance(refused, Raised)
    assert (refused.kind, refused.text) == ("ValueError", "negative")


# The contents of files.


@pytest.fixture(scope="module")
def published() -> dict[str, bytes]:
    """Return the content of each file in the repository. Records are decompressed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("git, or a checkout, is missing")
    names = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    contents = {name: (ROOT / name).read_bytes() for name in names}
    return {name: gzip.decompress(held) if name.endswith(".jsonl.gz") else held for name, held in contents.items()}


def test_files_hold_no_path_of_a_machine(published: dict[str, bytes]) -> None:
    # The paths are written in two parts, so that this file does not match.
    paths = re.compile(b"/wo" + b"rk/|/ro" + b"ot/|/t" + b"mp/|/home/[a-z]+/")
    assert not [name for name, content in published.items() if paths.search(content)]


def test_every_file_is_text(published: dict[str, bytes]) -> None:
    # Downloads and build results do not belong in the repository.
    assert not [name for name, content in published.items() if b"\0" in content]
