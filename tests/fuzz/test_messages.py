"""Fuzz the messages between the suite and a host: greetings, calls, answers, and what a process writes beside them."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fuzzing.changes import Change, apply_changes, draw_changes, write_json
from fuzzing.documents import Halving, check_run, list_first_cases
from fuzzing.drawings import check_reason, check_text
from fuzzing.guards import FUZZ, isolate
from fuzzing.same import Same
from fuzzing.texts import draw_mostly, draw_texts
from hypothesis import example, given
from hypothesis import strategies as st

from gradclip_adapters import host, wire
from gradclip_adapters.contract import OPERATIONS, Array, Call
from gradclip_adapters.recipes import Recipe, expand
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.cli import gradclip
from gradclip_conformance.judge.model import Answer, Description, Mistaken, StartError
from gradclip_conformance.run.host_process import HostProcess
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.messages import read_answer, read_message
from gradclip_conformance.run.plan import Selection
from gradclip_reports.records import read_runs

# The first line of a host.

GREETINGS = {
    "about": host.describe(Halving([(f"entry point {operation}", operation) for operation in OPERATIONS])),
    "failed": {"message": "failed", "kind": "missing-framework", "text": "no such module"},
}
FEW = Selection(rules=("*.scaled-above/three-four-five/float32", "value.bounds/max-only/float32"))


def read_description(line: str) -> Description:
    """Return the description that the suite reads from the first line of a host, without a process."""
    return HostProcess._parse_description(SimpleNamespace(_end=lambda: None), line)  # type: ignore[arg-type]


@FUZZ
@given(st.sampled_from(sorted(GREETINGS)).flatmap(lambda name: st.tuples(st.just(name), draw_changes(GREETINGS[name]))))
@example(("about", [(("subjects", 0, "name"), "rename", "|a|b|")])).via("markup in the name of an entry point")
@example(("about", [(("subjects", 0, "features", 0), "repeat", 5000)])).via("the reason had 90,538 characters")
def test_greeting_is_refused_with_a_reason_or_describes_a_host(drawn: tuple[str, list[Change]]) -> None:
    name, changes = drawn
    try:
        description = read_description(write_json(apply_changes(GREETINGS[name], changes)))
    except StartError as error:
        # The text of a message `failed` is the host's own.
        check_reason(error.kind if name == "failed" else str(error))
        return
    connection = InProcess(Halving([]))
    connection.description = description
    with isolate():
        check_run(connection, "fuzzed", FEW)


# The calls of the suite.


def make_call() -> Call:
    """Return a call in which each member of a gradient occurs."""
    arrays = [Array.of(np.array([3.0, 4.0], np.float32)), Array.of(np.array([[1.0]], np.float32)), None]
    first, second, missing = (
        replace(make_tensor([1.0], "float32"), name=f"g{place}", array=array, need_clip=place != 1)
        for place, array in enumerate(arrays)
    )
    recipe = Recipe("numbers", 7)
    made = replace(first, array=Array("float32", (2,), expand(recipe, "float32", (2,)), recipe), group=1)
    sparse = replace(second, rows=(1,), height=3, layout="strided", cotangent=second.array)
    gradients = (first, sparse, missing, made, replace(second, same_as=1))
    return Call("clip", gradients, {"clip_norm": 1.0, "error_if_nonfinite": False})


CALL = wire.encode_call(make_call(), 1, by_recipe=True)


@FUZZ
@given(draw_changes(CALL))
@example([(("number",), "set", 0)]).via("the host answered a call of the number 0, which no message may have")
@example([(("gradients", 0, "array", "dtype"), "set", False)]).via("the host sent a dtype that is no text")
def test_call_is_refused_with_a_reason_or_answered(changes: list[Change]) -> None:
    line = write_json(apply_changes(CALL, changes))
    try:
        message = host.read_request(line)
    except ValueError as error:
        check_reason(str(error))
        return
    if message is not None:
        read_message(wire.dumps(host.answer(Same(), message)))


# The answers of a host.

HALVING = Halving([("clip", "clip_by_global_norm")])
CASES = list_first_cases("clip_by_global_norm")


def make_answer(kind: str, call: Call, number: int) -> dict[str, Any]:
    if kind == "reply":
        reply = HALVING.call(call)
        return {**wire.encode_reply(reply, number), "same_object": [False] * len(reply.gradients)}
    members: dict[str, Any] = {"message": kind, "number": number, "text": "why"}
    inputs = wire.encode_arrays(tuple(each.array for each in call.gradients))
    return members | ({"kind": "E", "inputs": inputs} if kind == "raised" else {})


@pytest.mark.thorough(sample=0)
@FUZZ
@given(
    st.tuples(
        st.sampled_from(range(len(CASES))),
        st.sampled_from(("reply", "reply", "reply", "raised", "unsupported", "mistake")),
    ).flatmap(
        lambda chosen: st.tuples(
            *map(st.just, chosen), draw_changes(make_answer(chosen[1], CASES[chosen[0]].call("clip"), 1))
        )
    )
)
@example((0, "reply", [(("gradients", 0, "dtype"), "rename", "0x1p+99999")])).via("OverflowError")
@example((2, "reply", [(("norm", "dtype"), "set", "9" * 5000)])).via("the record had a name of 5,000 characters")
def test_answer_is_judged_without_an_error(drawn: tuple[int, str, list[Change]]) -> None:
    place, kind, changes = drawn
    answers: list[Answer] = []

    def answer(call: Call) -> Answer:
        number = len(answers) + 1
        line = write_json(apply_changes(make_answer(kind, call, number), changes))
        answers.append(read_answer(line, number, call))
        return answers[-1]

    connection = InProcess(HALVING)
    connection.ask = lambda call, timeout: answer(call)  # type: ignore[method-assign]
    with isolate():
        (cell,) = check_run(connection, "fuzzed", Selection(cases=(CASES[place].id,))).cells
    assert cell.status != "error" or any(isinstance(one, Mistaken) for one in answers), cell.detail[-1500:]


# A process that writes anything.

#: A host that writes given bytes to standard output and standard error for each line that it reads, and may then exit.
HOST = """
import json, os, sys
for line, (out, err, code) in zip(sys.stdin, json.load(open(sys.argv[1]))):
    os.write(2, bytes.fromhex(err)), os.write(1, bytes.fromhex(out))
    if code is not None:
        os._exit(code)
