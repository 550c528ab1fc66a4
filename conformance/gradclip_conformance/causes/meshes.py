"""Explain wrong answers on a mesh: each model is a way in which the norm of the whole comes wrongly from the ranks.

A model explains a cell if it reproduces the answer within the rounding of the dtype, and the right answer does not. Of
the models that fit, the one that explains most cells of an entry point is named.
"""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Call, Gradient, Reply
from gradclip_adapters.matching import MISMATCH
from gradclip_adapters.mesh import Mesh, cut_call, find_placement, get_mesh, join_replies, list_gradients
from gradclip_adapters.operations import OPERATIONS

from ..cases.model import Case
from ..judge.model import Answer, Raised, Replied
from ..oracle.formats import FORMATS, read_float64_values
from .model import Explanation, Judged

__all__ = ["PER_RANK", "explain_on_meshes", "name_epsilon_per_rank"]

#: For each rank, the places of its gradients and its parts of them in float64.
Held = Sequence[Sequence[tuple[int, "np.ndarray[Any, Any] | None"]]]

#: A function that returns the norm that each rank finds.
FindNorms = Callable[["_Parts"], Sequence[float]]

#: Rounding of a sum and of a product, in units of the dtype. A model uses float64; the answer may sum in its own dtype.
ROUNDINGS = 32

#: What functions add to the norm in the divisor.
EPSILONS = (0.0, 1e-6)


def _cut(call: Call) -> Held:
    """Return what each rank of a call has."""
    return [
        [
            (place, None if part.array is None else read_float64_values(part.array).reshape(part.array.shape))
            for place, part in zip(list_gradients(call, rank), cut_call(call, rank).gradients, strict=True)
        ]
        for rank in range(get_mesh(call).size)
    ]


def _reduce_partial(call: Call) -> Call:
    """Return the call after partial gradients are summed: each rank of the axis has a copy of the sum."""
    summed = [
        replace(
            gradient,
            placements={
                name: "replicated" if placement == "partial" else placement
                for name, placement in gradient.placements.items()
            },
        )
        for gradient in call.gradients
    ]
    return replace(call, gradients=tuple(summed))


class _Parts:
    """The parts of one group of gradients that has a norm of its own, on all ranks."""

    def __init__(self, call: Call, members: Sequence[int], order: float, shown: Call | None = None) -> None:
        """Find the parts of a call. The placements are those of the call `shown`, or else of the same call."""
        self.mesh = get_mesh(call)
        self.order = order
        self.threshold = float(call.options["clip_norm"])
        self.gradients = {place: (shown or call).gradients[place] for place in members}
        self.powers = [
            {
                place: _sum_powers(values, order)
                for place, values in of_rank
                if place in self.gradients and values is not None
            }
            for of_rank in _cut(call)
        ]

    def count_copies(self, place: int, axes: Sequence[str]) -> int:
        """Return how many ranks along some axes have the same copy."""
        gradient: Gradient = self.gradients[place]
        replicated = [name for name in axes if find_placement(gradient, name) == "replicated"]
        return math.prod(self.mesh.axes[name] for name in replicated)

    def reduce(self, axes: Sequence[str], counted_once: Sequence[str]) -> list[float]:
        """Return the norm on each rank: summed over some axes, where copies along other axes count once."""
        own = [
            _combine([power / self._divide(place, counted_once) for place, power in held.items()], self.order)
            for held in self.powers
        ]
        groups = [self.mesh.find_group(rank, axes) for rank in range(self.mesh.size)]
        return [_take_root(_combine([own[rank] for rank in group], self.order), self.order) for group in groups]

    def _divide(self, place: int, axes: Sequence[str]) -> int:
        return 1 if self.order == math.inf else self.count_copies(place, axes)

    def change(self, change: Callable[[int, float], float | None]) -> _Parts:
        """Return the parts with other sums of powers, from each place and its sum. None leaves the part out."""
        changed = copy.copy(self)
        changed.powers = [
            {place: new for place, power in held.items() if (new := change(place, power)) is not None}
            for held in self.powers
        ]
        return changed

    def is_owned(self, place: int) -> bool:
        """Return whether only some ranks have a gradient."""
        words = self.gradients[place].placements.values()
        return any(str(word).startswith(("owned", "only")) for word in words)


