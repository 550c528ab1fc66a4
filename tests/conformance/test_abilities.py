"""Test the probes of abilities that an entry point does not declare. Some abilities are missing, and some exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import run_rules

from gradclip_adapters.contract import LACKS as KINDS
from gradclip_adapters.contract import (
    About,
    Adapter,
    Array,
    BadReply,
    Call,
    EntryPoint,
    Reply,
    Unsupported,
    framework_call,
)
from gradclip_conformance import check_clipper
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Cell
from gradclip_reports.statuses import LACKS
from gradclip_reports.terminal import draw_terminal
from gradclip_spec import clip_by_global_norm

Arrays = list[np.ndarray | None]


def clip_values(gradients: Arrays, bound: float) -> Arrays:
    return [None if array is None else np.clip(array, -bound, bound) for array in gradients]


class DeclaresLittle(Adapter):
    """An adapter that declares only one dtype and no ability."""

    entry_point = EntryPoint("fake.clip", "clip_by_value", ("float32",))

    def __init__(self, *features: str) -> None:
        self.features = features
        self.calls: list[Call] = []

    def about(self) -> About:
        return About("fake", "1.0")

    def subjects(self) -> Sequence[EntryPoint]:
        return [replace(self.entry_point, features=self.features)]

    def call(self, call: Call) -> Reply:
        self.calls.append(call)
        arrays = [None if gradient.array is None else gradient.array.numpy() for gradient in call.gradients]
        with framework_call():
            clipped = self.clip(arrays, call.options)
        return Reply(tuple(None if array is None else Array.of(np.asarray(array)) for array in clipped))

    def clip(self, arrays: Arrays, options: Mapping[str, Any]) -> Arrays:
        """Pass all options to the function."""
        more = {name: value for name, value in options.items() if name not in ("max", "as_generator")}
        return clip_values(arrays, options["max"], **more)


class WithoutKernels(DeclaresLittle):
    """An adapter whose framework has kernels only for float32."""

    def call(self, call: Call) -> Reply:
        with framework_call():
            if any(gradient.array and gradient.array.dtype != "float32" for gradient in call.gradients):
                message = "\n-----\nNotFoundError: Operator clip has no kernel for this dtype.\n  [Hint: at clip.cc:33]"
                raise RuntimeError(message)
        return super().call(call)


class Declining(DeclaresLittle):
    """An adapter that refuses flags, and does not say what kind of support is missing."""

    def call(self, call: Call) -> Reply:
        if not all(gradient.need_clip for gradient in call.gradients):
            raise Unsupported("no flags here")
        return super().call(call)


class Flushing(DeclaresLittle):
    """An adapter whose framework flushes subnormal numbers."""

    def clip(self, arrays: Arrays, options: Mapping[str, Any]) -> Arrays:
        tiny = np.finfo(np.float32).tiny
        return [np.where(np.abs(a) < tiny, 0, a).astype(a.dtype) for a in super().clip(arrays, options)]


class ClipsByNorm(DeclaresLittle):
    """An adapter that declares little, although its function raises for NaN and infinity, and takes other dtypes."""

    entry_point = EntryPoint("fake.clip", "clip_by_global_norm", ("float32", "float64"))

    def __init__(self, *, raises: bool) -> None:
        super().__init__("none_grads", "repeated", "returns_norm")
        self.raises = raises

    def clip(self, arrays: Arrays, options: Mapping[str, Any]) -> Arrays:
        """Pass the flag for errors only if the function shall raise."""
        strict = self.raises and options.get("error_if_nonfinite", False)
        clipped, _ = clip_by_global_norm(arrays, options["clip_norm"], error_if_nonfinite=strict)
        return list(clipped)


def check(adapter: Adapter, *rules: str, dtype: str = "float32") -> list[Cell]:
    return list(run_rules(adapter, *rules, dtypes=(dtype,)).cells)


def read_verdicts(cells: Sequence[Cell]) -> set[tuple[str, str | None]]:
    """Return the statuses, and what the cells lack."""
    return {(cell.status, cell.lacks) for cell in cells}


@pytest.mark.parametrize(
    ("adapter", "rule", "dtype", "lacks", "says"),
    [
        (
            DeclaresLittle("none_grads"),
            "value.infinite-bounds/neither",
            "float32",
            "interface",
            "raised TypeError: clip_values() got an unexpected keyword argument 'min'",
        ),
        (
            WithoutKernels(),
            "value.dtype-kept",
            "float64",
            "kernel",
            "raised RuntimeError: NotFoundError: Operator clip has no kernel for this dtype.",
        ),
        (
            DeclaresLittle(),
            "value.dtype-kept",
            "float64",
            "declaration",
            "fake.clip declares no dtype float64. A call shows that this works: declare float64, and it is judged.",
        ),
        (DeclaresLittle(), "value.none-stays-none", "float32", "declaration", "declare none_grads, and it is judged"),
        (
            ClipsByNorm(raises=False),
            "global-norm.mixed-dtypes/*/float32+float64",
            "float32+float64",
            "declaration",
            "mixed_dtypes",
        ),
        (DeclaresLittle("none_grads"), "value.all-excluded", "float32", "interface", "the answer ignores it"),
        # An answer does not prove that a layout is supported.
        (DeclaresLittle(), "value.any-iterable", "float32", "adapter", "generator"),
        (Declining("none_grads"), "value.all-excluded", "float32", "adapter", "The adapter says: no flags here"),
        (
            DeclaresLittle("compiled"),
            "value.compiled-agrees",
            "float32",
            "interface",
            "always runs inside the framework's compiler",
        ),
        (DeclaresLittle("in_place"), "value.derivative/above/", "float32", "interface", "It writes into the gradients"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "",
)
def test_missing_ability_says_what_is_missing(adapter: Adapter, rule: str, dtype: str, lacks: str, says: str) -> None:
    cells = check(adapter, f"{rule}*", dtype=dtype)

    assert read_verdicts(cells) == {("unsupported", lacks)}
    assert all(says in cell.detail for cell in cells[:1])


def test_each_ability_is_probed_once() -> None:
    adapter = WithoutKernels()

    cells = check(adapter, "value.bounds", "value.dtype-kept", dtype="float64")

    assert (len(cells) > 10, len(adapter.calls)) == (True, 0)
    adapter = DeclaresLittle("none_grads")
    cells = check(adapter, "value.excluded-untouched")
    # One call passes flags, and the other passes `min`.
    assert (len(cells) > 10, len(adapter.calls)) == (True, 2)


def test_undeclared_effects_on_the_inputs_are_not_errors() -> None:
    cells = check(DeclaresLittle(), "value.in-place-written/clipped/*", "value.inputs-not-mutated/clipped/*")

    assert {cell.status for cell in cells} == {"unsupported"}


def test_undeclared_function_that_spoils_its_inputs_fails() -> None:
    def clip(grads: Arrays, *, clip_norm: float) -> Arrays:
        wide = [np.asarray(grad, np.float64) for grad in grads]  # no copy in float64
        for one in wide:
            np.multiply(one, min(1.0, clip_norm / np.linalg.norm(one)), out=one)
        return [one.astype(grad.dtype) for one, grad in zip(wide, grads, strict=True)]

    results = check_clipper(clip, op="clip_by_norm", rule="norm.scaled-above/three-four-five/*", isolated=False)

    assert {cell["dtype"]: cell["status"] for cell in results} == {
        "float16": "pass",
        "float32": "pass",
        "float64": "fail",
    }
    assert [finding["cause"] for finding in results.findings] == ["inputs-changed"]


def test_missing_parameter_of_a_plain_function_needs_no_probe() -> None:
    calls = []

    def clip(grads: Arrays, *, max: float) -> Arrays:
        calls.append(max)
        return clip_values(grads, max)

    results = check_clipper(clip, op="clip_by_value", rule="value.all-excluded", isolated=False)

    assert {(cell["status"], cell["lacks"]) for cell in results} == {("unsupported", "interface")}
    assert "takes no parameter 'need_clip'" in results[0]["detail"]
    assert calls == []


@pytest.mark.parametrize(("kind", "kept"), [(DeclaresLittle, False), (Flushing, True)])
def test_declared_flushing_must_show_in_a_call(kind: type[DeclaresLittle], kept: bool) -> None:
    connection = InProcess(kind("flushes_subnormals"))

    assert ("flushes_subnormals" in connection.description.subjects[0].features) is kept


def test_flag_for_errors_exists_if_an_infinite_gradient_raises() -> None:
    rules = "global-norm.error-if-nonfinite"
    # Other cells of the rule need more abilities.
    only = "fake.clip does not declare: error_if_nonfinite (the option `error_if_nonfinite` exists). "
    ignored, obeyed = (
        [cell for cell in check(ClipsByNorm(raises=raises), rules) if cell.detail.startswith(only)]
        for raises in (False, True)
    )

    assert read_verdicts(ignored) == {("unsupported", "interface")}
    assert "the answer ignores it" in ignored[0].detail
    assert read_verdicts(obeyed) == {("unsupported", "declaration")}
    assert "declare error_if_nonfinite, and it is judged" in obeyed[0].detail


FRAGILE = """
import os
import time

