"""Define clips on a mesh: right ones that must not be blamed, and wrong ones as public reports describe them.

They share one clip. Each wrong one changes how the norm of the whole comes from the gradients of the ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradclip_adapters.collectives import RankMesh

Gradients = Sequence[np.ndarray[Any, Any] | None]
Placements = Sequence[Mapping[str, Any]]
#: A function that returns the norm of the whole on one rank.
FindNorm = Callable[[Gradients, Placements, RankMesh], float]


def sum_squares(gradient: np.ndarray[Any, Any] | None) -> float:
    return 0.0 if gradient is None else float(np.sum(gradient.astype(np.float64) ** 2))


def sum_shares(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Return the sum of the squares, with a share of each copy."""
    return sum(sum_squares(g) / mesh.count_copies(p) for g, p in zip(grads, placements, strict=True))


def scale(grads: Gradients, norm: float, clip_norm: float) -> list[np.ndarray[Any, Any] | None]:
    # NaN makes the comparison false, so that a NaN among the gradients reaches all results.
    factor = 1.0 if norm <= clip_norm else clip_norm / norm
    with np.errstate(all="ignore"):
        return [None if g is None else (g.astype(np.float64) * factor).astype(g.dtype) for g in grads]


def make_clip(find_norm: FindNorm) -> Callable[..., Any]:
    def clip(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
        norm = find_norm(grads, placements, mesh)
        return scale(grads, norm, clip_norm), norm

    return clip


def divide_by_copies(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return math.sqrt(mesh.all_reduce(sum_shares(grads, placements, mesh)))


def mask_copies(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Count a replicated gradient on the first of its ranks only."""
    squares = 0.0
    for gradient, placement in zip(grads, placements, strict=True):
        replicated = [name for name in mesh.axes if placement[name] == "replicated"]
        squares += sum_squares(gradient) if all(mesh.coordinates[name] == 0 for name in replicated) else 0.0
    return math.sqrt(mesh.all_reduce(squares))


def gather(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return math.sqrt(math.fsum(mesh.all_gather(sum_shares(grads, placements, mesh))))


def reduce_axis_by_axis(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    total = sum_shares(grads, placements, mesh)
    for name in mesh.axes:
        total = mesh.all_reduce(total, axes=name)
    return math.sqrt(total)


def broadcast_from_first(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    norm = divide_by_copies(grads, placements, mesh)
    return float(mesh.broadcast(norm if mesh.rank == 0 else None, 0))


def scale_by_largest(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Divide by the largest magnitude of all ranks before the squares, and add in the dtype of the gradients."""
    arrays = [g for g in grads if g is not None and g.size]
    largest = max([float(np.abs(g).max()) for g in arrays], default=0.0)
    has_nan = any(np.isnan(g).any() for g in arrays)
    bad, unit = mesh.all_reduce(np.array([float(has_nan), 0.0 if has_nan else largest]), "max")
    if bad or unit in (0.0, math.inf):
        return math.nan if bad else float(unit)
    squares = 0.0
    for g, p in zip(grads, placements, strict=True):
        if g is not None:
            wide = np.promote_types(g.dtype, np.float32).type
            squares += float(np.sum((g.astype(wide) / wide(unit)) ** 2, dtype=wide)) / mesh.count_copies(p)
    return float(unit) * math.sqrt(mesh.all_reduce(squares))


def gather_norms(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Take the norm of the norms of all parts. Copies count on the first of their ranks."""
    counted = [
        g
        for g, p in zip(grads, placements, strict=True)
        if g is not None and all(mesh.coordinates[name] == 0 for name in mesh.axes if p[name] == "replicated")
    ]
    norms = [math.hypot(*g.astype(np.float64).ravel().tolist()) for g in counted]
    return math.hypot(*mesh.all_gather(math.hypot(*norms)))


def divide_norms_by_root(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Divide the norm of each part by the root of its copies, and join the norms by a tree. Round each to float32."""
    norms = [
        np.float32(math.hypot(*g.astype(np.float64).ravel().tolist())) / np.sqrt(np.float32(copies))
        for g, copies in zip(grads, map(mesh.count_copies, placements), strict=True)
        if g is not None
    ]
    every = [np.float32(norm) for norm in mesh.all_gather(math.hypot(*map(float, norms)))]
    while len(every) > 1:
        pairs = zip(every[::2], [*every[1::2], *[np.float32(0)] * (len(every) % 2)], strict=True)
        every = [np.hypot(one, other) for one, other in pairs]
    return float(every[0])


RIGHT = {
    function.__name__: make_clip(function)
    for function in (
        divide_by_copies,
        mask_copies,
        gather,
        reduce_axis_by_axis,
        broadcast_from_first,
        scale_by_largest,
        gather_norms,
        divide_norms_by_root,
    )
}


def find_norm_of_sums(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Sum partial gradients before the squares. The sums are copies along the axes of the sums."""
    squares = 0.0
    for gradient, placement in zip(grads, placements, strict=True):
        axes = [name for name in mesh.axes if placement[name] == "partial"]
        copies = mesh.count_copies(placement) * math.prod(mesh.axes[name] for name in axes)
        total = mesh.all_reduce(gradient.astype(np.float64), axes=axes) if axes and gradient is not None else gradient
        squares += sum_squares(total) / copies
    return math.sqrt(mesh.all_reduce(squares))


sum_addends_first = make_clip(find_norm_of_sums)


def count_copies_again(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return math.sqrt(mesh.all_reduce(sum(map(sum_squares, grads))))


def reduce_nothing(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return math.sqrt(sum(map(sum_squares, grads)))


def reduce_one_axis(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    last = list(mesh.axes)[-1]
    squares = 0.0
    for gradient, placement in zip(grads, placements, strict=True):
        squares += sum_squares(gradient) / (mesh.axes[last] if placement[last] == "replicated" else 1)
    return math.sqrt(mesh.all_reduce(squares, axes=last))


def average_norms(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return float(mesh.all_reduce(reduce_nothing(grads, placements, mesh))) / mesh.size


def take_largest_norm(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return float(mesh.all_reduce(reduce_nothing(grads, placements, mesh), "max"))


def take_norm_of_first(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return math.sqrt(mesh.broadcast(sum_shares(grads, placements, mesh), 0))


def count_copies_on_first(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Count what is replicated along any axis on the first rank only, even if it is sharded along another one."""
    pairs = zip(grads, placements, strict=True)
    squares = sum(sum_squares(g) for g, p in pairs if "replicated" not in p.values() or mesh.rank == 0)
    return math.sqrt(mesh.all_reduce(squares))


def average_shares(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return divide_by_copies(grads, placements, mesh) / math.sqrt(mesh.size)


def divide_what_one_counts(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Count a replicated gradient on the first of its ranks only, and divide it by the number of copies, too."""
    squares = 0.0
    for gradient, placement in zip(grads, placements, strict=True):
        replicated = [name for name in mesh.axes if placement[name] == "replicated"]
        if all(mesh.coordinates[name] == 0 for name in replicated):
            squares += sum_squares(gradient) / mesh.count_copies(placement)
    return math.sqrt(mesh.all_reduce(squares))


def leave_copies_out(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Count nothing that is replicated along all axes."""
    kept = [g if set(p.values()) != {"replicated"} else None for g, p in zip(grads, placements, strict=True)]
    return divide_by_copies(kept, placements, mesh)


def mask(grads: Gradients, placements: Placements, word: str, *, has: bool) -> Gradients:
    """Return the gradients whose placements have a word, or do not have it, and None for the others."""
    return [g if (word in p.values()) == has else None for g, p in zip(grads, placements, strict=True)]


def average_experts(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    norm = divide_by_copies(mask(grads, placements, "owned", has=False), placements, mesh)
    own = reduce_nothing(mask(grads, placements, "owned", has=True), placements, mesh)
    return math.hypot(norm, mesh.all_reduce(own) / mesh.size)


def reduce_experts_over_last_axis(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Reduce the norms of the experts over the last axis only, as if they were on a mesh of this axis."""
    norm = divide_by_copies(mask(grads, placements, "owned", has=False), placements, mesh)
    return math.hypot(norm, reduce_one_axis(mask(grads, placements, "owned", has=True), placements, mesh))


def lose_nan(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    kept = [g if g is not None and np.isfinite(g).all() else None for g in grads]
    return divide_by_copies(kept, placements, mesh)


def lose_nan_in_maximum(
    grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh, norm_type: float = 2.0
) -> Any:
    norm = divide_by_copies(grads, placements, mesh)
    if norm_type == math.inf:
        largest = [float(np.fmax.reduce(np.abs(g).ravel())) for g in grads if g is not None and g.size]
        norm = mesh.all_reduce(float(np.fmax.reduce([0.0, *largest])), "max")
    elif norm_type != 2:
        powers = [0.0 if g is None else float(np.sum(np.abs(g.astype(np.float64)) ** norm_type)) for g in grads]
        shares = [power / mesh.count_copies(p) for power, p in zip(powers, placements, strict=True)]
        norm = mesh.all_reduce(sum(shares)) ** (1 / norm_type)
    return scale(grads, norm, clip_norm), norm


def add_from_own_rank_on(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Add the gathered squares in another order on each rank."""
    squares = sum_shares(grads, placements, mesh)
    gathered = mesh.all_gather(squares)
    total = 0.0
    for place in range(mesh.size):
        total += gathered[(mesh.rank + place) % mesh.size]
    return math.sqrt(total)


def average_coefficients(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    norm = reduce_nothing(grads, placements, mesh)
    factor = mesh.all_reduce(1.0 if norm <= clip_norm else clip_norm / norm) / mesh.size
    return [None if g is None else (g.astype(np.float64) * factor).astype(g.dtype) for g in grads]


def reduce_nowhere(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    del clip_norm, placements
    return grads, mesh.all_reduce(1.0, axes="nowhere")


def clip_each_part(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    return [scale([g], math.sqrt(sum_squares(g)), clip_norm)[0] for g in grads]


def count_excluded(
    grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh, need_clip: Sequence[bool]
) -> Any:
    norm = divide_by_copies(grads, placements, mesh)
    pairs = zip(grads, scale(grads, norm, clip_norm), need_clip, strict=True)
    return [clipped if flag else given for given, clipped, flag in pairs], norm


def return_square(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    norm = divide_by_copies(grads, placements, mesh)
    return scale(grads, norm, clip_norm), norm**2


def decide_alone(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    """Clip only where the norm of the rank's own part is above the threshold."""
    norm = divide_by_copies(grads, placements, mesh)
    if reduce_nothing(grads, placements, mesh) <= clip_norm:
        return list(grads), norm
    return scale(grads, norm, clip_norm), norm


def sum_norms(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return float(mesh.all_reduce(reduce_nothing(grads, placements, mesh)))


def return_own_norm(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    norm = divide_by_copies(grads, placements, mesh)
    return scale(grads, norm, clip_norm), reduce_nothing(grads, placements, mesh)


def drift(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    """Let the copies of all ranks but the first differ in their last digit."""
    norm = divide_by_copies(grads, placements, mesh)
    clipped = scale(grads, norm, clip_norm)
    if mesh.rank and norm > clip_norm:
        clipped = [None if g is None else np.nextafter(g, np.zeros_like(g)) for g in clipped]
    return clipped, norm


def leave_early(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    """Return before the collective on a rank without gradients."""
    if not any(g is not None and g.size for g in grads):
        return list(grads), 0.0
    norm = divide_by_copies(grads, placements, mesh)
    return scale(grads, norm, clip_norm), norm


def skip_nonfinite(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    """Return before the collective on a rank that sees a NaN or an infinity."""
    own = reduce_nothing(grads, placements, mesh)
    if not math.isfinite(own):
        return list(grads), own
    norm = divide_by_copies(grads, placements, mesh)
    return scale(grads, norm, clip_norm), norm


def reduce_for_each_gradient(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Enter one collective for each gradient, although the ranks have different numbers of them."""
    pairs = zip(grads, placements, strict=True)
    return math.sqrt(sum(mesh.all_reduce(sum_squares(g) / mesh.count_copies(p)) for g, p in pairs))


def average_squares(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    return math.sqrt(float(mesh.all_reduce(sum(map(sum_squares, grads)))) / mesh.size)


def choose_other_collective(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Enter another collective on a rank without gradients."""
    squares = sum_shares(grads, placements, mesh)
    has_any = any(gradient is not None for gradient in grads)
    return math.sqrt(mesh.all_reduce(squares, "sum" if has_any else "max"))


def add_epsilon_per_rank(grads: Gradients, *, clip_norm: float, placements: Placements, mesh: RankMesh) -> Any:
    """Add the epsilon to the norm on each rank, before the norms are joined."""
    norm = divide_by_copies(grads, placements, mesh)
    return scale(grads, mesh.all_reduce(norm / mesh.size + 1e-6), clip_norm), norm


def add_epsilon_to_squares(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Add the epsilon to the squares on each rank, before they are reduced."""
    return math.sqrt(mesh.all_reduce(sum_shares(grads, placements, mesh) + 1e-6))


def add_epsilon_to_norms(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Return the norm with the epsilon of each rank."""
    return float(mesh.all_reduce(divide_by_copies(grads, placements, mesh) / mesh.size + 1e-6))


def add_epsilon_once(grads: Gradients, placements: Placements, mesh: RankMesh) -> float:
    """Add an epsilon to the sum of squares of the whole, as some do without a mesh."""
    return math.sqrt(divide_by_copies(grads, placements, mesh) ** 2 + 1e-6)


#: Clips that add an epsilon, each with the cause of most of its wrong answers.
WITH_EPSILON = {
    "epsilon-under-root-per-rank": make_clip(add_epsilon_to_squares),
    "epsilon-per-rank": make_clip(add_epsilon_to_norms),
    "eps-under-root": make_clip(add_epsilon_once),
}

#: The wrong clips, each with the cause that a finding must name.
WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "count_copies_again": (make_clip(count_copies_again), "copies-counted"),
    "reduce_nothing": (make_clip(reduce_nothing), "ranks-not-reduced"),
    "reduce_one_axis": (make_clip(reduce_one_axis), "axes-left-out"),
    "average_norms": (make_clip(average_norms), "rank-norms-averaged"),
    "take_largest_norm": (make_clip(take_largest_norm), "largest-rank-norm"),
    "take_norm_of_first": (make_clip(take_norm_of_first), "norm-of-one-rank"),
    "count_copies_on_first": (make_clip(count_copies_on_first), "shards-left-out"),
    "average_shares": (make_clip(average_shares), "rank-squares-averaged"),
    "decide_alone": (decide_alone, "ranks-decide-alone"),
    "divide_what_one_counts": (make_clip(divide_what_one_counts), "copies-undercounted"),
    "leave_copies_out": (make_clip(leave_copies_out), "copies-undercounted"),
    "average_experts": (make_clip(average_experts), "rank-norms-averaged"),
    "reduce_experts_over_last_axis": (make_clip(reduce_experts_over_last_axis), "axes-left-out"),
    "lose_nan": (make_clip(lose_nan), "nonfinite-silent"),
    "lose_nan_in_maximum": (lose_nan_in_maximum, "nonfinite-silent"),
    "add_from_own_rank_on": (make_clip(add_from_own_rank_on), "processes-differ"),
    "average_coefficients": (average_coefficients, "coefficients-averaged"),
    "clip_each_part": (clip_each_part, "norm-of-each"),
    "return_square": (return_square, "no-root"),
    "count_excluded": (count_excluded, "excluded-counted"),
    "sum_norms": (make_clip(sum_norms), "rank-norms-summed"),
    "return_own_norm": (return_own_norm, "part-of-norm-returned"),
    "drift": (drift, "processes-differ"),
    "leave_early": (leave_early, "rank-absent"),
    "skip_nonfinite": (skip_nonfinite, "rank-absent"),
    "reduce_for_each_gradient": (make_clip(reduce_for_each_gradient), "rank-absent"),
    "average_squares": (make_clip(average_squares), "rank-squares-averaged"),
    "choose_other_collective": (make_clip(choose_other_collective), "collectives-differ"),
    "add_epsilon_per_rank": (add_epsilon_per_rank, "epsilon-per-rank"),
}
