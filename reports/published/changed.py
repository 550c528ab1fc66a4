"""Find the published records and measurements that are out of date, because what they were made of has changed since.

`python changed.py` prints the names of these records, such as `torch` and `optax@0.1.9`; `python changed.py --accuracy`
prints the names of the frameworks whose accuracy is out of date. `nox -s refresh` makes both anew. `make_records.py`
notes in `made_of.json` what each one is made of.

A record is made of the packages of its environment, the code of its adapter, the claims and known failures of its
framework's version, and the suite's rules, cases and judge. A measurement of accuracy needs neither the known failures
nor the suite, apart from the code that measures. Comments, docstrings and the layout of code do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import gradclip_adapters
import gradclip_conformance
import gradclip_spec
from gradclip_adapters.registry import BUILT_IN
from gradclip_conformance.known.pins import is_version_within
from gradclip_conformance.run.environments import choose_version, find_recipe, read_recipes, split_version

NOTES = Path(__file__).resolve().with_name("made_of.json")
ADAPTERS, SUITE, SPEC = (
    Path(str(package.__file__)).parent for package in (gradclip_adapters, gradclip_conformance, gradclip_spec)
)
#: The keys of a claim or a known failure that say which versions it is about.
VERSIONS = ("version", "versions")
#: The two parts of `made_of.json`.
RECORDS, ACCURACY = "records", "accuracy"
#: The parts of the suite that decide which cells a record has, and what stands in them.
DECIDING = ("cases", "causes", "covering", "judge", "oracle", "run")
#: The files of the suite that measure how accurate a framework is.
MEASURING = ("accuracy/measure", "oracle/bulk", "oracle/formats", "oracle/formula", "oracle/integers", "judge/arrays")


def list_names(kind: str = RECORDS) -> list[str]:
    """Return the names of all records that can be published: all adapters but other array libraries, and versions.

    The accuracy of older versions is not published.
    """
    recipes = {name: one for name, one in read_recipes().items() if not name.startswith("reference-")}
    if kind == ACCURACY:
        return [*recipes]
    return [*recipes, *(f"{name}@{version}" for name, one in recipes.items() for version in one.others)]


def compute_fingerprint(kind: str, name: str) -> str:
    """Return a digest of everything that the record, or the measurement of accuracy, of this name is made of."""
    digest = hashlib.sha256((_digest_suite() if kind == RECORDS else _digest_measuring()).encode())
    adapter, _ = split_version(name)
    recipe = find_recipe(name)
    assert recipe is not None
    module = BUILT_IN[adapter].partition(":")[0].split(".", 1)[1]
    digest.update(repr((recipe.python, recipe.requirements, recipe.alone, recipe.npm, recipe.rows)).encode())
    code = ADAPTERS / (module.replace(".", "/") + ".py")
    # An adapter of a framework in another language has its host beside it.
    files = [*_list_code(code), code.with_suffix(".js")]
    # The framework of this adapter is our own reference.
    files += sorted(SPEC.rglob("*.py")) if adapter == "numpy" else []
    for path in files:
        digest.update(_read_meaning(path).encode())
    entries = [ADAPTERS / "claims" / f"{adapter}.toml"]
    if kind == RECORDS:
        entries.append(SUITE / "known" / "expectations" / f"{adapter}.toml")
    for path in entries:
        digest.update(_read_entries(path, recipe.version).encode())
    return digest.hexdigest()


@functools.cache
def _digest_suite() -> str:
    code = [path for folder in DECIDING for path in sorted((SUITE / folder).rglob("*.py"))]
    data = [*sorted((SPEC / "rules").glob("*.toml")), *sorted((SUITE / "cases").rglob("*.toml"))]
    # How environments are made decides nothing but what the recipe says.
    meanings = [_read_meaning(path) for path in [*code, *data] if "environments" not in path.parts]
    return hashlib.sha256("\n".join(meanings).encode()).hexdigest()


@functools.cache
def _digest_measuring() -> str:
    meanings = [_read_meaning(SUITE / f"{file}.py") for file in MEASURING]
    return hashlib.sha256("\n".join(meanings).encode()).hexdigest()


def _list_code(path: Path) -> Iterator[Path]:
    """Yield the file of an adapter's module, and the files of the modules of its package that it imports."""
    found, waiting = {path}, [path]
    while waiting:
        one = waiting.pop()
        yield one
        for node in ast.walk(ast.parse(one.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = one.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            imported = {base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)}
            new = sorted(file for file in imported - found if file.is_file())
            found.update(new)
            waiting += new


@functools.cache
def _read_meaning(path: Path) -> str:
    """Return the contents of a file without comments, docstrings and layout. It is empty if there is no such file."""
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return json.dumps(tomllib.loads(text), default=str)
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def _read_entries(path: Path, version: str) -> str:
    """Return the claims or known failures in a file that are about a version, without the versions that they name."""
    tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    kept = {
        key: [_leave_out_versions(one) for one in value if _is_about(one, version)]
        if isinstance(value, list)
        else value
        for key, value in tables.items()
    }
    return json.dumps(kept, default=str)


def _leave_out_versions(entry: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in entry.items() if key not in VERSIONS}


def _is_about(entry: dict[str, object], version: str) -> bool:
    return not version or all(is_version_within(version, str(entry.get(key, ""))) for key in VERSIONS)


def read_notes() -> dict[str, dict[str, str]]:
    """Return the fingerprint that each record, and each measurement of accuracy, had when it was made."""
    noted: dict[str, dict[str, str]] = json.loads(NOTES.read_text(encoding="utf-8")) if NOTES.is_file() else {}
    return {RECORDS: {}, ACCURACY: {}, **noted}


def list_changed(kind: str) -> list[str]:
    """Return the names of the records or the measurements that are missing, or were made of something else."""
    noted = read_notes()[kind]
    return [name for name in list_names(kind) if noted.get(name) != compute_fingerprint(kind, name)]


def note(kind: str, names: Sequence[str]) -> None:
    """Note what the records or the measurements of these names are made of now. Forget those that no adapter makes."""
    noted = read_notes()
    noted[kind].update({name: compute_fingerprint(kind, name) for name in map(choose_version, names)})
    kept = {part: {name: noted[part][name] for name in list_names(part) if name in noted[part]} for part in noted}
    NOTES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in list_changed(ACCURACY if "--accuracy" in sys.argv else RECORDS))
