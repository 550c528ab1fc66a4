"""Draw mutants by a seed, and prove each of them wrong."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .drafts import Draft, draw_input
from .facts import OPERATIONS, Work
from .functions import Fault, GeneratedFunction, Operator
from .operators import OPERATORS
from .proof import Answer, NotExactError, find_wrong
from .triggers import KERNEL_AXES, LEVELS, Level, find_level

#: The number of inputs that are drawn before a mutant counts as equivalent to a right function.
TRIES = 16
#: The length from which an input is long, and the smaller number of inputs for triggers that need long inputs.
LONG, TRIES_IF_LONG = 10_000, 6


@dataclass(frozen=True)
class Mutant:
    operation: str
    in_place: bool
    fault: Fault

    @property
    def name(self) -> str:
        """The full name: operation, operator and trigger, and whether it works in place."""
        how = "in-place" if self.in_place else "copies"
        trigger = "+".join(level.name for level in self.fault.trigger) or "always"
        return f"{self.operation}/{how}/{self.fault.operator.name}/{trigger}"

    def make(self) -> GeneratedFunction:
        """Make a fresh clip function, which has not been called."""
        return GeneratedFunction(self.operation, self.in_place, self.fault)


def read_name(name: str) -> Mutant:
    operation, how, operator, trigger = name.split("/")
    levels = () if trigger == "always" else tuple(find_level(each) for each in trigger.split("+"))
    return Mutant(operation, how == "in-place", Fault(OPERATORS[operator], levels))


def draw_mutants(seed: int) -> Iterator[Mutant]:
    """Yield mutants without end, no two with the same name."""
    rng = random.Random(seed)
    seen: set[str] = set()
    while True:
        mutant = _draw(rng)
        if mutant is not None and mutant.name not in seen:
            seen.add(mutant.name)
            yield mutant


def _draw(rng: random.Random) -> Mutant | None:
    operation = rng.choice(OPERATIONS)
    operator = rng.choice([each for each in OPERATORS.values() if operation in each.operations])
    trigger = _draw_trigger(operation, operator, rng)
    in_place = rng.random() < 0.5 if operator.in_place is None else operator.in_place
    names = {level.name for level in trigger}
    in_place = True if "in-place" in names else False if "not-in-place" in names else in_place
    # Two elements of a broadcast gradient share memory, so it cannot be written in place.
    if operator.in_place not in (None, in_place) or (in_place and "broadcast" in names):
        return None
    return Mutant(operation, in_place, Fault(operator, trigger))


def _draw_trigger(operation: str, operator: Operator, rng: random.Random) -> tuple[Level, ...]:
    """Return up to three levels of kernel axes, or up to two levels of any axes. No axis occurs twice."""
    known = [level for level in LEVELS if operation in level.operations]
    # The operator's own level is one of the levels.
    of_kernels = rng.random() < 0.6
    most = (3 if of_kernels else 2) - (operator.level is not None)
    taken = {operator.level.axis} if operator.level else set()
    trigger: list[Level] = []
    for _ in range(rng.choice(range(most + 1)) if rng.random() < 0.4 else most):
        fitting = [lv for lv in known if lv.axis not in taken and (not of_kernels or lv.axis in KERNEL_AXES)]
        # Draw the axis first, so that an axis with many levels is not drawn more often.
        axis = rng.choice(sorted({level.axis for level in fitting}))
        trigger.append(rng.choice([level for level in fitting if level.axis == axis]))
        taken.add(axis)
    return tuple(sorted(trigger, key=lambda level: level.name))


def find_witness(mutant: Mutant) -> tuple[str | None, bool]:
    """Describe an input on which the mutant is proven wrong, and return whether its trigger ever held."""
    rng = random.Random(mutant.name)
    fired, long = False, 0
    for _ in range(TRIES):
        draft = mutant.fault.make_draft(Draft(mutant.operation))
        draft = replace(draft, in_place=mutant.in_place)
        work, index = draw_input(draft, rng)
        long += work.grads[index].size > LONG or len(work.grads) > 200
        if long > TRIES_IF_LONG:
            break
        is_writable = all(work.grads[i].flags.writeable for i in work.present)
        if index not in mutant.fault.list_places(work) or (work.in_place and not is_writable):
            continue
        fired = True
        made = mutant.make()
        # Make an earlier call of the same form, because some faults use values of an earlier call.
        if "previous" in mutant.fault.operator.name:
            call_function(made, draw_input(draft, rng)[0])
        answer = call_function(made, work)
        with contextlib.suppress(NotExactError):
            if made.fired and (reason := find_wrong(work, answer)) is not None:
                return f"{_describe(work, index)}: {reason}", True
    return None, fired


def _describe(work: Work, index: int) -> str:
    grad, facts = work.grads[index], work.list_facts()[index]
    assert facts is not None
    parts = [
        f"gradient {index} of {len(work.grads)}: {grad.dtype.name} {list(grad.shape)} {facts.layout}",
        *([] if facts.flag else ["excluded"]),
        f"norm/threshold {facts.ratio:.4g}",
        f"p {work.norm_type:g}",
    ]
    return ", ".join(parts)


def call_function(made: GeneratedFunction, work: Work) -> Answer:
    """Call the function with copies of the input that have the same memory layout."""
    grads = [None if grad is None else _copy(grad) for grad in work.grads]
    keywords: dict[str, Any] = {"need_clip": work.flags, work.about.threshold: work.threshold}
    if work.low is not None:
        keywords["min"] = work.low
    if work.about.is_by_norm and work.norm_given:
        keywords["norm_type"] = work.norm_type
    if work.error_flag is not None:
        keywords["error_if_nonfinite"] = work.error_flag
    try:
        found = made.function(grads, **keywords)
    except Exception as error:  # noqa: BLE001 - a mutant may raise anything
        return Answer(None, None, f"{type(error).__name__}: {error}", grads)
    results, norm = found if isinstance(found, tuple) else (found, None)
    return Answer(results, norm, None, grads)


def _copy(grad: Any) -> Any:
    """Copy an array, including the memory around it if it is a view."""
    if not grad.flags.writeable or grad.base is None:
        return grad if not grad.flags.writeable else grad.copy(order="K")
    base = grad
    while base.base is not None:
        base = base.base
    offset = grad.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(grad.shape, grad.dtype, base.copy(order="K"), offset, grad.strides)
