"""Define mutants that are wrong with gradients that several processes share.

One process plays them all: each process gets its parts, and can ask for those of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_adapters import mesh
from gradclip_adapters.arrays import convert_thresholds
from gradclip_adapters.contract import Array as Sent
from gradclip_adapters.contract import Call, Reply, framework_call

from .steps import Array, ByGlobalNorm, ByValue, ClipFunction, Gradients, NormFunction
from .table import caught_by
from .wrong_adapters import WithAbilities


class InProcesses(WithAbilities):
    """Adapter that makes a call once for each process, with the parts of all of them, and joins the answers."""

    features = ("distributed",)

    def call(self, call: Call) -> Reply:
        """Answer for each process."""
        parts = [mesh.cut_call(call, rank) for rank in range(mesh.get_mesh(call).size)]
        arrays = [[g.array and g.array.numpy() for g in part.gradients] for part in parts]
        axes = [mesh.find_sharded_axis(gradient) for gradient in call.gradients]
        flags = [gradient.need_clip for gradient in call.gradients]
        replies = []
        for rank in range(len(parts)):
            # Each process has its own arrays.
            mine = [[None if one is None else one.copy() for one in part] for part in arrays]
            with framework_call() as seen:
                results, norm = self._function.answer_as(rank, mine, axes, flags, dict(call.options))
            gradients = tuple(None if one is None else Sent.of(one) for one in results)
            total = None if norm is None else Sent.of(np.float64(norm))
            replies.append(Reply(gradients, total, warnings=seen.warnings))
        return mesh.join_replies(call, replies)


class Sharing(ClipFunction):
    """Base of the mutants of several processes. This one is right; each mutant changes a step."""

    def answer_as(
        self,
        rank: int,
        parts: Sequence[Gradients],
        axes: Sequence[int | None],
        need_clip: Sequence[bool],
        options: dict[str, Any],
    ) -> tuple[Gradients, float | None]:
        """Return the results and the norm of one process."""
        included, own = self.select_included(parts[rank], need_clip), list(parts[rank])
        if isinstance(self, ByValue):
            low, high = self.fill_bounds(None, options["max"])
            for i in included:
                own[i] = self.finish_part(rank, axes[i], own[i], self.clip(own[i], low, high))
            return own, None
        assert isinstance(self, NormFunction)
        p, is_global = options.get("norm_type", 2.0), isinstance(self, ByGlobalNorm)
        gathered = {i: self.gather(rank, parts, i, axes[i]) for i in included}
        joint = [one for tensors in gathered.values() for one in tensors]
        total = self.reduce(joint, p)
        for i in included:
            norm = total if is_global else self.reduce(gathered[i], p)
            own[i] = self.finish_part(rank, axes[i], own[i], self.clip(own[i], options["clip_norm"], norm))
        return own, self.report(rank, total, [parts[rank][i] for i in included]) if is_global else None

    def gather(self, rank: int, parts: Sequence[Gradients], place: int, axis: int | None) -> list[Array]:
        """Return the arrays that count in a norm: the parts of all processes, or one copy."""
        return [parts[rank][place]] if axis is None else [part[place] for part in parts]

    def reduce(self, tensors: Sequence[Array], p: float) -> float:
        """Return the norm of some tensors."""
        norm: float = self.compute_norm(tensors, p)  # type: ignore[attr-defined]
        return norm

    def report(self, rank: int, total: float, own: Sequence[Array]) -> float:
        """Return the norm that a process returns; here, the right `total`."""
        return total

    def finish_part(self, rank: int, axis: int | None, before: Array, result: Array) -> Array:
        """Return the result of one part; here, the right `result`."""
        return result


class _OfNorms(Sharing, NormFunction):
    """Base of the mutants that are wrong about norms."""


@caught_by("shards-as-whole", adapter=InProcesses)
class CopiesStay(Sharing):
    """Leave the copies of all processes but the first one as they are."""

    def finish_part(self, rank: int, axis: int | None, before: Array, result: Array) -> Array:
        return before if rank and axis is None else result


@caught_by("shards-as-whole", adapter=InProcesses)
class FirstAxisOnly(_OfNorms):
    """Take a gradient that is split along another axis than the first for a copied one."""

    def gather(self, rank: int, parts: Sequence[Gradients], place: int, axis: int | None) -> list[Array]:
        return [parts[rank][place]] if axis != 0 else [part[place] for part in parts]


@caught_by("shards-as-whole", adapter=InProcesses)
class TwoProcesses(_OfNorms):
    """Ask only the first two processes for their parts."""

    def gather(self, rank: int, parts: Sequence[Gradients], place: int, axis: int | None) -> list[Array]:
        return super().gather(rank, parts, place, axis)[:2]


@caught_by("shards-as-whole", adapter=InProcesses)
class AddsTheNorms(_OfNorms):
    """Add the largest elements of the processes in place of comparing them."""

    def reduce(self, tensors: Sequence[Array], p: float) -> float:
        if p != math.inf:
            return super().reduce(tensors, p)
        return sum(super(AddsTheNorms, self).reduce([one], p) for one in tensors)


@caught_by("shards-as-whole", adapter=InProcesses)
class AddsSquaresOfDtype(_OfNorms):
    """Send the squares of the norms of the parts in the dtype of the gradients."""

    def reduce(self, tensors: Sequence[Array], p: float) -> float:
        if p == math.inf or not tensors:
            return super().reduce(tensors, p)
        with np.errstate(all="ignore"):
            powers = [np.power(np.float32(super(AddsSquaresOfDtype, self).reduce([one], p)), p) for one in tensors]
            return float(np.float32(sum(powers)) ** np.float32(1 / p))


@caught_by("shards-as-whole", adapter=InProcesses)
class NanStaysAtHome(_OfNorms):
    """Leave out the parts of other processes that hold a NaN."""

    def gather(self, rank: int, parts: Sequence[Gradients], place: int, axis: int | None) -> list[Array]:
        tensors = super().gather(rank, parts, place, axis)
        return [one for one in tensors if one is parts[rank][place] or not np.isnan(one).any()]


@caught_by("shards-as-whole", adapter=InProcesses)
class CountsExcludedParts(_OfNorms):
    """Count gradients that are excluded, if they are split."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return [i for i, grad in enumerate(grads) if grad is not None and (need_clip[i] or grad.size == 1)]


@caught_by("shards-as-whole", adapter=InProcesses)
class ThresholdForEachProcess(Sharing):
    """Clip to the threshold times the number of processes, as if each process clipped its own addend."""

    def answer_as(
        self,
        rank: int,
        parts: Sequence[Gradients],
        axes: Sequence[int | None],
        need_clip: Sequence[bool],
        options: dict[str, Any],
    ) -> tuple[Gradients, float | None]:
        multiplied = convert_thresholds(options, lambda value: value * len(parts))
        return super().answer_as(rank, parts, axes, need_clip, multiplied)
