"""Make valid documents as starting points for changes. The suite itself writes them, so they follow its format."""

from __future__ import annotations

import copy
import functools
import io
import json
import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Reply
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.lines import make_strict
from gradclip_reports.records import Footer, Run, hash_plan, read_runs, write_run

from .changes import Change, Path, apply_changes, find, list_paths, write_json
from .drawings import check_drawings
from .texts import draw_attacks

#: The adapters whose records are changed: a framework, a plain function, and an adapter in a file.
RECORDS = {
    "torch": (
        ("torch.nn.utils.clip_grad_norm_[foreach=True]", "clip_by_global_norm"),
        ("torch.nn.utils.clip_grad_value_[foreach=False]", "clip_by_value"),
        ("torch.nn.utils.clip_grad_norm_ then torch.optim.SGD", "clip_by_global_norm"),
    ),
    "my_module:clip": (("my_module:clip", "clip_by_global_norm"),),
    "my_adapter.py": (("my entry point", "clip_by_norm"),),
}
FEATURES = ("excludes", "none_grads", "returns_norm", "error_if_nonfinite", "norm_type")
#: Rules of every kind: values, a norm, a refusal, an error, a relation, a form.
RULES = (
    "*.scaled-above/three-four-five/float32",
    "value.bounds/max-only/float32",
    "*.negative-threshold-refused/*/float32",
    "*.nan-not-silent/*/float32",
    "*.returned-norm/three-four-five/float32",
    "*.twice-is-once/*/float32",
    "*.splitting-and-joining/*/float32",
    "*.none-stays-none/*/float32",
    "*.excluded-untouched/*/float32",
    "*.dtype-kept/*/float32",
)
#: The members of header, cells and findings whose texts are shown to people.
SHOWN = frozenset(
    (
        *("adapter", "framework", "suite", "environment", "subject", "rule", "case", "theme", "detail", "expected"),
        *("observed", "input", "quote", "url", "cause", "title", "question", "why", "parameters", "example", "reason"),
    )
)


class Halving(Adapter):
    """An adapter of invented entry points that return half of each gradient: scripts can show this failure."""

    def __init__(self, names: Sequence[tuple[str, str]], framework: str = "fuzzed") -> None:
        self._entry_points = [EntryPoint(*each, ("float32",), FEATURES, (1.0, 2.0)) for each in names]
        self._about = About(framework, "1.0", {"device": "cpu"})

    def about(self) -> About:
        return self._about

    def subjects(self) -> Sequence[EntryPoint]:
        return self._entry_points

    def call(self, call: Call) -> Reply:
        given = tuple(each.array for each in call.gradients)
        halves = tuple(None if array is None else Array.of(array.numpy() * np.float32(0.5)) for array in given)
        return Reply(halves, norm=Array.of(np.ones((), np.float32)), inputs=given)


def list_first_cases(operation: str, patterns: Sequence[str] = RULES) -> list[Case]:
    cases = [case for case in list_all_cases() if case.operation == operation]
    found = [next((case for case in cases if Selection(rules=(pattern,)).holds(case)), None) for pattern in patterns]
    return [case for case in found if case is not None]


@functools.cache
def _make_record(adapter: str) -> tuple[Any, ...]:
    """Return a header, one cell for each rule and entry point, and the findings."""
    cases = {case.id for _, operation in RECORDS[adapter] for case in list_first_cases(operation)}
    stream, halving = io.StringIO(), Halving(RECORDS[adapter], adapter.partition(":")[0])
    request = RunRequest(
        adapter, lambda: InProcess(halving), Selection(cases=tuple(cases)), command=["check", adapter], seed=7
    )
    write_run(stream, run_adapter(request))
    return tuple(map(json.loads, stream.getvalue().splitlines()))[:-1]


def read_record(adapter: str) -> list[Any]:
    """Return the lines of a record without its footer."""
    return copy.deepcopy(list(_make_record(adapter)))


def draw_renames(lines: Sequence[Any], most: int) -> SearchStrategy[list[Change]]:
    """Draw attacks that replace texts which are shown to people, wherever these texts occur."""
    places: dict[tuple[str, str], list[Path]] = {}
    for path in list_paths(lines):
        if len(path) > 1 and path[1] in SHOWN and isinstance(find(lines, path), str):
            places.setdefault((lines[path[0]]["record"], path[1]), []).append(path)
    paths = st.sampled_from(list(places.values())).flatmap(st.sampled_from)
    return st.lists(st.tuples(paths, st.just("rename"), draw_attacks()), min_size=1, max_size=most)


def write_record(lines: Sequence[Any], changes: Sequence[Change] = (), *, agrees: bool = True) -> str:
    """Return the text of a changed record. `agrees` says whether the footer counts the changed cells."""
    changed = apply_changes(list(lines), changes)
    if not isinstance(changed, list) or not changed:
        return write_json(changed)
    counted = changed if agrees else lines
    cells = [line for line in counted[1:] if isinstance(line, dict) and line.get("record") != "finding"]
    pairs = [(str(cell.get("subject")), str(cell.get("case"))) for cell in cells]
    footer = Footer(
        planned=len(pairs),
        finished=len(pairs),
        counts=dict(Counter(str(cell.get("status")) for cell in cells)),
        plan_sha256=hash_plan([tuple(make_strict(pair)) for pair in pairs]),
    )
    return "\n".join(map(write_json, [*changed, footer.to_json()])) + "\n"


def check_run(connection: InProcess, adapter: str, selection: Selection) -> Run:
    stream = io.StringIO()
    write_run(stream, run_adapter(RunRequest(adapter, lambda: connection, selection)))
    path = pathlib.Path("run.jsonl")
    path.write_text(stream.getvalue(), encoding="utf-8")
    (run,) = read_runs(path)
    assert len(run.cells) == run.footer.planned
    check_drawings([run])
    return run
