"""Describe a mesh of processes, and give each process its parts of the gradients.

A mesh has named axes with sizes, such as `{"replica": 2, "shard": 2}`. Its ranks are numbered row by row: the last axis
varies fastest. For each axis of the mesh, a gradient has a placement:

- "replicated": each rank along this axis has the same copy. An axis that `Gradient.placements` does not name is of this
  kind.
- A number: each rank has a part along this axis of the array. All parts have the same length, but the last ones may be
  shorter, or empty.
- "owned by 1": only the ranks with this coordinate have the parameter, as with experts and the stages of a pipeline.
  The lists of the other ranks leave it out.
- "only on 1": the same, but the lists of the other ranks hold None in its place.
- "partial": the gradient is the sum of what the ranks have. So are the results: their sum is the clipped gradient. Only
  entry points with the feature `partial` get such gradients.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from .arrays import INFINITY_BITS
from .contract import DTYPES, Array, Call, Gradient, Placement, Reply, Unsupported, find_numpy_dtype

__all__ = [
    "MOST_RANKS",
    "Mesh",
    "check_placement",
    "compare_copies",
    "cut_array",
    "cut_call",
    "find_part",
    "find_placement",
    "find_sharded_axis",
    "get_mesh",
    "is_held",
    "join_replies",
    "list_gradients",
    "parse_mesh",
]

#: The largest number of ranks of a mesh.
MOST_RANKS = 8

#: The placements of a parameter that only some ranks have.
_OWNED = re.compile(r"(?:owned by|only on) ([0-9])")


class Mesh:
    """The named axes of a mesh, and its ranks.

    Parameters
    ----------
    axes
        The size of each axis by its name, the slowest first.

    Raises
    ------
    ValueError
        If a name or a size is no name or size, or if there are more than `MOST_RANKS` ranks.
    """

    def __init__(self, axes: Mapping[str, int]) -> None:
        if not isinstance(axes, Mapping):
            message = f"{axes!r:.40} is no mesh: give the size of each axis, such as {{'replica': 2, 'shard': 2}}"
            raise ValueError(message)
        for name, size in axes.items():
            if not isinstance(name, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,31}", name) is None:
                message = f"{name!r:.40} is not the name of an axis of a mesh: write letters, digits and '_'"
                raise ValueError(message)
            # In Python, a boolean is an integer.
            if type(size) is not int or size < 1:
                message = f"the axis {name!r} of the mesh has the size {size!r:.40}: a size is a whole number above 0"
                raise ValueError(message)
        self.axes: dict[str, int] = dict(axes)
        self.size = 1
        for size in self.axes.values():
            self.size *= size
        if not self.axes or self.size > MOST_RANKS:
            message = (
                f"the mesh {self} has {self.size} ranks: a mesh has at least one axis and at most {MOST_RANKS} ranks"
            )
            raise ValueError(message)

    def __str__(self) -> str:
        """Return the mesh as the command line writes it, such as `replica=2,shard=2`."""
        return ",".join(f"{name}={size}" for name, size in self.axes.items()) or "without axes"

    def find_coordinates(self, rank: int) -> dict[str, int]:
        """Return the coordinate of a rank on each axis."""
        coordinates: dict[str, int] = {}
        for name, size in reversed(list(self.axes.items())):
            rank, coordinates[name] = divmod(rank, size)
        return {name: coordinates[name] for name in self.axes}

    def find_group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks that differ from a rank at most in their coordinates on the named axes, in order."""
        fixed = [name for name in self.axes if name not in axes]
        here = self.find_coordinates(rank)
        return tuple(
            other
            for other in range(self.size)
            if all(self.find_coordinates(other)[name] == here[name] for name in fixed)
        )


def parse_mesh(text: str) -> dict[str, int]:
    """Return the axes of a mesh that is written as on the command line, such as `replica=2,shard=2`.

    Raises
    ------
    ValueError
        If the text is not a mesh, or if the mesh is too large.
    """
    axes: dict[str, int] = {}
    for word in text.split(","):
        name, sign, size = (part.strip() for part in word.partition("="))
        if not sign or not re.fullmatch("[0-9]{1,3}", size) or name in axes:
            message = f"{text!r:.80} is no mesh: write the size of each axis, such as replica=2,shard=2"
            raise ValueError(message)
        axes[name] = int(size)
    return Mesh(axes).axes


