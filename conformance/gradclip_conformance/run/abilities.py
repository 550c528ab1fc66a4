"""Probe the dtypes, features and norms that an entry point does not declare, instead of trusting the declaration.

One call probes each ability, when the first cell needs it. If the ability is missing, the cells that need it are
`unsupported`, with the kind and the message that the probe found. If the call succeeds, they are `unsupported`, too,
and say that the adapter could declare more. Only a declared ability that does not work is an error.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradclip_adapters.arrays import FEATURE_OF_LAYOUT
from gradclip_adapters.contract import EntryPoint, Gradient
from gradclip_adapters.mesh import Mesh
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ..cases.build import make_case as build_case
from ..cases.build import make_tensor
from ..cases.model import Case, expect
from ..judge.judging import judge
from ..judge.model import Connection, Context, Died, Mistaken, NotSupported, Raised, Replied, TimedOut, Verdict
from .asking import ask_case, begin_case
from .plan import Ability, PlannedCell, add_both_bounds
from .probing import PROBED


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe.

    If the entry point lacks the ability, `kind` says what is missing, and `text` describes what the probe found.
    """

    kind: str
    text: str
    #: Whether the entry point has the ability, although it does not declare it.
    is_there: bool = False


class AbilityProbes:
    """The results of a run's probes. Each ability of an entry point is probed once, when the first cell needs it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Ability], ProbeResult] = {}
        self._begun: set[tuple[str, Ability]] = set()
        self._lock = threading.Lock()

    def begin(self, planned: PlannedCell, connection: Connection) -> None:
        """Let an entry point begin to answer the calls that `judge` asks.

        Without that, the suite waits until all other calls under way are answered, and the host waits afterwards.
        """
        entry_point = planned.entry_point
        for ability in planned.lacking:
            key = entry_point.name, ability
            if key not in self._begun and _judge_by_nature(entry_point, ability) is None:
                self._begun.add(key)
                begin_case(connection, _make_question(entry_point, ability), entry_point)

    def judge(self, planned: PlannedCell, connection: Connection, timeout: float) -> Verdict:
        """Return the verdict on a cell whose entry point lacks abilities."""
        entry_point = planned.entry_point
        found = [self._find(entry_point, ability, connection, timeout) for ability in planned.lacking]
        lacking = next((one for one in found if not one.is_there), None)
        if lacking is not None:
            return Verdict(Status.UNSUPPORTED, f"{planned.missing} {lacking.text}", lacks=lacking.kind)
        names = ", ".join(ability.name for ability in planned.lacking)
        detail = f"{planned.missing} A call shows that this works: declare {names}, and it is judged."
        return Verdict(Status.UNSUPPORTED, detail, lacks="declaration")

    def _find(self, entry_point: EntryPoint, ability: Ability, connection: Connection, timeout: float) -> ProbeResult:
        key = entry_point.name, ability
        with self._lock:
            if key not in self._found:
                found = _judge_by_nature(entry_point, ability)
                self._found[key] = found or _probe(entry_point, ability, connection, timeout)
            return self._found[key]


def _judge_by_nature(entry_point: EntryPoint, ability: Ability) -> ProbeResult | None:
    """Return the result that follows from the kind of entry point, without a call."""
    through_optimizer = "optimizer" in entry_point.features
    of_a_step = ability.name in ("learning_rate", "training", "groups") and not through_optimizer
    if ability.name == "optimizer" or of_a_step:
        return ProbeResult("interface", "It is called without an optimizer, and takes no step.")
    if ability.name == "partial":
        return ProbeResult("interface", "The gradients that it gets are summed before.")
    if ability.name == "norm_per_group":
        return ProbeResult("interface", "Its documentation mentions no groups with separate norms.")
    if ability.name == "differentiable" and through_optimizer:
        return ProbeResult("interface", "It takes a step of an optimizer, and no derivative goes through the step.")
    if ability.name == "differentiable" and "in_place" in entry_point.features:
        return ProbeResult("interface", "It writes into the gradients, so no derivative goes through it.")
    if ability.name == "compiles" and "compiled" in entry_point.features:
        return ProbeResult("interface", "It always runs inside the framework's compiler or graph.")
    return None


#: Gradients of norms 6 and 5, and a threshold that clips both.
FIRST, SECOND, THRESHOLD = [2.0, -4.0, 0.0, 4.0], [3.0, 4.0], 2.0

#: The option that asks for an ability.
OPTIONS: dict[str, dict[str, Any]] = {
    "norm_type": {"norm_type": 1.0},
    "min_max": {"min": -1.0},
    "learning_rate": {"learning_rate": 0.25},
    "error_if_nonfinite": {"error_if_nonfinite": True},
    "eps": {"eps": 0.5},
    "layers": {"layers": "equal"},
    "generator": {"as_generator": True},
    "single": {"as_single": True},
    "threads": {"threads": 2},
    "reuses": {"reused": True},
    "compiles": {"compiled": True},
    "training": {"steps": 2},
    "follows": {"followed": True},
    "flag_kinds": {"flags": "int"},
    "threshold_kinds": {"threshold_as": "numpy-float64"},
    "tensor_threshold": {"tensor_threshold": True},
    "axes": {"axes": "0"},
}

#: The abilities that an answer shows: an adapter that ignores them gives a wrong answer.
SHOWN = frozenset(
    {"excludes", "none_grads", "norm_type", "min_max", "requires_min", "learning_rate", "error_if_nonfinite", "layers"}
)

#: Words in an error message that indicate a missing kernel.
KERNEL = re.compile(r"kernel|not implemented for|could not run", re.IGNORECASE)


def _probe(entry_point: EntryPoint, ability: Ability, connection: Connection, timeout: float) -> ProbeResult:
    case = _make_question(entry_point, ability)
    answer = ask_case(connection, case, entry_point, timeout)
    match answer:
        case Raised(kind, text):
            lack = "kernel" if ability.what == "dtype" or KERNEL.search(text) else "interface"
            return ProbeResult(lack, f"A call that asks for it raised {kind}: {_choose_line(text)}")
        case NotSupported(text, kind):
            return ProbeResult(kind, f"The adapter says: {text}")
        case Died(text):
            lack = "kernel" if ability.what == "dtype" else "interface"
            return ProbeResult(lack, f"A call that asks for it ended the process: {text}")
        case TimedOut(seconds):
            return ProbeResult("interface", f"A call that asks for it got no answer within {seconds:g} s.")
        case Mistaken(text):
            line = _choose_line(text, last=True)
            return ProbeResult("adapter", f"A call that asks for it failed in the adapter itself: {line}")
    return _read_reply(entry_point, ability, case, answer, connection, timeout)


def _read_reply(
    entry_point: EntryPoint, ability: Ability, case: Case, answer: Replied, connection: Connection, timeout: float
) -> ProbeResult:
    """Return what a reply shows about an ability that the entry point does not declare."""
    name = ability.name
    if name in ("functional", "in_place"):
        return _observe_effect(case, answer)
    if name == "returns_norm":
        there = answer.reply.norm is not None
        if there and PROBED in entry_point.features:
            return ProbeResult("interface", "It returned no norm in the first calls, and a norm in a later one.")
        return ProbeResult("interface", "A call returned no norm.", is_there=there)
    right = judge(Context(case, entry_point), [answer]).status in (Status.PASS, Status.QUALITY)
    if ability.what == "dtype" or name == "mixed_dtypes":
        # Even a wrong answer shows that the dtype is accepted. The cells judge whether answers are right.
        return ProbeResult("kernel", "", is_there=answer.reply.malformed is None)
    if name == "error_if_nonfinite" and right:
        infinite = replace(case.gradients[1], array=make_tensor([3.0, math.inf], case.dtype).array)
        case = replace(case, gradients=(case.gradients[0], infinite))
        right = isinstance(ask_case(connection, case, entry_point, timeout), Raised)
    if name in SHOWN or ability.what == "norm":
        return ProbeResult("interface", "A call asks for it, and the answer ignores it.", is_there=right)
    return ProbeResult("adapter", "The adapter does not declare it, and the answer to a call cannot show it.")


def _observe_effect(case: Case, answer: Replied) -> ProbeResult:
    """Return the effect of a call on the passed gradients, if the entry point promises nothing about them."""
    inputs = answer.reply.inputs
    if inputs is None:
        return ProbeResult("adapter", "The adapter cannot read back the gradients that it passed.")
    kept = inputs == tuple(gradient.array for gradient in case.gradients)
    return ProbeResult("interface", f"A call {'did not change' if kept else 'changed'} the gradients that were passed.")


def _make_question(entry_point: EntryPoint, ability: Ability) -> Case:
    """Return the call that asks an entry point for an ability."""
    dtype = "float32" if "float32" in entry_point.dtypes else (*entry_point.dtypes, "float32")[0]
    other = dtype
    name = ability.name
    if ability.what == "dtype":
        dtype = other = name
    elif name == "mixed_dtypes":
        # An entry point of one dtype lacks the other dtype of the case, and is not asked about mixtures.
        other = next(one for one in entry_point.dtypes if one != dtype)
    first, second = make_tensor(FIRST, dtype, (2, 2)), make_tensor(SECOND, other)
    gradients: Sequence[Gradient] = [first, second]
    expected = expect("values")
    operation = OPERATIONS[entry_point.operation]
    # A threshold relative to the norm of a parameter must clip, too: each parameter has the norm of its gradient.
    options: dict[str, Any] = {operation.threshold: THRESHOLD / 4 if operation.is_relative else THRESHOLD}
    mesh = {"mesh": str(Mesh(entry_point.mesh or {"ranks": 2}))}
    options.update(mesh if "distributed" in entry_point.features else {})
    options.update({"norm_type": float(name)} if ability.what == "norm" else OPTIONS.get(name, {}))
    match name:
        case "excludes":
            gradients, expected = [first, replace(second, need_clip=False)], expect("untouched", indices=(1,))
        case "none_grads":
            gradients = [first, make_tensor(None, dtype)]
        case "repeated":
            gradients = [first, replace(first, same_as=0)]
        case "groups":
            gradients = [first, replace(second, group=1)]
        case "axes":
            # Columns of one element: each has a norm of its own.
            gradients, expected = [make_tensor(FIRST, dtype, (1, 4))], expect("norm-over-axes")
        case "differentiable":
            gradients = [replace(first, cotangent=first.array)]
        case "sparse":
            gradients = [replace(first, rows=(1, 3), height=4)]
        case "single":
            gradients = [second]
        case "strided" | "reversed" | "broadcast":
            layout = next(layout for layout, feature in FEATURE_OF_LAYOUT.items() if feature == name)
            gradients = [replace(make_tensor([1.0, 4.0, 1.0, 4.0], dtype, (2, 2)), layout=layout)]
    rule = f"{operation.prefix}.{'scaled-above' if operation.is_by_norm else 'bounds'}"
    case = build_case(rule, "probe", dtype, _separate_tensors(entry_point, gradients), options, expected)
    return case if name == "requires_min" else add_both_bounds(case, entry_point)


def _separate_tensors(entry_point: EntryPoint, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """Return the gradients, each as a tensor of one unit if the clip is by units.

    A clip relative to parameters gets parameters of the same norms.
    """
    operation = OPERATIONS[entry_point.operation]
    if not operation.divides_gradients:
        return gradients
    return [
        replace(one, group=number, parameter=one.array if operation.is_relative else None)
        for number, one in enumerate(gradients)
    ]


def _choose_line(text: str, *, last: bool = False) -> str:
    """Return one line of a message: the line that names the error, or the last line of a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    telling = next((line for line in lines if KERNEL.search(line) or "Error: " in line), "")
    found = (lines[-1:] if last else [telling or (lines or [""])[0]]) or [""]
    return found[0][:300]
