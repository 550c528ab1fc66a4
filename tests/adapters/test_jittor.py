"""Test what the adapter of Jittor hides from records, and its imports. Needs Jittor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.frameworks.jittor import JittorAdapter

ADAPTER = JittorAdapter()
(SUBJECT,) = ADAPTER.subjects()
GRADIENT = Gradient("g", Array.of(np.array([3.0, -4.0], np.float32)))


def test_name_of_the_compiler_holds_no_folder() -> None:
    assert "/" not in ADAPTER.about().environment["compiler"]


def test_only_frozen_parameters_make_a_step() -> None:
    assert ADAPTER.call(Call(SUBJECT.name, (Gradient("none", None),), {"clip_norm": 1.0})).gradients == (None,)


def test_error_holds_no_time_and_no_folder() -> None:
    call = Call(SUBJECT.name, (GRADIENT,), {"clip_norm": 1.0, "threshold_as": "text"})

    with pytest.raises(FrameworkRaised, match="Wrong inputs arguments") as caught:
        ADAPTER.call(call)

    assert "Failed reason" not in str(caught.value)


def test_import_leaves_the_home_of_the_user_alone(tmp_path: Path) -> None:
    """Jittor is imported in a process whose HOME is empty. Its cache is in the environment's folder."""
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