def _sum_powers(values: np.ndarray[Any, Any], order: float) -> float:
    if order == math.inf:
        return float(np.max(np.abs(values), initial=0.0))
    return float(np.sum(np.abs(values) ** order))


def _combine(powers: Sequence[float], order: float) -> float:
    return float(np.max(powers, initial=0.0)) if order == math.inf else sum(powers)


def _take_root(power: float, order: float) -> float:
    return power if order == math.inf else power ** (1 / order)


def _find_right(parts: _Parts) -> Sequence[float]:
    every = list(parts.mesh.axes)
    return parts.reduce(every, every)


def _count_all_copies(parts: _Parts) -> Sequence[float]:
    return parts.reduce(list(parts.mesh.axes), [])


def _reduce_nothing(parts: _Parts) -> Sequence[float]:
    return parts.reduce([], [])


#: What becomes of the norms of all ranks, by cause. A function may count copies on each rank, or a share of each copy.
OF_RANKS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "rank-norms-averaged": lambda norms: sum(norms) / len(norms),
    "largest-rank-norm": lambda norms: float(np.max(norms)),
    "rank-norms-summed": sum,
    "norm-of-one-rank": lambda norms: norms[0],
}


def _join_norms(
    parts: _Parts, join: Callable[[Sequence[float]], float], counted_once: Sequence[str]
) -> Sequence[float]:
    norms = parts.reduce([], counted_once)
    return [join(norms)] * len(norms)


def _average_squares(parts: _Parts, counted_once: Sequence[str]) -> Sequence[float]:
    whole = parts.reduce(list(parts.mesh.axes), counted_once)
    share = 1.0 if parts.order == math.inf else parts.mesh.size ** (-1 / parts.order)
    return [norm * share for norm in whole]


def _count_on_first_rank(parts: _Parts) -> Sequence[float]:
    """Count a gradient on the first rank only if it is replicated along any axis."""
    powers = [
        power
        for rank, held in enumerate(parts.powers)
        for place, power in held.items()
        if rank == 0 or parts.count_copies(place, list(parts.mesh.axes)) == 1
    ]
    return [_take_root(_combine(powers, parts.order), parts.order)] * parts.mesh.size


def _average_coefficients(parts: _Parts) -> Sequence[float]:
    """Average the coefficients that the ranks find from their own norms."""
    norms, threshold = parts.reduce([], []), parts.threshold
    average = sum(1.0 if norm <= threshold else threshold / norm for norm in norms) / len(norms)
    return [np.float64(threshold) / average] * len(norms)


def _decide_alone(parts: _Parts, is_above: Callable[[float, float], bool]) -> Sequence[float]:
    """Clip by the right norm, but only on the ranks whose own norm is above the threshold."""
    pairs = zip(_find_right(parts), parts.reduce([], []), strict=True)
    return [right if is_above(own, parts.threshold) else 0.0 for right, own in pairs]


def _undercount(parts: _Parts) -> Sequence[float]:
    """Divide by the number of copies what one rank alone counts."""
    every = list(parts.mesh.axes)
    return _find_right(parts.change(lambda place, power: power / parts.count_copies(place, every)))


def _leave_copies_out(parts: _Parts) -> Sequence[float]:
    """Count nothing of what all ranks have."""
    mesh = parts.mesh
    return _find_right(
        parts.change(lambda place, power: None if parts.count_copies(place, list(mesh.axes)) == mesh.size else power)
    )


def _skip_nonfinite_parts(parts: _Parts) -> Sequence[float]:
    return _find_right(parts.change(lambda _, power: power if math.isfinite(power) else None))


def _skip_nonfinite_ranks(parts: _Parts) -> Sequence[float]:
    kept = copy.copy(parts)
    kept.powers = [held if all(map(math.isfinite, held.values())) else {} for held in parts.powers]
    return _find_right(kept)


