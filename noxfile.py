# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""One verb a session: `nox -s check -- torch paddle`, `nox -s tests`, `nox -l` for all of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["check", "tests", "lint", "typing", "build"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
#: Where the environments of frameworks are kept between sessions.
FRAMEWORKS = Path(".nox", "frameworks").resolve()
RECIPES = nox.project.load_toml("adapters/gradclip_adapters/environments.toml")


def groups(*names: str) -> list[str]:
    """The requirements of dependency groups of pyproject.toml."""
    return nox.project.dependency_groups(PYPROJECT, *names)


@nox.session
def check(session: nox.Session) -> None:
    """Check the reference on NumPy, and every framework named after `--`, each in an environment of its own."""
    session.install("-e", ".[check]")
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    named = [argument for argument in session.posargs if argument not in ("numpy", "--")]
    session.run("gradclip", "check", "numpy", *named, "--venv")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests that need no framework; the rest in the session `adapter(NAME)`."""
    session.install("-e", ".[check]", *groups("test"))
    session.run("pytest", *(session.posargs or ["-n", "2", "--dist", "loadfile"]))


@nox.session(default=False)
@nox.parametrize("name", [nox.param(name, id=name) for name in RECIPES if name != "numpy"])
def adapter(session: nox.Session, name: str) -> None:
    """One framework: its adapter's tests, the documents' programs for it, and the whole suite on it."""
    session.install("-e", ".[check]", *groups("test"))
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    python = session.run(
        "python",
        "-c",
        f"from gradclip_conformance.environments import make_environment as m; print(m({name!r}))",
        silent=True,
    )
    assert python is not None
    variable = "GRADCLIP_PYTHON_" + name.upper().replace("-", "_")
    session.env[variable] = python.strip()
    session.env["GRADCLIP_REQUIRE"] = name
    session.run("pytest", "tests/adapters", "tests/documents", "-m", f"framework_{name.replace('-', '_')}")
    session.run("gradclip", "check", name, "--python", python.strip(), *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and the idioms of Python 3.7 where the host needs it."""
    session.install(*groups("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """Types, strictly."""
    session.install("-e", ".[check]", *groups("test", "typing"))
    session.run("mypy", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build both distributions, and prove in a fresh environment that the wheel holds what it must."""
    session.install(*groups("build"))
    out = Path(session.create_tmp(), "dist").resolve()
    shutil.rmtree(out, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(out))
    (wheel,) = out.glob("*.whl")
    session.install(f"{wheel}[check]", "--force-reinstall", "--no-deps")
    session.install(f"{wheel}[check]")
    with session.chdir(session.create_tmp()):
        session.run("python", str(Path(__file__).with_name("tests") / "wheel_contents.py"), env={"PYTHONPATH": ""})
        session.run("gradclip", "smoke", "numpy", env={"PYTHONPATH": os.environ.get("NOTHING", "")})
