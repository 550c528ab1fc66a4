"""Fuzz the command line: any arguments and files give a documented exit code and text, never a traceback."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import click
import pytest
from click.testing import CliRunner
from fuzzing import same
from fuzzing.documents import read_record, write_record
from fuzzing.drawings import check_text
from fuzzing.guards import FUZZ, isolate
from fuzzing.texts import draw_mostly, draw_texts
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_conformance.cli import gradclip

#: One cheap case, and short arrays, because the checks themselves do not matter here.
NARROW = {"check": ["--rule", "norm.scaled-above/three-four-five/float32"], "accuracy": ["--largest", "100"]}
#: Options that take minutes, make environments, or write into the repository.
LEFT_OUT = frozenset(("--venv", "--deep", "--rows", "--quick", "--update"))
#: The escape codes with which the command makes names bold and statuses red or green.
OWN_STYLES = re.compile(r"\x1b\[(?:0|1|31|32)m")

FILES = {
    "good.py": Path(same.__file__).read_text(encoding="utf-8"),
    "functions.py": "def clip(grads, *, clip_norm):\n    return grads\n",
    "raises.py": "raise ValueError('\x1b[31mno')\n",
    "exits.py": "raise SystemExit(7)\n",
    "syntax.py": "def (\n",
    "empty.py": "",
    "needs.py": "import no_such_framework\n",
    "good.expectations.toml": "",
    "record.jsonl": write_record(read_record("my_adapter.py")),
    "empty.jsonl": "",
    "no_cells.jsonl": write_record(read_record("torch")[:1]),
    "folder/other.jsonl": write_record(read_record("my_module:clip")),
}
RECORDS = ("record.jsonl", "folder/other.jsonl", "no_cells.jsonl")
PATHS = (*RECORDS, *FILES, "folder", "folder/", "missing", "missing/x/y", ".", "", "/dev/null", "/dev/full")
FAULTY = ("functions:none", "no.module:f", ":", "a:b:c", "numpy:sqrt", "os:getcwd", "raises.py", "exits.py", "empty.py")
PROGRAMS = (
    *("true", "false", "cat", "echo hi", "sh -c 'exit 7'", "'", "", "no-such-program", "printf '\\033[31m'"),
    *(f"{sys.executable} -c 'print(1)'", "sh -c 'echo x >&2; kill -9 $$'", sys.executable, f"good.py={sys.executable}"),
)
NAMES = ("norm.scaled-above", NARROW["check"][1], "*.zero*", "no-such-rule", "my", "wrong", "destroyed,unclipped", ",")
NUMBERS = ("0", "1", "2", "-1", "nan", "inf", "1e400", "0.5", "2147483648", "x", "9" * 5000)
#: Usual values of parameters that take any text.
USUAL = {
    **dict.fromkeys(
        ("adapters", "adapter"), (*FAULTY, "good.py", "./good.py", "functions:clip", "torch", "tensorflow")
    ),
    # No adapter that works: it would be asked every case.
    **dict.fromkeys(("first", "second"), (*FAULTY, *RECORDS, "record.jsonl:clip", "folder/other.jsonl:clip")),
    **dict.fromkeys(("--python", "--command"), PROGRAMS),
    **dict.fromkeys(("-o", "--resume"), PATHS),
}


def list_commands(command: click.Command, words: Sequence[str] = ()) -> Iterator[tuple[Sequence[str], click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from list_commands(inner, (*words, name))
    else:
        yield words, command


def draw_values(parameter: click.Parameter) -> SearchStrategy[str]:
    usual: Sequence[str] = USUAL.get(parameter.opts[0], NAMES)
    if isinstance(parameter.type, click.Choice):
        usual = (*parameter.type.choices, "other")
    elif isinstance(parameter.type, click.Path):
        usual = PATHS
    elif isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
        usual = NUMBERS
    return draw_mostly(st.sampled_from(usual), draw_texts())


def draw_arguments(words: Sequence[str], command: click.Command) -> SearchStrategy[list[str]]:
    operands = [draw_values(one) for one in command.params if isinstance(one, click.Argument)]
    options = [
        st.tuples(st.sampled_from(one.opts), *([] if one.is_flag else [draw_values(one)]))
        for one in command.params
        if isinstance(one, click.Option) and LEFT_OUT.isdisjoint(one.opts)
    ]
    groups = st.tuples(
        st.tuples(*operands),
        st.lists(st.one_of(options or [st.just(("--help",))]), max_size=2).map(lambda pairs: itertools.chain(*pairs)),
        draw_mostly(st.just(()), st.tuples(draw_texts())),
    )
    return groups.map(lambda parts: [*words, *itertools.chain(*parts)])


def leads_elsewhere(word: str) -> bool:
    """Tell whether a command could write to a place outside the example's folder because of a random word."""
    path = Path(word.removeprefix("-o"))
    known = word in PATHS or word in PROGRAMS
    return not known and (".." in path.parts or path.is_absolute())


@pytest.mark.thorough(sample=0)
@FUZZ
@given(
    draw_mostly(
        st.sampled_from(list(list_commands(gradclip))).flatmap(lambda one: draw_arguments(*one)),
        st.lists(draw_texts(), max_size=3),
    )
)
@example(["accuracy", "good.py", "-o", "."]).via("ValueError: an empty name")
@example(["expectations", "drift", ""]).via("ValueError: '' is not the name of an adapter")
@example(["expectations", "update", "\ud800"]).via("UnicodeEncodeError")
@example(["adapters", "\x1b[31mred\x1b]0;title\x07"]).via("standard error showed an escape sequence of an argument")
def test_arguments_give_an_exit_code_and_text(drawn: list[str]) -> None:
    verb, words = "".join(drawn[:1]), drawn[1:]
    # The command `accuracy -o NAME` writes NAME.json and NAME.md.
    if any(map(leads_elsewhere, drawn)) or (verb == "accuracy" and any(word.startswith("/dev") for word in words)):
        return
    drawn = [*drawn[:1], *NARROW.get(verb, ()), *words]
    with isolate() as folder:
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        # Commands that choose a folder by themselves write here.
        homes = {"GRADCLIP_VENVS": str(folder / "venvs"), "HOME": str(folder)}
        with mock.patch.dict(os.environ, homes), mock.patch.object(sys, "argv", ["gradclip", *drawn]):
            # Use colours, because without colours click removes some escape codes.
            done = CliRunner().invoke(gradclip, drawn, color=True)
    assert isinstance(done.exception, SystemExit | None)
    assert done.exit_code in (0, 1, 2, 3)
    for text in (done.stdout, done.stderr):
        check_text(OWN_STYLES.sub("", text))
        assert "Traceback" not in text