def get_mesh(call: Call) -> Mesh:
    """Return the mesh of a call.

    Raises
    ------
    Unsupported
        If the call does not say it.
    """
    if "mesh" not in call.options:
        message = "it makes calls in several processes, and the call does not say in which mesh"
        raise Unsupported(message)
    return Mesh(parse_mesh(call.options["mesh"]))


def check_placement(gradient: Gradient, mesh: Mesh) -> None:
    """Refuse placements that do not fit the mesh or the shape of a gradient.

    Raises
    ------
    ValueError
        If a placement does not fit.
    """
    for name, placement in gradient.placements.items():
        if name not in mesh.axes:
            message = f"the mesh {mesh} has no axis {name!r}"
            raise ValueError(message)
        if isinstance(placement, int):
            axes = 0 if gradient.array is None else len(gradient.array.shape)
            if not 0 <= placement < axes:
                message = f"a gradient with {axes} axes cannot be sharded along its axis {placement}"
                raise ValueError(message)
            continue
        owner = _find_owner(placement)
        if placement not in ("replicated", "partial") and owner is None:
            message = f"{placement!r:.40} is not a placement"
            raise ValueError(message)
        if owner is not None and owner >= mesh.axes[name]:
            message = f"the axis {name!r} of the mesh {mesh} has no coordinate {owner}"
            raise ValueError(message)


def find_placement(gradient: Gradient, axis: str) -> Placement:
    """Return the placement of a gradient on an axis of the mesh."""
    return gradient.placements.get(axis, "replicated")


def find_sharded_axis(gradient: Gradient) -> int | None:
    """Return the first axis of the array along which ranks have parts. It is None if there is none."""
    return next((placement for placement in gradient.placements.values() if isinstance(placement, int)), None)


def _find_owner(placement: Placement) -> int | None:
    """Return the coordinate that has a parameter, or None if all coordinates have it."""
    matched = _OWNED.fullmatch(placement) if isinstance(placement, str) else None
    return None if matched is None else int(matched[1])


def _is_listed(gradient: Gradient, coordinates: Mapping[str, int]) -> bool:
    """Return whether the list of a rank has a place for the gradient."""
    return all(
        _find_owner(placement) in (None, coordinates[name])
        for name, placement in gradient.placements.items()
        if isinstance(placement, str) and placement.startswith("owned")
    )


def is_held(gradient: Gradient, coordinates: Mapping[str, int]) -> bool:
    """Return whether a rank has the gradient, or a part of it."""
    return all(_find_owner(placement) in (None, coordinates[name]) for name, placement in gradient.placements.items())