def _mistake_owned(parts: _Parts, find: FindNorms) -> Sequence[float]:
    """Count right what is not owned, and by another model what is."""
    dense = _find_right(parts.change(lambda place, power: None if parts.is_owned(place) else power))
    owned = find(parts.change(lambda place, power: power if parts.is_owned(place) else None))
    if parts.order == math.inf:
        return [max(pair) for pair in zip(dense, owned, strict=True)]
    pairs = zip(dense, owned, strict=True)
    return [(one**parts.order + other**parts.order) ** (1 / parts.order) for one, other in pairs]


def _list_models(mesh: Mesh) -> Iterator[tuple[str, FindNorms]]:
    """Yield the causes and their models. Of several that explain as many cells, the first is named."""
    every, none = list(mesh.axes), list[str]()
    yield "nonfinite-silent", _skip_nonfinite_parts
    yield "nonfinite-silent", _skip_nonfinite_ranks
    yield "ranks-not-reduced", _reduce_nothing
    yield "copies-counted", _count_all_copies
    for counted_once in (none, every):
        for cause, join in OF_RANKS.items():
            yield cause, partial(_join_norms, join=join, counted_once=counted_once)
        yield "rank-squares-averaged", partial(_average_squares, counted_once=counted_once)
    yield "shards-left-out", _count_on_first_rank
    yield "coefficients-averaged", _average_coefficients
    yield "ranks-decide-alone", partial(_decide_alone, is_above=lambda norm, threshold: norm > threshold)
    # This differs for NaN.
    yield "ranks-decide-alone", partial(_decide_alone, is_above=lambda norm, threshold: not norm <= threshold)
    yield "copies-undercounted", _undercount
    yield "copies-undercounted", _leave_copies_out
    yield "ranks-not-reduced", partial(_mistake_owned, find=_reduce_nothing)
    for cause, join in OF_RANKS.items():
        yield cause, partial(_mistake_owned, find=partial(_join_norms, join=join, counted_once=none))
    for count in range(1, len(every)):
        for axes in combinations(every, count):
            yield "copies-counted", partial(_Parts.reduce, axes=every, counted_once=axes)
            for counted_once in (list(axes), every, none):
                reduce = partial(_Parts.reduce, axes=axes, counted_once=counted_once)
                yield "axes-left-out", reduce
                yield "axes-left-out", partial(_mistake_owned, find=reduce)


def explain_on_meshes(cells: Sequence[Judged], preferred: Sequence[str] = ()) -> list[Explanation | None]:
    """Return the explanation of each cell on a mesh, or None if no model explains it.

    `cells` are those of one entry point. `preferred` holds causes that it is known to have.
    """
    fitting = [_list_fitting(judged) for judged in cells]
    found: list[Explanation | None] = [None] * len(cells)
    left = {place for place, causes in enumerate(fitting) if causes}
    while left:
        times = Counter(cause for place in left for cause in fitting[place])
        order = list(dict.fromkeys(cause for place in sorted(left) for cause in fitting[place]))
        best = max(order, key=lambda cause: (cause in preferred, times[cause]))
        for place in [place for place in left if best in fitting[place]]:
            found[place] = Explanation.of(best)
            left.remove(place)
    return found


#: The causes of an epsilon that each rank adds, by the cause of one that is added once.
PER_RANK = {
    "eps-in-coefficient": "epsilon-per-rank",
    "eps-under-root": "epsilon-under-root-per-rank",
}


def name_epsilon_per_rank(case: Case, found: Explanation | None) -> Explanation | None:
    """Return the explanation. If an epsilon is the size of the mesh times a power of ten, each rank has added it."""
    eps = 0.0 if found is None else float(dict(found.parameters).get("eps") or 0.0)
    if found is None or found.cause not in PER_RANK or eps <= 0:
        return found
    return Explanation.of(PER_RANK[found.cause]) if _is_power_of_ten(eps / get_mesh(case.call("")).size) else found


def _is_power_of_ten(number: float) -> bool:
    exponent = math.log10(number)
    # A fitted epsilon has a few digits.
    return math.isclose(exponent, round(exponent), abs_tol=0.01)


