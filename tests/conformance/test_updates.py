"""Test the cases of several groups, several steps and weight decay, with right and wrong optimizers."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
import pytest

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Gradient, Reply
from gradclip_adapters.wire import decode_gradient, encode_gradient
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter

RULES = ("decay-after-clip", "each-step-clips", "accumulated-then-clipped", "one-norm-over-groups", "norm-per-group")
FEATURES = ("optimizer", "learning_rate", "training", "groups")

Arrays = list[np.ndarray]


class Descent(Adapter):
    """Gradient descent in NumPy, with a clip by global norm before the update."""

    features: tuple[str, ...] = FEATURES

    def about(self) -> About:
        """Return a framework that does not exist."""
        return About("fake", "1.0")

    def subjects(self) -> Sequence[EntryPoint]:
        """Return one optimizer."""
        return [EntryPoint("fake.SGD", "clip_by_global_norm", ("float32",), self.features)]

    def call(self, call: Call) -> Reply:
        """Return the negated parameters after all steps."""
        options = call.options
        gradients = [gradient.array.numpy() for gradient in call.gradients if gradient.array]
        parameters = [np.full_like(gradient, options.get("start", 0.0)) for gradient in gradients]
        for step in range(options.get("steps", 1)):
            updates = self.update(call, gradients, parameters, step)
            parameters = [parameter - update for parameter, update in zip(parameters, updates, strict=True)]
        return Reply(tuple(Array.of(-parameter) for parameter in parameters))

    def update(self, call: Call, gradients: Arrays, parameters: Arrays, step: int) -> Arrays:
        """Return the amounts that a step subtracts."""
        summed = [call.options.get("accumulate", 1) * gradient for gradient in gradients]
        clipped = self.clip(call, summed)
        decay = np.float32(call.options.get("weight_decay", 0.0))
        return [one + decay * parameter for one, parameter in zip(clipped, parameters, strict=True)]

    def clip(self, call: Call, gradients: Arrays) -> Arrays:
        """Clip all gradients by one norm."""
        norm = math.hypot(*(float(value) for gradient in gradients for value in gradient))
        return [gradient * np.float32(min(1.0, call.options["clip_norm"] / norm)) for gradient in gradients]


class DecaysFirst(Descent):
    """An optimizer that adds weight decay to the gradients before it clips them."""

    def update(self, call: Call, gradients: Arrays, parameters: Arrays, step: int) -> Arrays:
        """Clip the sum of gradient and decay."""
        decay = np.float32(call.options.get("weight_decay", 0.0))
        added = [one + decay * parameter for one, parameter in zip(gradients, parameters, strict=True)]
        return self.clip(call, [call.options.get("accumulate", 1) * gradient for gradient in added])


class ClipsOnce(Descent):
    """An optimizer that clips only in the first step."""

    def update(self, call: Call, gradients: Arrays, parameters: Arrays, step: int) -> Arrays:
        """Forget the clip after the first step."""
        return gradients if step else super().update(call, gradients, parameters, step)


class ClipsEachPass(Descent):
    """An optimizer that clips each backward pass separately."""

    def update(self, call: Call, gradients: Arrays, parameters: Arrays, step: int) -> Arrays:
        """Add clipped gradients."""
        if "accumulate" in call.options:
            return [call.options["accumulate"] * gradient for gradient in self.clip(call, gradients)]
        return super().update(call, gradients, parameters, step)


class UsesOnePass(Descent):
    """An optimizer that clips the last backward pass instead of the sum."""

    def update(self, call: Call, gradients: Arrays, parameters: Arrays, step: int) -> Arrays:
        """Forget the other passes."""
        others = call.options.get("accumulate", 1)
        return super().update(call, [gradient / np.float32(others) for gradient in gradients], parameters, step)


class ClipsEachGroup(Descent):
    """An optimizer that clips each group by its own norm."""

    def clip(self, call: Call, gradients: Arrays) -> Arrays:
        """Clip group by group."""
        if not any(gradient.group for gradient in call.gradients):
            return super().clip(call, gradients)
        groups = [gradient.group for gradient in call.gradients]
        clipped = {
            group: super(ClipsEachGroup, self).clip(
                call, [one for one, other in zip(gradients, groups, strict=True) if other == group]
            )
            for group in groups
        }
        return [clipped[group].pop(0) for group in groups]


class DocumentsGroups(ClipsEachGroup):
    """An optimizer that clips each group by its own norm, and the documentation says so."""

    features = ("norm_per_group", "optimizer")


class DocumentsGroupsAndSharesANorm(Descent):
    """An optimizer with one norm for all groups, although its documentation gives each group its own norm."""

    features = ("norm_per_group", "optimizer")


class ClipsEachTensorOfGroups(DocumentsGroups):
    """An optimizer that clips each tensor by its own norm if there are groups."""

    def clip(self, call: Call, gradients: Arrays) -> Arrays:
        """Clip tensor by tensor."""
        if not any(gradient.group for gradient in call.gradients):
            return super().clip(call, gradients)
        return [Descent.clip(self, call, [gradient])[0] for gradient in gradients]


def find_failures(kind: type[Adapter]) -> set[str]:
    """Return the rules that an optimizer breaks."""
    request = RunRequest("fake", lambda: InProcess(kind()), Selection(rules=tuple(f"*.{rule}" for rule in RULES)))
    run = run_adapter(request, io.StringIO())
    assert any(cell.status in ("pass", "fail") for cell in run.cells)
    return {cell.rule.partition(".")[2] for cell in run.cells if cell.status == "fail"}


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (Descent, set()),
        (DecaysFirst, {"decay-after-clip"}),
        (ClipsOnce, {"each-step-clips"}),
        (ClipsEachPass, {"accumulated-then-clipped"}),
        (UsesOnePass, {"accumulated-then-clipped"}),
        (ClipsEachGroup, {"one-norm-over-groups"}),
        (DocumentsGroups, set()),
        (DocumentsGroupsAndSharesANorm, {"norm-per-group"}),
        (ClipsEachTensorOfGroups, {"norm-per-group"}),
    ],
)
def test_each_wrong_optimizer_breaks_one_rule(kind: type[Adapter], broken: set[str]) -> None:
    assert find_failures(kind) == broken


def test_group_and_cotangent_are_sent_over_the_wire() -> None:
    array = Array.of(np.ones(2, np.float32))
    gradient = Gradient("g", array, group=3, cotangent=array)

    assert decode_gradient(encode_gradient(gradient)) == gradient
    assert "group" not in encode_gradient(Gradient("g", array))
