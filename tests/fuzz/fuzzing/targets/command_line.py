"""Fuzz the command line: any arguments and files give a documented exit code and text, never a traceback."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_conformance.cli import gradclip

from .. import same
from ..documents import add_footer, read_lines
from ..drawings import check_text
from ..guards import enter_folder
from ..mutation import write_text
from ..target import Target, require
from ..texts import draw_mostly, draw_texts

#: One cheap case, because the checks themselves do not matter here.
NARROW = ["--rule", "norm.scaled-above/three-four-five/float32"]
#: The escape codes with which the command makes names bold and statuses red or green.
_OWN_STYLES = re.compile(r"\x1b\[(?:0|1|31|32)m")
EXIT_CODES = (0, 1, 2, 3)

_FUNCTION = "def clip(grads, *, clip_norm):\n    return grads\n"
FILES = {
    "good.py": Path(same.__file__).read_text(encoding="utf-8"),
    "functions.py": _FUNCTION,
    "raises.py": "raise ValueError('\x1b[31mno')\n",
    "exits.py": "raise SystemExit(7)\n",
    "syntax.py": "def (\n",
    "empty.py": "",
    "needs.py": "import no_such_framework\n",
    "good.expectations.toml": "",
    "record.jsonl": "\n".join(map(write_text, read_lines("my_adapter.py"))) + "\n",
    "empty.jsonl": "",
    "no_cells.jsonl": "\n".join(map(write_text, add_footer(read_lines("torch")[:1]))) + "\n",
    "folder/other.jsonl": "\n".join(map(write_text, read_lines("my_module:clip"))) + "\n",
}
_paths = st.sampled_from((*FILES, "folder", "folder/", "missing", "missing/x/y", ".", "", "/dev/null", "/dev/full"))
_targets = st.sampled_from(
    (
        "good.py",
        "./good.py",
        "raises.py",
        "exits.py",
        "syntax.py",
        "empty.py",
        "needs.py",
        "functions:clip",
        "functions:none",
        "no.module:f",
        ":",
        "numpy:sqrt",
        "os:getcwd",
        "torch",
        "tensorflow",
        "missing.py",
        "a:b:c",
    )
)
_commands = st.sampled_from(
    (
        "true",
        "false",
        "cat",
        "echo hi",
        "sh -c 'exit 7'",
        "'",
        "",
        "no-such-program",
        f"{sys.executable} -c 'print(1)'",
        "printf '\\033[31m'",
        "/",
        "sh -c 'echo x >&2; kill -9 $$'",
    )
)
_names = st.sampled_from(("norm.scaled-above", "norm.scaled-above/three-four-five/float32", "*.zero*", "no-such-rule"))
_numbers = st.sampled_from(("0", "1", "2", "-1", "nan", "inf", "1e400", "0.5", "2147483648", "9" * 5000, "x"))

#: Values of each option, without those that make environments or take minutes.
_VALUES: dict[str, SearchStrategy[str]] = {
    "--op": st.sampled_from(("clip_by_norm", "clip_by_global_norm", "clip")),
    "--dtype": st.sampled_from(("float32", "bfloat16", "int8")),
    "--python": st.sampled_from((sys.executable, "no-such-python", "good.py=" + sys.executable, "/", "a=b")),
    "--command": _commands,
    "--rule": _names,
    "--jobs": st.sampled_from(("1", "2", "0", "x")),
    "--timeout": _numbers,
    "--seed": _numbers,
    "-o": _paths,
    "--format": st.sampled_from(("terminal", "json", "markdown", "junit", "html")),
    "--subject": st.sampled_from(("", "my", "other")),
    "--fail-on": st.sampled_from(("wrong", "destroyed,unclipped", ",", "terrible")),
    "--largest": st.sampled_from(("100", "99", "x")),
}
_VERBS: dict[str, tuple[SearchStrategy[str], tuple[str, ...]]] = {
    "check": (
        _targets,
        ("--op", "--dtype", "--python", "--command", "--jobs", "--timeout", "--seed", "-o", "--format"),
    ),
    "smoke": (_targets, ("--op", "--dtype", "--python", "--command")),
    "accuracy": (st.sampled_from(("good.py", "raises.py", "missing.py")), ("--op", "--dtype", "-o", "--largest")),
    "summary": (_paths, ("--format",)),
    "diff": (_paths | _paths.map("{}:clip".format) | _targets, ("--dtype", "--format", "--fail-on", "--python")),
    "repro": (_paths | _names, ("--subject", "-o")),
    "show": (_names, ()),
    "rules": (_names, ()),
    "adapters": (_names, ()),
    "expectations update": (_paths, ()),
    "expectations drift": (_targets, ("--python",)),
}


def _draw_arguments(verb: str) -> SearchStrategy[list[str]]:
    operands, options = _VERBS[verb]
    option = st.sampled_from(options or ("--help",)).flatmap(
        lambda name: st.tuples(st.just(name), draw_mostly(_VALUES.get(name, _names), draw_texts())).map(list)
    )
    operand = draw_mostly(operands, draw_texts()).map(lambda text: [text])
    words = st.lists(draw_mostly(operand | option, draw_texts().map(lambda text: [text])), max_size=4)
    return words.map(lambda groups: [*verb.split(), *(word for group in groups for word in group)])


EXAMPLES = draw_mostly(st.sampled_from(sorted(_VERBS)).flatmap(_draw_arguments), st.lists(draw_texts(), max_size=3))


def check(example: Any) -> None:
    """Run the command with some arguments in a folder with some files."""
    arguments = [*map(str, example)]
    if "--venv" in arguments or any(_starts_anything(word) for word in arguments) or _writes_elsewhere(arguments):
        return
    if arguments[:1] == ["check"]:
        arguments = [arguments[0], *NARROW, *arguments[1:]]
        # Without a name, the command would check all installed frameworks.
        arguments += ["good.py"] if len(arguments) == 3 else []
    if arguments[:1] == ["accuracy"]:
        # The command adds endings to the name: it writes NAME.json and NAME.md.
        arguments = [word for word in arguments if not word.startswith("/dev")]
        arguments = ["accuracy", "--largest", "100", *arguments[1:]]
        arguments += ["good.py"] if len(arguments) == 3 else []
    with enter_folder() as place, _write_files(place), mock.patch.object(sys, "argv", ["gradclip", *arguments]):
        # Use colours, because without colours click removes some escape codes.
        done = CliRunner().invoke(gradclip, arguments, color=True)
    require(isinstance(done.exception, SystemExit | None), f"`gradclip` raised {done.exception!r}")
    require(done.exit_code in EXIT_CODES, f"exit code {done.exit_code}")
    for text, where in ((done.stdout, "standard output"), (done.stderr, "standard error")):
        check_text(_OWN_STYLES.sub("", text), where)
        require("Traceback" not in text, f"{where} holds a traceback: {text[-1500:]}")


def _starts_anything(word: str) -> bool:
    """Return whether a random text names a program. No program may run by chance."""
    return word.startswith("--v") or (word.startswith(("--command=", "--com", "--c")) and "=" in word)


def _writes_elsewhere(arguments: Sequence[str]) -> bool:
    """Return whether the arguments say where to write, and name a place outside the example's folder."""
    named = [word for before, word in itertools.pairwise(arguments) if before == "-o"]
    named += [word.removeprefix("-o") for word in arguments if word.startswith("-o")]
    return any(
        ".." in Path(word).parts or (Path(word).is_absolute() and word not in ("/dev/null", "/dev/full"))
        for word in named
    )


@contextlib.contextmanager
def _write_files(place: Path) -> Iterator[None]:
    for name, text in FILES.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # Commands that choose a folder by themselves write here.
    with mock.patch.dict(os.environ, {"GRADCLIP_VENVS": str(place / "venvs"), "HOME": str(place)}):
        yield


TARGET = Target(EXAMPLES, check)
