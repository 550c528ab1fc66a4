"""Test, check and measure the reference on a GPU: `nox -s gpu` runs this program, with what the system has installed.

`python tools/gpu.py --device cuda --out build/gpu` runs these parts, each with a time limit of its own, in ten minutes
at most on 16 cores: the tests of the reference on CuPy, torch and JAX; the suite on the reference on each of them, on
torch itself, and on Megatron Core on a mesh of four processes, which needs CUDA; and the benchmarks, when nothing else
runs. A part whose library, tool or device is missing is not run, and the table at the end says what is missing. The
folder gets a log of each part, records, numbers and the table. Without an installation, PYTHONPATH must name the
packages that are not installed.

`--quick` runs a small piece of each part, to prove that the program works; with `--device cpu`, no GPU is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [str(ROOT / folder) for folder in (".", "conformance", "adapters", "reports")]
#: The packages whose versions the table names.
VERSIONS = (
    "torch",
    "megatron-core",
    "triton",
    "jax",
    "optax",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "numpy",
    "array-api-compat",
)
#: For each library, a program that fails if the library or its device is missing.
PROBES = {
    "numpy": "import numpy",
    "torch": "import torch; torch.zeros(1, device={device!r})",
    "jax": "import jax; jax.devices({device!r})",
    "cupy": "import cupy; cupy.zeros(1)",
}
#: A program that fails if each of several programs fails.
ANY_PEER = """
errors = []
for probe in {probes}:
    try:
        exec(probe)
        break
    except Exception as error:
        errors.append(str(error))
else:
    raise SystemExit("; ".join(errors))
