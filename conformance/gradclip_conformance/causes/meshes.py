"""Explain wrong answers on a mesh: each model is a way in which the norm of the whole comes wrongly from the ranks.

A model explains a cell if it reproduces the answer within the rounding of the dtype, and the right answer does not.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Call, Gradient, Reply
from gradclip_adapters.matching import MISMATCH
from gradclip_adapters.mesh import Mesh, cut_call, find_placement, get_mesh, join_replies, list_gradients
from gradclip_adapters.operations import OPERATIONS

from ..cases.model import Case
from ..judge.model import Raised, Replied
from ..oracle.formats import FORMATS, read_float64_values
from .facts import NORM_ERROR, SCALING_ERROR
from .model import Explanation, Judged

#: For each rank, the places of its gradients and its parts of them in float64.
Held = Sequence[Sequence[tuple[int, "np.ndarray[Any, Any] | None"]]]

#: A function that returns the norm that each rank finds.
FindNorms = Callable[["_Parts"], Sequence[float]]

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


#: The causes of an epsilon that each rank adds, by the cause of one that is added once.
PER_RANK = {
    "eps-in-coefficient": "epsilon-per-rank",
    "eps-under-root": "epsilon-under-root-per-rank",
}

EPSILON_CAUSES = frozenset([*PER_RANK, *PER_RANK.values()])


def list_on_mesh(judged: Judged, others: Sequence[Explanation]) -> list[Explanation]:
    """Return each explanation of a cell on a mesh. `others` holds those by models that know nothing of ranks."""
    found = [Explanation.of(cause) for cause in _list_fitting(judged)]
    size = get_mesh(judged.context.case.call("")).size
    known = [_name_epsilon_per_rank(one, size) for one in others]
    if any(one.cause in EPSILON_CAUSES for one in known):
        # The sums of these calls are short. An epsilon of each rank may be as small as the error bound of float32.
        known = [one for one in known if one.cause != "long-sum"]
    # A norm of zero may be that of a rank with zeros, but the squares underflow on any rank.
    is_lost = any(one.cause == "squares-underflow" for one in known)
    return list(dict.fromkeys([*known, *found] if is_lost else [*found, *known]))


def _name_epsilon_per_rank(one: Explanation, size: int) -> Explanation:
    """Return the explanation. If an epsilon is the size of the mesh times a power of ten, each rank has added it."""
    eps = float(dict(one.parameters).get("eps") or 0.0)
    is_per_rank = one.cause in PER_RANK and eps > 0 and _is_power_of_ten(eps / size)
    return Explanation.of(PER_RANK[one.cause]) if is_per_rank else one


def _is_power_of_ten(number: float) -> bool:
    exponent = math.log10(number)
    # A fitted epsilon has a few digits.
    return math.isclose(exponent, round(exponent), abs_tol=0.01)


def _list_fitting(judged: Judged) -> list[str]:
    """Return the causes whose models reproduce the answer of a cell."""
    case = judged.context.case
    if len(judged.answers) != 1 or not OPERATIONS[case.operation].is_by_norm:
        return []
    (answer,) = judged.answers
    if isinstance(answer, Raised):
        if answer.kind != MISMATCH:
            return []
        # A rank that has ended takes part in no collective.
        return ["rank-absent" if "returned" in answer.text else "collectives-differ"]
    if not isinstance(answer, Replied) or answer.reply.malformed is not None:
        return []
    found = _Answer(case, answer.reply)
    if found.is_clipped_by(_find_right):
        return _explain_rest(found)
    return _list_wrong_norms(found) or (["processes-differ"] if answer.reply.apart else [])


@dataclass(frozen=True)
class _Answer:
    """The results of a call on a mesh, and what each rank had of the gradients."""

    case: Case
    reply: Reply

    @cached_property
    def call(self) -> Call:
        return self.case.call("")

    @cached_property
    def summed(self) -> Call:
        """The call after partial gradients are summed: each rank of the axis has a copy of the sum."""
        return replace(self.call, gradients=tuple(map(_sum_partial, self.call.gradients)))

    @cached_property
    def mesh(self) -> Mesh:
        return get_mesh(self.call)

    @cached_property
    def held(self) -> Held:
        """The parts that each rank clips."""
        return _cut(self.call)

    @cached_property
    def groups(self) -> list[list[int]]:
        """The indices of the gradients that share a norm, for each norm."""
        included = list(self.case.included)
        return [included] if OPERATIONS[self.case.operation].is_global else [[place] for place in included]

    @cached_property
    def parts(self) -> list[_Parts]:
        """The parts of each group."""
        return self.find_parts(self.summed, self.groups)

    def find_parts(self, call: Call, groups: Sequence[Sequence[int]], shown: Call | None = None) -> list[_Parts]:
        """Return the parts of some groups of a call."""
        return [_Parts(call, members, self.case.norm_type, shown) for members in groups]

    def is_clipped_by(
        self, find: FindNorms, parts: Sequence[_Parts] | None = None, epsilons: Sequence[float] = EPSILONS
    ) -> bool:
        """Return whether the results are those of ranks that clip by the norms that a model finds."""
        chosen = self.parts if parts is None else parts
        pairs = [(one, find(one)) for one in chosen]
        norms = {place: ranks for one, ranks in pairs for place in one.gradients if place in self.case.included}
        return any(self._has_results_of(norms, eps) for eps in epsilons)

    def _has_results_of(self, norms: Mapping[int, Sequence[float]], eps: float) -> bool:
        threshold = float(self.case.options["clip_norm"])
        replies = []
        for rank, of_rank in enumerate(self.held):
            results: list[Array | None] = []
            for place, values in of_rank:
                norm = norms[place][rank] + eps if place in norms else 0.0
                factor = 1.0 if norm <= threshold else threshold / norm
                results.append(None if values is None else Array.of(values * factor))
            replies.append(Reply(tuple(results)))
        expected = join_replies(self.call, replies).gradients
        pairs = zip(self.reply.gradients, expected, strict=False)
        return len(expected) == len(self.reply.gradients) and all(_are_close(one, other) for one, other in pairs)


def _sum_partial(gradient: Gradient) -> Gradient:
    summed = {name: "replicated" if one == "partial" else one for name, one in gradient.placements.items()}
    return replace(gradient, placements=summed)


def _are_close(observed: Array | None, expected: Array | None) -> bool:
    if observed is None or expected is None:
        return observed is expected
    if observed.shape != expected.shape or observed.dtype not in FORMATS:
        return False
    found, wanted = read_float64_values(observed), expected.numpy().ravel()
    form = FORMATS[observed.dtype]
    # The model uses float64. The answer may have the errors of a norm and of a scaling in its own dtype.
    relative = (NORM_ERROR + 2 * SCALING_ERROR) * 2.0**-form.precision
    absolute = float(form.smallest_normal) * relative
    return bool(np.allclose(np.asarray(found).ravel(), wanted, rtol=relative, atol=absolute, equal_nan=True))


def _list_wrong_norms(answer: _Answer) -> list[str]:
    """Return the causes whose models find the norms by which the ranks have clipped."""
    case, is_global = answer.case, OPERATIONS[answer.case.operation].is_global
    found: dict[str, None] = {}
    for cause, find in _list_models(answer.mesh):
        if cause not in found and answer.is_clipped_by(find):
            found[cause] = None
    if answer.call != answer.summed:
        found |= dict.fromkeys(_list_mistakes_with_addends(answer))
    alone = answer.find_parts(answer.summed, [[place] for place in case.included])
    if is_global and answer.is_clipped_by(_reduce_nothing, alone):
        found["norm-of-each"] = None
    every = [place for place, gradient in enumerate(case.gradients) if gradient.array is not None]
    has_excluded = len(every) > len(case.included)
    if is_global and has_excluded and answer.is_clipped_by(_find_right, answer.find_parts(answer.summed, [every])):
        found["excluded-counted"] = None
    if answer.is_clipped_by(_find_right, epsilons=[answer.mesh.size * eps for eps in EPSILONS[1:]]):
        found["epsilon-per-rank"] = None
    return list(found)


def _list_mistakes_with_addends(answer: _Answer) -> list[str]:
    """Return the cause if the norm comes from the addends of partial gradients, and not from their sum."""
    # They may be taken for parts of the whole, or for copies.
    as_parts = answer.find_parts(answer.call, answer.groups)
    as_copies = answer.find_parts(answer.call, answer.groups, shown=answer.summed)
    for cause, find in _list_models_of_addends(answer.call, answer.mesh):
        if answer.is_clipped_by(find, as_parts) or answer.is_clipped_by(find, as_copies):
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


def _explain_rest(answer: _Answer) -> list[str]:
    """Explain an answer whose joined results are right: by the norm, or by copies that differ."""
    reply = answer.reply
    if len(answer.parts) == 1 and reply.norm is not None and reply.norm.dtype in FORMATS and len(reply.norm.data):
        (parts,) = answer.parts
        norm, right = float(read_float64_values(reply.norm)[0]), _find_right(parts)[0]
        error = NORM_ERROR * 2.0 ** -FORMATS[reply.norm.dtype].precision
        differs = _have_other_norms(reply, error)
        # A norm of zero on all ranks is no part: its powers have underflowed.
        if differs or (norm and not math.isclose(norm, right, rel_tol=error)):
            models = _list_models(answer.mesh)
            fitting = [(cause, find) for cause, find in models if math.isclose(norm, find(parts)[0], rel_tol=error)]
            # The clip may be wrong, too, although this call does not show it.
            causes = [cause for cause, find in fitting if answer.is_clipped_by(find)]
            return list(dict.fromkeys([*causes, *(["part-of-norm-returned"] if differs or fitting else [])]))
    return ["processes-differ"] if reply.apart else []


def _have_other_norms(reply: Reply, error: float) -> bool:
    """Return whether two ranks return norms that differ by more than this relative error."""
    said = "\n".join(reply.apart or ())
    for found in re.finditer(r"the norm (\S+) in process \d+ and (\S+) in process", said):
        try:
            one, other = map(float, found.groups())
        except ValueError:
            # One of them is None, or a list.
            return True
        if not math.isclose(one, other, rel_tol=error):
            return True
    return False
