"""Test what the adapter of Jittor hides from records, and where it lets Jittor write. Needs Jittor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gradclip_adapters.frameworks.jittor import JittorAdapter


def test_name_of_the_compiler_holds_no_folder() -> None:
    assert "/" not in JittorAdapter().about().environment["compiler"]


def test_import_leaves_the_home_of_the_user_alone(tmp_path: Path) -> None:
    """Check that Jittor's cache is in the folder of the environment."""
    code = (
        "import json, os, gradclip_adapters.frameworks.jittor, jittor_utils;"
        "print(json.dumps([os.environ['HOME'], jittor_utils.home()]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JITTOR_HOME"}
    process = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "HOME": str(tmp_path)}, stdout=subprocess.PIPE, check=True
    )

    assert json.loads(process.stdout.splitlines()[-1]) == [str(tmp_path), sys.prefix]
    assert list(tmp_path.iterdir()) == []
