"""Make an adapter after the functions of its framework are replaced. A host loads this file in place of the adapter.

GRADCLIP_NEGATIVE_CONTROL names the adapter and the way, such as "torch doubled".
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from gradclip_adapters.processes import Team
from gradclip_adapters.registry import BUILT_IN

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

from negative_controls.table import replace  # noqa: E402 - the folder must be in the path

NAME, _, WAY = os.environ["GRADCLIP_NEGATIVE_CONTROL"].partition(" ")

#: What must be set before the framework is imported, because the adapter would set it too late.
ENVIRONMENT = {
    "deepspeed": {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0"},
    "keras-jax": {"KERAS_BACKEND": "jax"},
    "keras-tensorflow": {"KERAS_BACKEND": "tensorflow"},
    "keras-torch": {"KERAS_BACKEND": "torch"},
    "mindspore": {"GLOG_v": "4"},
    "tensorflow-js": {"NODE_OPTIONS": '--require "{}"'.format((FOLDER / "tensorflow_js.js").as_posix())},
}
os.environ.update(ENVIRONMENT.get(NAME, {}))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    replace(NAME, WAY)


def _start(team: Team, start: Any = Team.start) -> None:
    # A team starts anew if its processes no longer agree.
    if team.module != Path(__file__).stem:
        os.environ.update(GRADCLIP_TEAM=team.module, PYTHONPATH=str(FOLDER))
        team.module = Path(__file__).stem
    start(team)


# The processes of a distributed call import this file in place of the adapter's module, and then join as that says.
Team.start = _start  # type: ignore[method-assign]


def join(*arguments: Any) -> Any:
    """Join a group of processes as the adapter's module does."""
    return importlib.import_module(os.environ["GRADCLIP_TEAM"]).join(*arguments)


def load(**settings: Any) -> Any:
    """Return the function by which a process joins a mesh, as the adapter's module does."""
    return importlib.import_module(os.environ["GRADCLIP_TEAM"]).load(**settings)


MODULE, _, MAKE = BUILT_IN[NAME].partition(":")
adapter = getattr(importlib.import_module(MODULE), MAKE)
