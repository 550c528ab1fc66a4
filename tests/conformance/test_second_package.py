"""Check that an adapter in another distribution is found by its entry point, with its claims and known failures."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gradclip_conformance.skeleton.files import write_files

METADATA = "Metadata-Version: 2.1\nName: second-package\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
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


def build_wheel(folder: Path) -> Path:
    """Write a wheel with an adapter that divides by the norm plus 1, and a claim that says so."""
    adapter = write_files("fresh", "functional", "clip_by_global_norm")["fresh.py"]
    files = {
        # The suite must not import the package, because that may import the framework.
        "second_package/__init__.py": "import os\nassert os.environ.get('GRADCLIP_SECOND') != 'suite'\n",
        "second_package/fresh.py": adapter.replace(
            'clip_by_global_norm(tensors, options["clip_norm"])',
            'clip_by_global_norm(tensors, options["clip_norm"], eps=1.0)',
        ),
        "second_package/fresh.claims.toml": CLAIMS,
        "second_package-1.0.dist-info/METADATA": METADATA,
        "second_package-1.0.dist-info/WHEEL": WHEEL,
        "second_package-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    record = "second_package-1.0.dist-info/RECORD"
    wheel = folder / "second_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(record, "".join(f"{name},,\n" for name in (*files, record)))
    return wheel


@pytest.mark.thorough(sample=0)
def test_adapter_of_another_distribution_is_found_by_its_entry_point(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([*install, str(build_wheel(tmp_path))], check=True, capture_output=True)
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gradclip_conformance", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "second_package.fresh:NewAdapter" in run("adapters")
    smoke = run("smoke", "second")
    assert "second: fresh 0, Python" in smoke
    assert "  documented  global-norm.scaled-above/three-four-five/float32" in smoke
