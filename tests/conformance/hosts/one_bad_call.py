"""Define the base of the fake adapters. It clips by norm in NumPy; subclasses may misbehave at a threshold of 5."""

import math

import numpy as np

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Reply, Unsupported

BAD_THRESHOLD = 5.0


class OneBadCall(Adapter):
    """Adapter that is right. A subclass may misbehave in the call with a threshold of 5."""

    def about(self) -> About:
        """Return the name of a framework that does not exist."""
        return About("fake", "1.0")

    def subjects(self) -> list[EntryPoint]:
        """Return a single subject, which clips by norm."""
        return [EntryPoint("fake", "clip_by_norm", ("float32",), ("functional", "none_grads"))]

    def call(self, call: Call) -> Reply:
        """Return the right reply, or what `misbehave` returns for a threshold of 5."""
        if any(gradient.array is not None and gradient.array.dtype != "float32" for gradient in call.gradients):
            message = "the fake takes float32 only"
            raise Unsupported(message)
        right = make_right_reply(call)
        return self.misbehave(call, right) if call.options["clip_norm"] == BAD_THRESHOLD else right

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Misbehave. Subclasses override this."""
        return right


def make_right_reply(call: Call) -> Reply:
    """Return each gradient clipped by its own norm."""
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
