# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""One verb a session: `nox -s check -- torch paddle`, `nox -s tests`, `nox -l` for all of them."""

from __future__ import annotations

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
#: Whom the reference is measured against, and what that takes.
PEERS = {
    "numpy": [],
    "torch": ["torch==2.13.0"],
    "optax": ["jax>=0.6", "optax>=0.2.4"],
    "tensorflow": ["tensorflow-cpu>=2.16"],
    "paddle": ["paddlepaddle>=3.0"],
}
BACKENDS = PYPROJECT["tool"]["gradclip"]["backends"]


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


def python_with(session: nox.Session, name: str) -> str:
    """A Python that has a framework: the session's own, filled, or an environment of another version."""
    recipe = RECIPES[name]
    if "python" not in recipe:
        session.install(*recipe["requirements"])
        return str(Path(session.bin, "python"))
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    make = f"from gradclip_conformance.environments import make_environment; print(make_environment({name!r}))"
    made = session.run("python", "-c", make, silent=True)
    assert made is not None
    return made.strip()


@nox.session(default=False)
@nox.parametrize("name", [nox.param(name, id=name) for name in ("torch", "paddle", "paddle-fluid", "tensorflow")])
def adapter(session: nox.Session, name: str) -> None:
    """One framework: its adapter's tests, the documents' programs for it, and the whole suite on it."""
    session.install("-e", ".[check]", *groups("test"))
    python = python_with(session, name)
    session.env["GRADCLIP_PYTHON_" + name.upper().replace("-", "_")] = python
    # What is named here must be there: its absence is an error and not a skip.
    session.env["GRADCLIP_REQUIRE"] = name
    own_python = python == str(Path(session.bin, "python"))
    adapters = ["tests/adapters"] if own_python else []
    session.run(
        "pytest",
        *adapters,
        "tests/documents",
        "tests/conformance/test_reproduce.py",
        "tests/conformance/test_canaries.py",
    )
    if not own_python:
        # The adapter's own tests run in the framework's Python, which is too old for the rest.
        session.run(python, "-m", "pip", "install", "-q", "pytest<8", external=True)
        old = Path("tests", "adapters", f"test_{name.replace('-', '_')}.py")
        environment = {"PYTHONPATH": str(Path("adapters").resolve())}
        session.run(python, "-m", "pytest", "-p", "no:cacheprovider", str(old), env=environment, external=True)
    session.run("gradclip", "check", name, "--python", python, *session.posargs)


@nox.session(default=False)
@nox.parametrize("backend", [nox.param(name, id=name) for name in BACKENDS])
def spec(session: nox.Session, backend: str) -> None:
    """The reference on one array library: its tests, and the whole suite on it."""
    if backend == "cupy" and not shutil.which("nvidia-smi"):
        session.skip("not run: CuPy needs an NVIDIA GPU, and there is no nvidia-smi here")
    session.install("-e", ".[check,fast]", *groups("test"), *BACKENDS[backend])
    session.env["GRADCLIP_REQUIRE"] = backend
    session.run("pytest", "tests/spec", *session.posargs)
    if backend in ("sparse", "ndonnx"):
        # The suite has no adapter for them.
        return
    session.run("pytest", "tests/adapters/test_reference.py", *session.posargs)
    # A busy machine compiles a thousand gradients in longer than the time limit of a case.
    session.run("gradclip", "check", "numpy" if backend == "numpy" else f"reference-{backend}", "--timeout", "120")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure the reference beside its peers, each in an environment of its own, and print the table of ratios."""
    session.install("-e", ".[check]", *groups("bench"))
    # With `--plain`, without the extra.
    fast = [] if "--plain" in session.posargs else PYPROJECT["project"]["optional-dependencies"]["fast"]
    peers = [peer for peer in session.posargs if peer != "--plain"] or list(PEERS)
    results = []
    for peer in peers:
        # One environment after another: the peers' pins conflict, and they must not disturb each other.
        folder = FRAMEWORKS / f"bench-{peer}"
        python = str(folder / "bin" / "python")
        if not folder.exists():
            session.run("python", "-m", "venv", str(folder))
        session.run(
            python, "-m", "pip", "install", "-q", "-e", ".", *groups("bench"), *PEERS[peer], *fast, external=True
        )
        result = Path(session.create_tmp(), f"{peer}.json")
        # fmt: off
        session.run(
            python, "-m", "pytest", f"benchmarks/test_against_{peer}.py", "-q", "-p", "no:cacheprovider",
            "-o", "addopts=", "-o", "timeout=", f"--benchmark-json={result}", "--benchmark-columns=median,iqr,rounds",
            external=True,
        )
        # fmt: on
        results.append(str(result))
    session.run("python", "benchmarks/table.py", "reports/published/benchmarks", *results)


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """The suite's own exam: wrong clippers, right ones, misbehaving hosts, canaries; its score in reports/published/.

    A variable such as GRADCLIP_PYTHON_TORCH names the Python of a framework whose canaries are to be in it.
    """
    session.install("-e", ".[check]", *groups("test"))
    arguments = session.posargs or ["-q", "-n", "2"]
    session.run("python", "tests/conformance/score.py", "reports/published", *arguments)


@nox.session(default=False)
def published(session: nox.Session) -> None:
    """Check all frameworks, each in an environment of its own, and write the records to reports/published/."""
    session.install("-e", ".[check]")
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    names = session.posargs or ["numpy", "torch", "paddle", "paddle-fluid", "tensorflow"]
    # 1 says that something is not as expected: a result like any other here.
    session.run("gradclip", "check", *names, "--venv", "-o", "reports/published/", success_codes=[0, 1])


@nox.session(default=False)
def accuracy(session: nox.Session) -> None:
    """Measure how accurate all frameworks are, each in an environment of its own; the table in reports/published/."""
    session.install("-e", ".[check]")
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    names = session.posargs or ["numpy", "torch", "paddle", "paddle-fluid", "tensorflow"]
    session.run("gradclip", "accuracy", *names, "--venv", "--largest", str(10**7), "-o", "reports/published/accuracy")


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Make the README's matrix from the published records; with `--check`, fail when it is stale."""
    session.install("-e", ".[check]")
    session.run("python", "reports/published/update_readme.py", *session.posargs)


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
        session.run("gradclip", "smoke", "numpy", env={"PYTHONPATH": ""})