from gradclip_adapters.contract import About, Adapter, Array, Reply, EntryPoint

class Fragile(Adapter):
    def about(self):
        return About("fragile", "1")

    def subjects(self):
        return [EntryPoint("clip", "clip_by_value", ("float32",), ("functional",))]

    def call(self, call):
        if call.gradients[0].array is not None and call.gradients[0].array.dtype == "float16":
            os._exit(7)
        if call.options.get("as_single"):
            time.sleep(100)
        return Reply(tuple(gradient.array for gradient in call.gradients))
"""


@pytest.mark.thorough(sample=0)
def test_probe_that_crashes_or_hangs_shows_a_missing_ability(tmp_path: Path) -> None:
    path = tmp_path / "fragile.py"
    path.write_text(FRAGILE, encoding="utf-8")
    command = [*build_host_command(), str(path)]
    selection = Selection(rules=("value.dtype-kept", "value.single-tensor"), dtypes=("float16", "float32"))

    run = run_adapter(RunRequest("x", lambda: HostProcess(command), selection, timeout=2))

    lacking = {cell.lacks: cell.detail for cell in run.cells if cell.status == "unsupported"}
    assert "A call that asks for it ended the process: The host process ended with exit code 7" in lacking["kernel"]
    assert "A call that asks for it got no answer within 2 s." in lacking["interface"]


def test_unknown_kind_of_unsupported_is_a_mistake() -> None:
    with pytest.raises(BadReply, match="there are interface, kernel, adapter"):
        Unsupported("no", "hardware")


def test_report_says_what_is_missing() -> None:
    run = run_rules(DeclaresLittle("none_grads"), "value.n*", "value.e*")

    kinds = [cell.lacks for cell in run.cells if cell.status == "unsupported"]
    assert "interface" in kinds
    assert f"no such interface {kinds.count('interface')}" in draw_terminal([run], width=200)
    # The suite finds the other kind, so no adapter may name it.
    assert {**KINDS, "declaration": LACKS["declaration"]} == LACKS