def _list_fitting(judged: Judged) -> list[str]:
    """Return the causes whose models reproduce the answer of a cell."""
    case = judged.context.case
    if len(judged.answers) != 1 or not OPERATIONS[case.operation].is_by_norm:
        return []
    with np.errstate(all="ignore"):
        return _fit_answer(case, judged.answers[0])


def _fit_answer(case: Case, answer: Answer) -> list[str]:
    if isinstance(answer, Raised):
        if answer.kind != MISMATCH:
            return []
        # A rank that has ended takes part in no collective.
        return ["rank-absent" if "returned" in answer.text else "collectives-differ"]
    if not isinstance(answer, Replied) or answer.reply.malformed is not None:
        return []
    reply = answer.reply
    groups, held = _group(case), _cut(case.call(""))
    every = [_Parts(_reduce_partial(case.call("")), members, case.norm_type) for members in groups]
    right = [_find_right(parts) for parts in every]
    if any(_is_reproduced(case, reply, held, groups, right, eps) for eps in EPSILONS):
        return _explain_rest(case, reply, held, groups, every, right)
    fitting = []
    smallest = float(FORMATS[case.dtype].smallest_normal)
    powers = [norm**case.norm_type for ranks in right for norm in ranks]
    underflows = case.norm_type < math.inf and max(powers, default=0.0) < smallest
    for cause, find in _list_models(get_mesh(case.call(""))):
        norms = [find(parts) for parts in every]
        if underflows and not any(norm for ranks in norms for norm in ranks):
            # A norm of zero may be that of a rank with zeros, but the squares underflow on any rank.
            continue
        if cause not in fitting and any(_is_reproduced(case, reply, held, groups, norms, eps) for eps in EPSILONS):
            fitting.append(cause)
    fitting += _fit_addends(case, reply, held, groups)
    if OPERATIONS[case.operation].is_global and _is_clipped_alone(case, reply, held):
        fitting.append("norm-of-each")
    if OPERATIONS[case.operation].is_global and _counts_excluded(case, reply, held):
        fitting.append("excluded-counted")
    size = get_mesh(case.call("")).size
    if any(_is_reproduced(case, reply, held, groups, right, size * eps) for eps in EPSILONS[1:]):
        fitting.append("epsilon-per-rank")
    return fitting or (["processes-differ"] if reply.apart else [])


def _fit_addends(case: Case, reply: Reply, held: Held, groups: Sequence[Sequence[int]]) -> list[str]:
    """Return the cause if the norm of an answer comes from the addends of partial gradients, and not from their sum."""
    call = case.call("")
    if call == _reduce_partial(call):
        return []
    mesh = get_mesh(call)
    every = [_Parts(call, members, case.norm_type) for members in groups]
    # They may be taken for parts of the whole, or for copies.
    as_copies = [_Parts(call, members, case.norm_type, _reduce_partial(call)) for members in groups]
    for cause, find in _list_models_of_addends(call, mesh):
        for parts in (every, as_copies):
            norms = [find(one) for one in parts]
            if any(_is_reproduced(case, reply, held, groups, norms, eps) for eps in EPSILONS):
                return [cause]
    return []


def _list_models_of_addends(call: Call, mesh: Mesh) -> Iterator[tuple[str, FindNorms]]:
    """Yield the causes and models of norms that come from addends."""
    every, none = list(mesh.axes), list[str]()
    partial_axes = {
        name for gradient in call.gradients for name in mesh.axes if find_placement(gradient, name) == "partial"
    }
    yield "ranks-not-reduced", _reduce_nothing
    for axes in (every, [name for name in every if name not in partial_axes]):
        for counted_once in (every, none):
            yield "addends-counted", partial(_Parts.reduce, axes=axes, counted_once=counted_once)
    yield "addends-counted", _count_on_first_rank


def _is_clipped_alone(case: Case, reply: Reply, held: Held) -> bool:
    """Return whether each rank clips its part of each gradient by the norm of this part."""
    groups = [[place] for place in case.included]
    call = _reduce_partial(case.call(""))
    norms = [_reduce_nothing(_Parts(call, members, case.norm_type)) for members in groups]
    return any(_is_reproduced(case, reply, held, groups, norms, eps) for eps in EPSILONS)


