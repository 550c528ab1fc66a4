"""Reproduce the published findings without the suite: run short scripts, and compare what they print.

`python reproduce.py [FRAMEWORK ...]` runs `reproductions/<framework>/*.py`, each in a process of its own, with the
Python of the framework's environment. Node runs a script that ends in `.js`. The folder of an older version is
`reproductions/<framework>@<version>`. The name of a script begins with the cause of its finding. Its docstring, or its
first comment, ends with the lines that it prints. The exit code 1 means that a script prints something else, or that a
finding has no script.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradclip_conformance.known.pins import CHANCE, load_deviations
from gradclip_conformance.run.environments import make_environment
from gradclip_reports.records import read_runs
from gradclip_reports.statuses import UNEXPLAINED
from gradclip_spec.rules.causes import load_causes

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "reproductions"

#: A docstring of Python, or a comment of JavaScript, at the beginning of a script; then the code.
SCRIPT = re.compile(r'(?:"""|/\*)(.*?)(?:"""|\*/)\n(.*)', re.DOTALL)

#: The last line of a script whose process ends by a signal.
DEATH = "the process dies"
#: Separates the lines that a script may print by chance.
OR = " | "
#: The number of seconds that a script may take. A busy machine needs a minute to import TensorFlow.
PATIENCE = 600


@dataclass(frozen=True)
class Reproduction:
    """A script that shows one finding."""

    path: Path
    cause: str
    #: What the framework does, in a sentence.
    sentence: str
    prints: tuple[str, ...]
    #: The lines below the docstring.
    code: str


def list_frameworks() -> list[str]:
    """Return the frameworks with scripts."""
    return sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def read_reproductions(framework: str) -> list[Reproduction]:
    """Return the scripts of a framework, in the order of the catalogue of causes.

    Raises
    ------
    ValueError
        When a script has no docstring that says what it prints, or no name that begins with a cause.
    """
    order = [*load_causes(), UNEXPLAINED]
    found = [_read(path, order) for path in sorted((FOLDER / framework).glob("*.[pj][ys]"))]
    return sorted(found, key=lambda one: (order.index(one.cause), one.path.name))


def _read(path: Path, causes: Sequence[str]) -> Reproduction:
    parts = SCRIPT.fullmatch(path.read_text(encoding="utf-8"))
    about, code = parts.groups() if parts else ("", "")
    sentence, _, printed = about.strip().partition("\n\nPrints:\n")
    cause = next((one for one in causes if path.stem == one or path.stem.startswith(f"{one}-")), None)
    if not printed or cause is None:
        message = f"{path}: give a name that begins with a cause, and a docstring that ends with 'Prints:' and lines"
        raise ValueError(message)
    lines = tuple(map(str.strip, printed.splitlines()))
    return Reproduction(path, cause, " ".join(sentence.split()), lines, code.strip() + "\n")


def list_gaps(framework: str) -> list[str]:
    """Return a sentence for each published finding without a script, and for each script without a finding.

    A finding that only older versions show needs a script of one of these, such as `optax@0.2.2`.
    """
    adapter, _, version = framework.partition("@")
    shown = _list_causes(HERE / "older" / f"{adapter}-{version}.jsonl.gz" if version else HERE / f"{adapter}.jsonl.gz")
    scripts = {one.cause for one in read_reproductions(framework)}
    missing = set() if version else shown - scripts
    if not version:
        older = {cause for path in HERE.glob(f"older/{adapter}-[0-9]*.jsonl.gz") for cause in _list_causes(path)}
        missing |= older - shown - {one.cause for one in _read_older(adapter)}
    gaps = [f"{framework}: no script reproduces the finding {cause!r}" for cause in sorted(missing)]
    idle = scripts - shown - list_ends_by_chance(adapter)
    return gaps + [f"{framework}: the record has no finding {cause!r}" for cause in sorted(idle)]


def list_ends_by_chance(adapter: str) -> set[str]:
    """Return those of `crashes` and `hangs` that a pin expects by chance only, so that a record may lack them."""
    words = {word for pin in load_deviations(adapter) if CHANCE in pin.observed for word in pin.observed.split(CHANCE)}
    return {cause for word, cause in (("crash", "crashes"), ("timeout", "hangs")) if word in words}


def _list_causes(path: Path) -> set[str]:
    (run,) = read_runs(path)
    return {single.cause for single in run.singles}


def _read_older(adapter: str) -> list[Reproduction]:
    """Return the scripts of all older versions of an adapter's framework."""
    return [one for folder in sorted(FOLDER.glob(f"{adapter}@*")) for one in read_reproductions(folder.name)]


def is_printed(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether a script printed the expected lines, or one of several alternatives for a line."""
    return len(expected) == len(printed) and all(
        line in line_or_lines.split(OR) for line_or_lines, line in zip(expected, printed, strict=True)
    )


def run_script(python: str, path: Path) -> list[str]:
    """Return the lines that a script prints. Node finds the packages of the Python's environment."""
    environment = {**os.environ, "NODE_PATH": str(Path(python).parents[1] / "node_modules")}
    command = ["node" if path.suffix == ".js" else python, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode > 0:
        lines.append(f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return [*lines, DEATH] if done.returncode < 0 else lines


def main(names: Iterable[str]) -> int:
    """Run the scripts of these frameworks, or of all, and print the result of each."""
    faults = 0
    for framework in list(names) or list_frameworks():
        python = str(make_environment(framework))
        for one in read_reproductions(framework):
            printed = run_script(python, one.path)
            right = is_printed(one.prints, printed)
            faults += not right
            sys.stdout.write(f"{'yes' if right else 'NO '}  {framework} {one.path.stem}: {'; '.join(printed)}\n")
            if not right:
                sys.stdout.write(f"     expected: {'; '.join(one.prints)}\n")
        gaps = list_gaps(framework)
        faults += len(gaps)
        sys.stdout.write("".join(f"NO   {gap}\n" for gap in gaps))
    sys.stdout.write(f"{faults} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