def find_part(length: int, count: int, coordinate: int) -> slice:
    """Return the rows of one of several parts. All have the same number, but the last ones may have fewer, or none."""
    size = -(-length // count)
    return slice(min(coordinate * size, length), min((coordinate + 1) * size, length))


def cut_array(array: Array, gradient: Gradient, mesh: Mesh, rank: int) -> Array:
    """Return the part of an array that a rank has, where the placements are those of the gradient."""
    coordinates = mesh.find_coordinates(rank)
    part = array.bits()
    for name, size in mesh.axes.items():
        placement = find_placement(gradient, name)
        if isinstance(placement, int):
            rows = find_part(part.shape[placement], size, coordinates[name])
            part = part[(slice(None),) * placement + (rows,)]
    cut = Array(array.dtype, part.shape, part.tobytes())
    partial = [name for name in mesh.axes if find_placement(gradient, name) == "partial"]
    return _make_addend(cut, [coordinates[name] for name in partial]) if partial else cut


def _make_addend(array: Array, coordinates: Sequence[int]) -> Array:
    """Return what one rank adds to a sum: twice the array, minus the array, or nothing. These are exact."""
    if any(coordinate > 1 for coordinate in coordinates):
        factor = 0
    elif any(coordinates[1:]):
        # Only one axis has a second addend, so that the sum over all axes is the array.
        factor = 0
    else:
        factor = -1 if coordinates[0] else 2
    numbers = _read_numbers(array.bits(), array.dtype)
    bits = _round_to_bits(np.asarray(numbers * numbers.dtype.type(factor)), array.dtype)
    return Array(array.dtype, array.shape, bits.tobytes())


def _read_numbers(bits: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return the elements with these bits. A bfloat16 is the upper half of a float32, so no package is needed."""
    if dtype == "bfloat16":
        return np.asarray(bits.astype(np.uint32) << 16).view(np.float32)
    return bits.view(find_numpy_dtype(dtype))


def _round_to_bits(numbers: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return the bits of the elements, where float32 stands for bfloat16 and is rounded to nearest, ties to even."""
    if dtype != "bfloat16":
        return numbers.view(DTYPES[dtype])
    bits = numbers.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    # Rounding could make an infinity, or another sign, of the bits of a NaN.
    return np.where(np.isnan(numbers), bits >> 16 | 0x40, rounded).astype(np.uint16)


def list_gradients(call: Call, rank: int) -> list[int]:
    """Return the indices of the gradients that the list of a rank has a place for."""
    coordinates = get_mesh(call).find_coordinates(rank)
    return [place for place, gradient in enumerate(call.gradients) if _is_listed(gradient, coordinates)]


def cut_call(call: Call, rank: int) -> Call:
    """Return the call with the gradients of one rank, or its parts of them. The placements stay."""
    mesh = get_mesh(call)
    coordinates = mesh.find_coordinates(rank)

    def cut(gradient: Gradient) -> Gradient:
        if gradient.array is None:
            return gradient
        if not is_held(gradient, coordinates):
            return replace(gradient, array=None)
        return replace(gradient, array=cut_array(gradient.array, gradient, mesh, rank))

    return replace(call, gradients=tuple(cut(call.gradients[place]) for place in list_gradients(call, rank)))


def join_replies(call: Call, replies: Sequence[Reply]) -> Reply:
    """Return one reply with the whole results, and with the differences between the ranks.

    The gradients and inputs of each reply are the parts of one rank. Copies, and norms, must have the same bits on all
    ranks that have them.
    """
    first = replies[0]
    if any(reply.malformed is not None for reply in replies):
        return next(reply for reply in replies if reply.malformed is not None)
    places = [list_gradients(call, rank) for rank in range(len(replies))]
    for rank, reply in enumerate(replies):
        if len(reply.gradients) != len(places[rank]):
            found, wanted = len(reply.gradients), len(places[rank])
            text = f"returned {found} results in process {rank}, which has {wanted} gradients"
            return first if len(replies) == 1 else Reply((), malformed=text)
    apart = _compare_norms([reply.norm for reply in replies])
    results: list[Array | None] = []
    for place, gradient in enumerate(call.gradients):
        parts = _gather([reply.gradients for reply in replies], places, place)
        for copies in _list_copies(gradient, get_mesh(call), parts):
            apart += compare_copies(copies, f"result {place}")
        try:
            results.append(_join_parts(gradient, get_mesh(call), parts))
        except ValueError as error:
            text = f"returned parts that do not fit together as result {place}: {error}"
            return Reply((), malformed=text)
    return replace(
        first,
        gradients=tuple(results),
        inputs=_join_inputs(call, replies, places),
        same_object=None,
        warnings=tuple(dict.fromkeys(text for reply in replies for text in reply.warnings)),
        shared=_unite([reply.shared for reply in replies]),
        disturbed=_unite([reply.disturbed for reply in replies]),
        apart=tuple(apart),
    )


def _unite(lists: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the texts of all ranks, each once. None if no rank looked."""
    looked = [texts for texts in lists if texts is not None]
    return tuple(dict.fromkeys(text for texts in looked for text in texts)) if looked else None


def _list_copies(
    gradient: Gradient, mesh: Mesh, parts: Mapping[int, Array | None]
) -> Iterator[dict[int, Array | None]]:
    """Yield the results of each set of ranks that must have the same one, by rank."""
    if any(find_placement(gradient, name) == "partial" for name in mesh.axes):
        return
    replicated = [name for name in mesh.axes if find_placement(gradient, name) == "replicated"]
    seen: set[int] = set()
    for rank in parts:
        if rank not in seen:
            group = mesh.find_group(rank, replicated)
            seen.update(group)
            yield {other: parts[other] for other in group if other in parts}


def _gather(
    lists: Sequence[Sequence[Array | None]], places: Sequence[Sequence[int]], place: int
) -> dict[int, Array | None]:
    """Return what each rank that has a gradient says about it. `places` are the gradients of each rank's list."""
    return {rank: arrays[places[rank].index(place)] for rank, arrays in enumerate(lists) if place in places[rank]}


def _join_inputs(
    call: Call, replies: Sequence[Reply], places: Sequence[Sequence[int]]
) -> tuple[Array | None, ...] | None:
    """Return the whole gradients after the call. They are None if a rank does not tell."""
    inputs = [reply.inputs for reply in replies if reply.inputs is not None]
    if len(inputs) < len(replies):
        return None
    mesh = get_mesh(call)
    return tuple(
        _join_parts(gradient, mesh, _gather(inputs, places, place)) for place, gradient in enumerate(call.gradients)
    )


def _join_parts(gradient: Gradient, mesh: Mesh, parts: Mapping[int, Array | None]) -> Array | None:
    """Return the array that the parts form. None stands for no result, which all ranks must agree on."""
    held = {rank for rank in parts if is_held(gradient, mesh.find_coordinates(rank))}
    for rank, part in parts.items():
        if part is not None and rank not in held:
            message = f"process {rank} has no such gradient, and returned an array"
            raise ValueError(message)
    arrays = [parts[rank] for rank in sorted(held)]
    found = [array for array in arrays if array is not None]
    if not found:
        return None
    if len(found) < len(arrays) or len({array.dtype for array in found}) > 1:
        message = f"their dtypes are {[None if part is None else part.dtype for part in arrays]}"
        raise ValueError(message)
    names = list(mesh.axes)

    def join(fixed: dict[str, int]) -> np.ndarray[Any, Any]:
        """Return the part of all ranks with these coordinates on the first axes of the mesh."""
        if len(fixed) == len(names):
            part = parts[next(rank for rank in range(mesh.size) if mesh.find_coordinates(rank) == fixed)]
            assert part is not None
            return part.bits()
        name = names[len(fixed)]
        placement = find_placement(gradient, name)
        if isinstance(placement, int):
            return np.concatenate([join({**fixed, name: each}) for each in range(mesh.axes[name])], placement)
        if placement == "partial":
            dtype = found[0].dtype
            total, *addends = (join({**fixed, name: each}) for each in range(mesh.axes[name]))
            for addend in addends:
                numbers = np.asarray(_read_numbers(total, dtype) + _read_numbers(addend, dtype))
                total = _round_to_bits(numbers, dtype)
            return total
        return join({**fixed, name: _find_owner(placement) or 0})

    whole = join({})
    return Array(found[0].dtype, whole.shape, whole.tobytes())


def compare_copies(copies: Mapping[int, Array | None], name: str) -> list[str]:
    """Return a sentence for `Reply.apart` if a process has another copy than the first one. The keys are processes."""
    settled = {rank: _settle_nans(copy) for rank, copy in copies.items()}
    first = next(iter(settled), 0)
    other = next((rank for rank, copy in settled.items() if copy != settled[first]), None)
    return [] if other is None else [f"returned another {name} in process {other} than in process {first}"]


def _compare_norms(norms: Sequence[Array | None]) -> list[str]:
    """Return a sentence for `Reply.apart` if a process has another norm than the first one."""
    settled = [_settle_nans(norm) for norm in norms]
    other = next((rank for rank, norm in enumerate(settled) if norm != settled[0]), None)
    if other is None:
        return []
    shown = [_show_norm(norms[0]), _show_norm(norms[other])]
    return [f"returned the norm {shown[0]} in process 0 and {shown[1]} in process {other}"]


def _show_norm(norm: Array | None) -> str:
    if norm is None:
        return "None"
    return norm.dtype if norm.dtype == "bfloat16" else str(norm.numpy().tolist())


def _settle_nans(array: Array | None) -> Array | None:
    """Return the array with the same bits for all NaNs, because their bits have no meaning."""
    if array is None or array.dtype not in INFINITY_BITS:
        return array
    bits = array.bits()
    infinity = bits.dtype.type(INFINITY_BITS[array.dtype])
    unsigned = bits & bits.dtype.type(2 ** (8 * bits.itemsize - 1) - 1)
    bits[unsigned > infinity] = infinity + 1
    return Array(array.dtype, array.shape, bits.tobytes())
