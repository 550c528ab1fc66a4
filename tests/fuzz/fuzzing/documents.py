"""Make valid documents as starting points for changes. The suite itself writes them, so they follow its format."""

from __future__ import annotations

import copy
import functools
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Reply
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.lines import make_strict
from gradclip_reports.records import Footer, hash_plan

__all__ = ["FEATURES", "Halving", "add_footer", "list_subjects", "make_call", "read_lines"]

NAMES_OF = {
    "torch": (
        ("torch.nn.utils.clip_grad_norm_[foreach=True]", "clip_by_global_norm"),
        ("torch.nn.utils.clip_grad_value_[foreach=False]", "clip_by_value"),
        ("torch.nn.utils.clip_grad_norm_ then torch.optim.SGD", "clip_by_global_norm"),
    ),
    "tensorflow": (("tf.clip_by_norm", "clip_by_norm"), ("tf.clip_by_global_norm", "clip_by_global_norm")),
    "paddle": (("paddle.nn.ClipGradByValue", "clip_by_value"), ("paddle.nn.ClipGradByNorm", "clip_by_norm")),
    "my_module:clip": (("my_module:clip", "clip_by_global_norm"),),
    "my_adapter.py": (("my subject", "clip_by_norm"),),
}
FEATURES = ("excludes", "none_grads", "returns_norm", "error_if_nonfinite", "norm_type")
#: A few cases of every kind: values, a norm, a refusal, an error, a relation, a form.
RULES = (
    "*.scaled-above/three-four-five/float32",
    "value.bounds/max-only/float32",
    "*.negative-threshold-refused/*/float32",
    "*.nan-not-silent/*/float32",
    "*.returned-norm/three-four-five/float32",
    "*.twice-is-once/*/float32",
    "*.none-stays-none/*/float32",
    "*.excluded-untouched/*/float32",
    "*.dtype-kept/*/float32",
)


class Halving(Adapter):
    """An adapter of invented subjects that return half of each gradient: scripts can show this failure."""

    def __init__(self, names: Sequence[tuple[str, str]], framework: str = "fuzzed", version: str = "1.0") -> None:
        self._subjects = [EntryPoint(name, operation, ("float32",), FEATURES, (1.0, 2.0)) for name, operation in names]
        self._about = About(framework, version, {"device": "cpu"})

    def about(self) -> About:
        """Return the given description."""
        return self._about

    def subjects(self) -> Sequence[EntryPoint]:
        """Return a subject for each name."""
        return self._subjects

    def call(self, call: Call) -> Reply:
        """Return half of each gradient."""
        arrays = tuple(
            None if each.array is None else Array.of(each.array.numpy() * np.float32(0.5)) for each in call.gradients
        )
        return Reply(
            arrays, norm=Array.of(np.ones((), np.float32)), inputs=tuple(each.array for each in call.gradients)
        )


def list_subjects(adapter: str) -> Sequence[tuple[str, str]]:
    """Return the names and operations of an adapter's subjects."""
    return NAMES_OF[adapter]


@functools.cache
def _make_record(adapter: str) -> tuple[str, ...]:
    """Return the lines of a whole record of an adapter: a header, some cells of several statuses, a footer."""
    stream = io.StringIO()
    made = Halving(list_subjects(adapter), adapter.partition(":")[0])
    request = RunRequest(
        adapter,
        lambda: InProcess(made),
        Selection(rules=RULES),
        command=["check", adapter],
        seed=7,
    )
    run_adapter(request, stream)
    return tuple(stream.getvalue().splitlines())


@functools.cache
def _parse(adapter: str) -> tuple[Any, ...]:
    return tuple(map(json.loads, _make_record(adapter)))


def read_lines(adapter: str, *, whole: bool = False, findings: bool = False) -> list[Any]:
    """Return a record. By default, it has only one cell for each subject, rule and status."""
    header, *rest, footer = copy.deepcopy(_parse(adapter))
    cells = [line for line in rest if line["record"] == "cell"]
    if whole:
        return [header, *cells, footer]
    first = {(cell["subject"], cell["rule"], cell["status"], "deep-" in cell["case"]): cell for cell in cells[::-1]}
    kept = {(cell["subject"], cell["case"]): cell["status"] for cell in first.values()}
    found = [narrow_finding(line, kept) for line in rest if findings and line["record"] == "finding"]
    return add_footer([header, *first.values(), *(finding for finding in found if finding["cells"])])


def narrow_finding(finding: dict[str, Any], kept: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return a finding reduced to the cells that are kept, with counts that agree."""
    pairs = [(subject, case) for subject, cases in finding["cells"].items() for case in cases]
    pairs = [pair for pair in pairs if pair in kept]
    cells: dict[str, list[str]] = {}
    for subject, case in pairs:
        cells.setdefault(subject, []).append(case)
    rules = Counter(case.partition("/")[0] for _, case in pairs)
    statuses = dict(Counter(kept[pair] for pair in pairs))
    narrowed = {**finding, "cells": cells, "rules": dict(rules), "statuses": statuses}
    parts = [narrow_finding(part, kept) for part in narrowed.pop("parts", ())]
    held = [part for part in parts if part["cells"]]
    return {**narrowed, "parts": held} if len(held) > 1 else narrowed


def add_footer(lines: Sequence[Any]) -> list[Any]:
    """Return a header, cells and findings, with a footer that counts the cells."""
    cells = [line for line in lines[1:] if isinstance(line, dict) and line.get("record") != "finding"]
    pairs = [(str(cell.get("subject")), str(cell.get("case"))) for cell in cells]
    footer = Footer(
        planned=len(pairs),
        finished=len(pairs),
        counts=dict(Counter(str(cell.get("status")) for cell in cells)),
        plan_sha256=hash_plan([tuple(make_strict(pair)) for pair in pairs]),
    )
    return [*lines, footer.to_json()]


def make_call() -> Call:
    """Return a call as the suite makes it: two gradients, one excluded, one missing, and a threshold."""
    arrays = [Array.of(np.array([3.0, 4.0], np.float32)), Array.of(np.array([[1.0]], np.float32)), None]
    gradients = [make_tensor([1.0], "float32") for _ in arrays]
    made = [
        replace(each, name=f"g{place}", array=array, need_clip=place != 1)
        for place, (each, array) in enumerate(zip(gradients, arrays, strict=True))
    ]
    return Call("clip", tuple(made), {"clip_norm": 1.0, "error_if_nonfinite": False})