def _counts_excluded(case: Case, reply: Reply, held: Held) -> bool:
    """Return whether all ranks clip by the norm of all gradients, although some are excluded."""
    members = [place for place, gradient in enumerate(case.gradients) if gradient.array is not None]
    if len(members) == len(case.included):
        return False
    norms = _find_right(_Parts(_reduce_partial(case.call("")), members, case.norm_type))
    return any(_is_reproduced(case, reply, held, [case.included], [norms], eps) for eps in EPSILONS)


def _explain_rest(
    case: Case,
    reply: Reply,
    held: Held,
    groups: Sequence[Sequence[int]],
    every: Sequence[_Parts],
    right: Sequence[Sequence[float]],
) -> list[str]:
    """Explain an answer whose joined results are right: by the norm, or by copies that differ."""
    if len(every) == 1 and reply.norm is not None and reply.norm.dtype in FORMATS and len(reply.norm.data):
        norm = float(np.asarray(read_float64_values(reply.norm)).ravel()[0])
        differs = _have_other_norms(reply)
        # A norm of zero on all ranks is no part: its powers have underflowed.
        if differs or (norm and not math.isclose(norm, right[0][0], rel_tol=1e-3)):
            found = [(cause, find(every[0])) for cause, find in _list_models(get_mesh(case.call("")))]
            fitting = [one for one in found if math.isclose(norm, one[1][0], rel_tol=1e-3)]
            # The clip may be wrong, too, although this call does not show it.
            causes = [
                cause
                for cause, norms in fitting
                if any(_is_reproduced(case, reply, held, groups, [norms], eps) for eps in EPSILONS)
            ]
            return list(dict.fromkeys([*causes, *(["part-of-norm-returned"] if differs or fitting else [])]))
    return ["processes-differ"] if reply.apart else []


def _have_other_norms(reply: Reply) -> bool:
    """Return whether two ranks return norms that differ by more than a rounding error."""
    said = "\n".join(reply.apart or ())
    for found in re.finditer(r"the norm (\S+) in process \d+ and (\S+) in process", said):
        try:
            one, other = map(float, found.groups())
        except ValueError:
            # One of them is None, or a list.
            return True
        if not math.isclose(one, other, rel_tol=1e-3):
            return True
    return False


def _group(case: Case) -> list[list[int]]:
    """Return the indices of the gradients that share a norm, for each norm."""
    if OPERATIONS[case.operation].is_global:
        return [list(case.included)]
    return [[place] for place in case.included]


def _is_reproduced(
    case: Case,
    reply: Reply,
    held: Held,
    groups: Sequence[Sequence[int]],
    norms: Sequence[Sequence[float]],
    eps: float,
) -> bool:
    """Return whether the results are those of ranks that clip by these norms."""
    call = case.call("")
    threshold = float(case.options["clip_norm"])
    norm_of = {place: ranks for members, ranks in zip(groups, norms, strict=True) for place in members}
    replies = []
    for rank, of_rank in enumerate(held):
        results: list[Array | None] = []
        for place, values in of_rank:
            if values is None:
                results.append(None)
                continue
            norm = norm_of[place][rank] if place in norm_of else 0.0
            factor = 1.0 if norm + eps <= threshold else threshold / (norm + eps)
            results.append(Array.of(values * factor))
        replies.append(Reply(tuple(results)))
    expected = join_replies(call, replies).gradients
    if len(expected) != len(reply.gradients):
        return False
    return all(_are_close(one, other) for one, other in zip(reply.gradients, expected, strict=True))


def _are_close(observed: Array | None, expected: Array | None) -> bool:
    if observed is None or expected is None:
        return observed is expected
    if observed.shape != expected.shape or observed.dtype not in FORMATS:
        return False
    found, wanted = read_float64_values(observed), expected.numpy().ravel()
    form = FORMATS[observed.dtype]
    relative = ROUNDINGS * 2.0 ** (1 - form.precision)
    absolute = float(form.smallest_normal) * relative
    return bool(np.allclose(np.asarray(found).ravel(), wanted, rtol=relative, atol=absolute, equal_nan=True))
