"""Check that an adapter in another distribution is found by its entry point, with its claims and known failures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradclip_conformance.skeleton.files import write_files

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
