"""What the fake adapters have in common: clip by norm in NumPy, right but for one call (the one to 5)."""

import math

import numpy as np

from gradclip_adapters.contract import About, Adapter, Array, Call, Reply, Subject

BAD_THRESHOLD = 5.0


class OneBadCall(Adapter):
    """Right, but for the call that asks for a norm of 5."""

    def about(self) -> About:
        """A framework that does not exist."""
        return About("fake", "1.0")

    def subjects(self) -> list[Subject]:
        """Clip by norm alone."""
        return [Subject("fake", "clip_by_norm", ("float32",), ("functional", "none_grads"))]

    def call(self, call: Call) -> Reply:
        """The right answer, or something else."""
        right = right_reply(call)
        return self.misbehave(call, right) if call.options["clip_norm"] == BAD_THRESHOLD else right

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """What is wrong with this adapter."""
        return right


def right_reply(call: Call) -> Reply:
    """Each gradient clipped by its own norm."""
    clip_norm = call.options["clip_norm"]
    results = []
    for gradient in call.gradients:
        if gradient.array is None:
            results.append(None)
            continue
        values = gradient.array.numpy()
        norm = math.hypot(*values.astype(float).ravel())
        clipped = values if norm <= clip_norm else (values * (np.float64(clip_norm) / norm)).astype(values.dtype)
        results.append(Array.of(clipped))
    return Reply(tuple(results), inputs=tuple(gradient.array for gradient in call.gradients))
