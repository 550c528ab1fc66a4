"""Proves what the wheel holds. Run where nothing but the built wheel is installed, by `nox -s build`.

Not a test module: pytest would find the checkout instead of the wheel.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import PurePosixPath

PACKAGES = {"gradclip_spec", "gradclip_conformance", "gradclip_adapters", "gradclip_reports"}

#: What is no Python module and must be there: patterns of which each must match a file.
DATA = (
    *(f"{package}/py.typed" for package in sorted(PACKAGES)),
    "gradclip_spec/rules/*.toml",
    "gradclip_adapters/environments.toml",
    "gradclip_adapters/claims/*.toml",
    "gradclip_adapters/schemas/*.json",
    "gradclip_adapters/scripts/*.toml",
    "gradclip_adapters/launch.py",
    "gradclip_conformance/known/expectations/*.toml",
    "gradclip_conformance/cases/*.toml",
    "gradclip_conformance/test_conformance.py",
    "gradclip_reports/schemas/*.json",
)

#: Endings of files that belong in the wheel.
ENDINGS = {".py", ".typed", ".toml", ".json"}


def problems() -> list[str]:
    """What is missing from the installed distribution, and what is too much."""
    installed = distribution("gradclip-spec")
    files = [PurePosixPath(str(file)) for file in installed.files or ()]
    # Byte code is made by the installation, scripts stand outside of the packages.
    held = [file for file in files if file.suffix != ".pyc" and ".." not in file.parts]
    top = {file.parts[0] for file in held if not file.parts[0].endswith(".dist-info")}
    found = [f"nothing matches {pattern}" for pattern in DATA if not any(file.match(pattern) for file in held)]
    found += [f"{name} is missing at the top" for name in sorted(PACKAGES - top)]
    found += [f"{name} has no place at the top" for name in sorted(top - PACKAGES)]
    found += [f"{file} has no place there" for file in held if file.parts[0] in PACKAGES and file.suffix not in ENDINGS]
    found += [f"{name} is not a package in the wheel" for name in sorted(PACKAGES) if not _is_installed(name)]
    if not any(file.match("*.dist-info/licenses/LICENSE") for file in files):
        found.append("the licence is missing")
    scripts = {entry.name for entry in installed.entry_points if entry.group == "console_scripts"}
    return found if scripts == {"gradclip"} else [*found, f"the scripts are {scripts}"]


def _is_installed(name: str) -> bool:
    """Whether a package is imported from where the distribution is installed, and not from a checkout."""
    module = __import__(name)
    return str(distribution("gradclip-spec").locate_file(name)) in str(module.__file__)


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) or "The wheel holds what it must, and nothing else.")
    sys.exit(1 if found else 0)
