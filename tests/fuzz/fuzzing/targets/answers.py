"""Fuzz the answers of a host. The suite reads or refuses each answer, judges it without an error, and reports it."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from gradclip_adapters import wire
from gradclip_adapters.contract import Call, Unsupported
from gradclip_conformance.judge.model import Answer, Description, Mistaken
from gradclip_conformance.run.plan import Selection

from ..connections import Connected, check_run, list_cases_like, understand
from ..documents import Halving
from ..guards import enter_folder
from ..mutation import change, draw_changes, write_text
from ..target import Target, require

OPERATION = "clip_by_global_norm"
CASES = list_cases_like(
    "global-norm.scaled-above/three-four-five/float32",
    "global-norm.identity-below/*/float32",
    "global-norm.negative-threshold-refused/*/float32",
    "global-norm.nan-not-silent/*/float32",
    "global-norm.returned-norm/*/float32",
    "global-norm.twice-is-once/*/float32",
    "global-norm.splitting-and-joining/*/float32",
    "global-norm.direction-kept/*/float32",
    "global-norm.none-stays-none/*/float32",
    "global-norm.dtype-kept/*/float32",
    "global-norm.shape-kept/*/float32",
    "global-norm.excluded-untouched/*/float32",
)
ADAPTER = Halving([("clip", OPERATION)])
KINDS = ("reply", "raised", "unsupported", "mistake")


def make_message(kind: str, call: Call, number: int) -> dict[str, Any]:
    """Return a valid message of a kind that answers a call."""
    try:
        reply = ADAPTER.call(call)
    except Unsupported:
        kind = "unsupported"
    if kind == "reply":
        return {**wire.encode_reply(reply, number), "same_object": [False] * len(reply.gradients)}
    members: dict[str, Any] = {"message": kind, "number": number, "text": "why"}
    return members | ({"kind": "E", "inputs": wire.encode_arrays(reply.inputs)} if kind == "raised" else {})


def _make_example(chosen: tuple[int, str]) -> Any:
    place, kind = chosen
    document = make_message(kind, CASES[place].call("clip"), 1)
    return st.fixed_dictionaries({"case": st.just(place), "kind": st.just(kind), "changes": draw_changes(document)})


EXAMPLES = st.tuples(st.sampled_from(range(len(CASES))), st.sampled_from(KINDS + ("reply",) * 3)).flatmap(_make_example)


@functools.cache
def _read_description() -> Description:
    return Description("fuzzed", "1.0", {"python": "3.11", "platform": "here"}, tuple(ADAPTER.subjects()))


def check(example: Any) -> None:
    """Answer each call of a case with a changed answer, and judge the answers that the suite can read."""
    case, answers = CASES[example["case"]], list[Answer]()

    def answer(call: Call) -> Answer:
        number = len(answers) + 1
        line = write_text(change(make_message(example["kind"], call, number), example["changes"]))
        answers.append(understand(line, number, call))
        return answers[-1]

    with enter_folder():
        run = check_run(Connected(_read_description(), answer), "fuzzed", Selection(cases=(case.id,)))
    (cell,) = run.cells
    blamed = cell.status == "error" and not any(isinstance(one, Mistaken) for one in answers)
    require(not blamed, f"an error of the suite itself: {cell.detail[-1500:]}")


TARGET = Target(EXAMPLES, check)