"""
#: The last line in which a part says what it found.
SUMMARY = re.compile(r"^.*(?:\d+ (?:passed|failed|error)|not as expected|comparisons).*$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """One program to run, and what it needs."""

    name: str
    #: A program that fails if something is missing.
    probe: str
    command: Sequence[str]
    #: The time limit.
    seconds: float
    environment: dict[str, str]
    #: Whether nothing else may run at the same time.
    alone: bool = False
    #: Whether the exit code 1 is a valid result, such as findings about a framework.
    finds: bool = False


@dataclass(frozen=True)
class Result:
    """What became of a part: "held", "differs" (from what is known), "did not hold", "timed out" or "not run"."""

    name: str
    outcome: str
    detail: str
    seconds: float


def list_parts(device: str, out: Path, quick: bool) -> list[Part]:
    """Return all parts for a device. The first ones may run at the same time."""
    cores = os.cpu_count() or 1
    libraries = ["torch", "jax", "cupy"] if device != "cpu" else ["numpy", "torch", "jax"]
    parts = []
    for library in libraries:
        probe = PROBES[library].format(device=device)
        environment = {"GRADCLIP_REQUIRE": library, "GRADCLIP_DEVICE": device}
        files = ["tests/spec/test_formulas.py"] if quick else ["tests/spec"]
        workers = ["-n", str(max(1, cores // 4))] if importlib.util.find_spec("xdist") and not quick else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, *files]
        needs = f"import pytest, pytest_timeout, hypothesis, array_api_compat; {probe}"
        parts.append(Part(f"tests of the reference on {library}", needs, command, 300, environment))
    adapters = ["numpy" if library == "numpy" else f"reference-{library}" for library in libraries]
    for adapter in [*adapters, "torch"]:
        library = adapter.removeprefix("reference-")
        needs = f"import gradclip_conformance.cli; {PROBES[library].format(device=device)}"
        command = [sys.executable, "-m", "gradclip_conformance", "check", adapter, "-o", str(out / f"{adapter}.jsonl")]
        command += [] if adapter == "numpy" else ["--device", device]
        command += ["--rule", "global-norm.at-threshold/three-four-five/float32"] if quick else []
        command += ["--jobs", str(max(1, cores // 8)), "--timeout", "120"]
        parts.append(Part(f"suite on {adapter}", needs, command, 330, {}, finds=adapter == "torch"))
    command = [sys.executable, "-m", "gradclip_conformance", "check", "tools.megatron_clip:clip"]
    command += ["--op", "clip_by_global_norm", "--mesh", "data=2,tensor=2", "--arrays", "torch", "--dtype", "float32"]
    command += ["--formula", "coefficient:1e-6", "-o", str(out / "megatron-core.jsonl")]
    command += ["--case", "*/split@tensor:*"] if quick else []
    needs = "import gradclip_conformance.cli, torch; torch.zeros(1, device='cuda'); import tools.megatron_clip"
    parts.append(Part("suite on Megatron Core", needs, command, 330, {}, finds=True))
    command = [sys.executable, "benchmarks/gpu.py", str(out / "benchmarks.json"), "--device", device]
    command += ["--quick"] if quick else []
    needs = ANY_PEER.format(
        probes=[PROBES[library].format(device=device) for library in libraries if library != "numpy"]
    )
    parts.append(Part("benchmarks", needs, command, 210, {}, alone=True))
    return parts


def run_part(part: Part, out: Path) -> Result:
    """Run a part if nothing is missing, write its log, and return what became of it."""
    paths = [*PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    # JAX would take most of the memory of the GPU, which other parts need.
    common = {"PYTHONPATH": os.pathsep.join(paths), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    environment = {**os.environ, **common, **part.environment}
    probe = subprocess.run(
        [sys.executable, "-c", part.probe], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    if probe.returncode:
        return Result(part.name, "not run", (probe.stderr.strip().splitlines() or ["the probe failed"])[-1], 0.0)
    start = time.monotonic()
    log = out / f"{part.name.replace(' ', '-')}.log"
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            part.command, stdout=stream, stderr=subprocess.STDOUT, env=environment, cwd=ROOT, start_new_session=True
        )
        try:
            code = process.wait(part.seconds)
        except subprocess.TimeoutExpired:
            # End the workers and hosts, too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
    found = SUMMARY.findall(log.read_text(encoding="utf-8", errors="replace"))
    detail = found[-1].strip(" =") if found else ""
    if code is None:
        outcome = "timed out"
        detail = f"after {part.seconds:g} s; {detail}".rstrip("; ")
    else:
        outcome = "held" if code == 0 else "differs" if code == 1 and part.finds else "did not hold"
    return Result(part.name, outcome, detail or f"exit code {code}, see {log.name}", time.monotonic() - start)


def describe_machine(device: str) -> dict[str, str]:
    """Return the day, the card and the versions of what was tried."""
    card = "none"
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        card = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip() or card
    versions = {}
    for name in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    day = datetime.now(UTC).date().isoformat()
    cores = str(os.cpu_count() or 1)
    return {"day": day, "device": device, "card": card, "cores": cores, "python": platform.python_version(), **versions}


def write_table(results: Sequence[Result], machine: dict[str, str]) -> str:
    """Return the results as a table in Markdown."""
    lines = [", ".join(f"{key} {value}" for key, value in machine.items()), ""]
    lines += ["| part | outcome | what it found | s |", "|---|---|---|---:|"]
    for each in results:
        detail = each.detail.replace("|", "\\|")
        lines.append(f"| {each.name} | {each.outcome} | {detail} | {each.seconds:.0f} |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts, print the table, and return 1 if a part that ran did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try this program without a GPU")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu", help="the folder for all results")
    parser.add_argument("--quick", action="store_true", help="run a small piece of each part")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    parts = list_parts(options.device, out, options.quick)
    together = [part for part in parts if not part.alone]
    with ThreadPoolExecutor(1 if options.quick else len(together)) as pool:
        results = list(pool.map(lambda part: run_part(part, out), together))
    results += [run_part(part, out) for part in parts if part.alone]
    machine = describe_machine(options.device)
    table = write_table(results, machine)
    (out / "results.md").write_text(table, encoding="utf-8")
    document = {"machine": machine, "results": [asdict(each) for each in results]}
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(table)
    return int(any(each.outcome in ("did not hold", "timed out") for each in results))


if __name__ == "__main__":
    sys.exit(main())
