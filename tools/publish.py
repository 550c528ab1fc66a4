"""Make the results of a release: `nox -s published` runs this program.

`python tools/publish.py` checks each framework in its own environment, its older versions too, and measures how
accurate they are. All of this lies in `build/results/`. What is there already and comes from this version of the suite
stays, so an interrupted run goes on where it stopped. To begin anew, remove the folder.
`python tools/publish.py torch optax@0.1.9` makes only these records again, and nothing else.

When all records are there, the program makes the pages, the site and the archive for the release from them. It copies
the pages and the records of current versions to `reports/published/`, which is what belongs in the commit of a release.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gradclip_conformance.run.environments.recipes import read_recipes
from gradclip_spec import __version__
from pages import write_pages

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PUBLISHED = ROOT / "build" / "results", ROOT / "reports" / "published"
#: The exit codes of a whole run. Not to be as expected is a valid result here.
WHOLE = (0, 1)
#: The largest number of elements in the measurements of accuracy. Ten million take minutes for each framework, and
#: `gradclip accuracy NAME --largest 10000000` measures them where somebody asks.
LARGEST = 10**6
#: What other sessions measure on a quiet machine: the page of each, and how to make it.
MEASURED = {
    "benchmarks": "nox -s bench",
    "mutants": "nox -s mutation -- --all --output build/results",
    "findings": "nox -s mutation -- --findings --output build/results",
}
#: The job that measures the accuracy of all frameworks.
ACCURACY = "accuracy"


def list_names() -> list[str]:
    """Return the names of all records: each adapter but those of other array libraries, and each older version."""
    recipes = {name: recipe for name, recipe in read_recipes().items() if not name.startswith("reference-")}
    older = [f"{name}@{version}" for name, recipe in recipes.items() for version in recipe.others]
    return [*recipes, *older]


def locate(name: str, folder: Path) -> Path:
    """Return the path of a record such as `torch` or `torch@1.7.1` in the folder of the results."""
    adapter, _, version = name.partition("@")
    return folder / "older" / f"{adapter}-{version}.jsonl.gz" if version else folder / f"{adapter}.jsonl.gz"


def is_current(path: Path) -> bool:
    """Return whether a record, or the table of accuracy, is there and was made with this version of the suite."""
    if not path.is_file():
        return False
    if path.suffix == ".json":
        return bool(json.loads(path.read_text(encoding="utf-8"))["suite"] == __version__)
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return bool(json.loads(stream.readline())["suite"]["version"] == __version__)


def make_record(name: str, folder: Path) -> str:
    """Check one framework, and compress its record into the folder. Return the output of a run that failed."""
    with tempfile.TemporaryDirectory() as made:
        done = run_gradclip("check", name, "--venv", "-o", f"{made}/")
        records = list(Path(made).glob("*.jsonl"))
        if done.returncode not in WHOLE or len(records) != 1:
            return done.stdout
        path = locate(name, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the time, an unchanged record gives the same bytes.
        path.write_bytes(gzip.compress(records[0].read_bytes(), compresslevel=9, mtime=0))
    return ""


def measure_accuracy(folder: Path) -> str:
    """Measure the accuracy of all frameworks. Return the output of a run that failed."""
    adapters = [name for name in list_names() if "@" not in name]
    output = str(folder / ACCURACY)
    done = run_gradclip("accuracy", *adapters, "--venv", "--largest", str(LARGEST), "-o", output)
    return "" if done.returncode == 0 else done.stdout


def run_gradclip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a verb of the command line. Its output is one text."""
    command = [sys.executable, "-m", "gradclip_conformance", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def run_job(job: str) -> bool:
    """Make a record or the table of accuracy, say how that ended, and return whether it is there."""
    output = measure_accuracy(RESULTS) if job == ACCURACY else make_record(job, RESULTS)
    print(f"{output}{job}: {'failed' if output else 'made'}", flush=True)
    return not output


def assemble(folder: Path, published: Path) -> Path:
    """Write the pages and the site of all results, copy what belongs in git, and return the archive for the release."""
    pages = write_pages(folder)
    for path in published.glob("*.jsonl.gz"):
        path.unlink()
    for path in folder.glob("*.jsonl.gz"):
        shutil.copy(path, published)
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in (*(name for name in pages if "/" not in name), f"{ACCURACY}.md"):
        shutil.copy(folder / name, published)
    for name in MEASURED:
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
        # The pictures of these pages are in the archive only.
        (published / f"{name}.md").write_text(re.sub(r"^!\[.*\n\n", "", text, flags=re.MULTILINE), encoding="utf-8")
    records = [str(path) for name in list_names() if (path := locate(name, folder)).parent == folder]
    done = run_gradclip("report", *records, "-o", str(folder / "site"))
    if done.returncode:
        sys.exit(done.stdout)
    archive = folder.with_name(f"gradclip-results-{__version__}")
    return Path(shutil.make_archive(str(archive), "zip", folder))


def main(names: Sequence[str]) -> int:
    """Make the results of these names only, or everything that is missing and then the pages."""
    jobs = list(names) or [name for name in list_names() if not is_current(locate(name, RESULTS))]
    if not names and not is_current(RESULTS / f"{ACCURACY}.json"):
        jobs.insert(0, ACCURACY)
    RESULTS.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        failed = [job for job, is_made in zip(jobs, pool.map(run_job, jobs), strict=True) if not is_made]
    if failed:
        print(f"Not made: {', '.join(failed)}")
        return 1
    if names:
        return 0
    missing = [how for name, how in MEASURED.items() if not (RESULTS / f"{name}.md").is_file()]
    if missing:
        print(f"The pages need what these sessions measure: {', '.join(missing)}")
        return 1
    print(f"Made: {assemble(RESULTS, PUBLISHED).relative_to(ROOT)}, and the pages in reports/published/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
