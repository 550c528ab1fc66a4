"""Fuzz with a real process that plays a host. Whatever it does, each cell gets a status, and the record is whole."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import strategies as st

from gradclip_adapters import wire
from gradclip_adapters.host import describe
from gradclip_conformance.cli import gradclip
from gradclip_conformance.judge.model import StartError
from gradclip_conformance.run.host_process import HostProcess
from gradclip_conformance.run.plan import Selection

from ..connections import check_run, list_cases_like
from ..documents import Halving
from ..drawings import check_text
from ..guards import enter_folder
from ..mutation import change, draw_changes, write_text
from ..target import Target, require
from ..texts import draw_mostly, draw_texts

PROGRAM = Path(__file__).parents[2] / "scripted_host.py"
ADAPTER = Halving([("clip", "clip_by_norm")])
CASES = list_cases_like(
    "norm.scaled-above/three-four-five/float32", "norm.identity-below/*/float32", "norm.none-stays-none/*/float32"
)
RIGHT = [describe(ADAPTER)] + [
    wire.encode_reply(ADAPTER.call(case.call("clip")), number) for number, case in enumerate(CASES, start=1)
]
#: Time limits in seconds of a call and a start: short, because many hosts hang.
CALL_SECONDS, START_SECONDS = 2.0, 5.0

_mischief = st.one_of(
    st.tuples(st.just("say"), draw_texts()),
    st.tuples(st.just("say"), st.just("\n")),
    st.tuples(st.just("bytes"), st.binary(max_size=20).map(bytes.hex)),
    st.tuples(st.just("mutter"), draw_texts()),
    st.tuples(st.just("flood"), st.sampled_from((1, 80))),
    st.tuples(st.just("flood standard error"), st.sampled_from((1, 80))),
    st.tuples(st.just("end"), st.sampled_from((0, 1, 3, 255))),
    st.tuples(st.just("signal"), st.sampled_from((6, 9, 11, 15))),
    st.tuples(st.just("close"), st.sampled_from((0, 1, 2))),
    draw_mostly(st.just(("hang", 0.01)), st.just(("hang", 3600))),
).map(list)

_acts = st.tuples(
    *(
        st.fixed_dictionaries(
            {
                "changes": st.just([]) | draw_changes(document, largest=1),
                "before": draw_mostly(st.just([]), st.lists(_mischief, max_size=2)),
                "after": draw_mostly(st.just([]), st.lists(_mischief, max_size=2)),
            }
        )
        for document in RIGHT
    ),
).map(list)
EXAMPLES = st.fixed_dictionaries({"acts": _acts, "command": st.booleans()})


def check(example: Any) -> None:
    """Run three cases against a host that follows the script of an example."""
    script = []
    for document, one in zip(RIGHT, example["acts"], strict=True):
        line = write_text(change(document, one["changes"])) + "\n"
        script.append([*one["before"], ["say", line], *one["after"]])
    with enter_folder() as place:
        path = place / "script.json"
        path.write_text(json.dumps(script), encoding="utf-8")
        command = [sys.executable, "-I", "-S", str(PROGRAM), str(path)]
        if example["command"] and not any(what == "hang" for what, _ in script[0]):
            _check_command(command)
        else:
            _check_host(command)


def _check_command(command: list[str]) -> None:
    """Start the host by `gradclip check`, which also shows the description of the host."""
    rules = [word for case in CASES for word in ("--rule", case.id)]
    done = CliRunner().invoke(
        gradclip, ["check", "host", "--command", shlex.join(command), "--timeout", str(CALL_SECONDS), *rules]
    )
    require(isinstance(done.exception, SystemExit | None), f"`gradclip check` raised {done.exception!r}")
    require(done.exit_code in (0, 1, 3), f"`gradclip check` gives exit code {done.exit_code}: {done.stderr[-500:]}")
    check_text(done.stdout, "standard output")
    check_text(done.stderr, "standard error")


def _check_host(command: list[str]) -> None:
    try:
        host = HostProcess(command, start_seconds=START_SECONDS)
    except StartError as error:
        require(str(error) or error.kind, "a host does not start, and nothing says why")
        return
    try:
        run = check_run(host, "fuzzed", Selection(cases=tuple(case.id for case in CASES)), timeout=CALL_SECONDS)
    finally:
        host.close()
    for cell in run.cells:
        blamed = cell.status == "error" and "suite" in cell.detail
        require(not blamed, f"an error of the suite itself: {cell.detail[-1500:]}")


TARGET = Target(EXAMPLES, check)