"""
ASKED = list_first_cases("clip_by_norm", ("*.scaled-above/three-four-five/*", "*.none-stays-none/*/float32"))
CLIPS = Halving([("clip", "clip_by_norm")])
RIGHT = [
    host.describe(CLIPS),
    *(wire.encode_reply(CLIPS.call(case.call("clip")), number) for number, case in enumerate(ASKED, start=1)),
]
_bytes = st.binary(max_size=20) | draw_texts().map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.mark.thorough(sample=0)
@FUZZ
@given(
    st.tuples(
        *(
            st.tuples(
                draw_mostly(st.just([]), draw_changes(message, most=1)),
                draw_mostly(st.just(b""), _bytes),
                _bytes,
                draw_mostly(st.none(), st.sampled_from((0, 1, 3, 255))),
            )
            for message in RIGHT
        )
    )
)
def test_process_that_writes_anything_is_reported(
    drawn: tuple[tuple[list[Change], bytes, bytes, int | None], ...],
) -> None:
    acts = []
    for message, (changes, before, errors, code) in zip(RIGHT, drawn, strict=True):
        line = write_json(apply_changes(message, changes)) + "\n"
        acts.append(((before + line.encode("utf-8", "surrogatepass")).hex(), errors.hex(), code))
    with isolate() as folder:
        (folder / "acts.json").write_text(json.dumps(acts), encoding="utf-8")
        command = shlex.join([sys.executable, "-I", "-S", "-c", HOST, str(folder / "acts.json")])
        rules = [word for case in ASKED for word in ("--rule", case.id)]
        done = CliRunner().invoke(
            gradclip, ["check", "host", "--command", command, "--timeout", "2", "-o", "r.jsonl", *rules]
        )
        cells = read_runs(Path("r.jsonl"))[0].cells if Path("r.jsonl").exists() else ()
    assert isinstance(done.exception, SystemExit | None)
    assert done.exit_code in (0, 1, 3), done.stderr[-500:]
    check_text(done.stdout)
    check_text(done.stderr)
    assert not [cell.detail for cell in cells if cell.status == "error" and "suite" in cell.detail]
