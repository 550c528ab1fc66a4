"""Define an adapter that clips by norm in NumPy and makes no mistake. The other hosts are made from it."""

import math

import numpy as np

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Reply, Unsupported


class Right(Adapter):
    def about(self) -> About:
        return About("fake", "1.0")

    def subjects(self) -> list[EntryPoint]:
        return [EntryPoint("fake", "clip_by_norm", ("float32",), ("functional", "none_grads"))]

    def call(self, call: Call) -> Reply:
        """Return each gradient clipped by its own norm."""
        clip_norm = call.options["clip_norm"]
        results = []
        for gradient in call.gradients:
            if gradient.array is None:
                results.append(None)
                continue
            if gradient.array.dtype != "float32":
                raise Unsupported("the fake takes float32 only")
            values = gradient.array.numpy()
            norm = math.hypot(*values.astype(float).ravel())
            clipped = values if norm <= clip_norm else (values * (np.float64(clip_norm) / norm)).astype(values.dtype)
            results.append(Array.of(clipped))
        return Reply(tuple(results), inputs=tuple(gradient.array for gradient in call.gradients))
