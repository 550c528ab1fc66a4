"""Read what a plain function returned. It may be an object of any class, whose methods lie, raise or never end."""

from __future__ import annotations

import itertools
from typing import Any, Sequence

import numpy as np

from .contract import Array, Reply, name_type, read_text
from .limits import AXES, GRADIENTS, check_limit
from .surroundings import find_shared, share_memory


def read_result(
    result: Any,
    passed: list[np.ndarray[Any, Any] | None],
    arrays: Sequence[np.ndarray[Any, Any] | None],
    allowed: int,
) -> Reply:
    """Return a reply with the results of a function. If they cannot be read, the reply says so."""
    try:
        clipped, norm = _split(result, passed)
        (packed_norm,) = pack([_convert_for_wire(norm, allowed)], allowed)
        gradients, same = pack(clipped, allowed), _mark_passed(clipped, arrays)
        return Reply(gradients, packed_norm, same_object=same, shared=tuple(find_shared(clipped, arrays)))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the value may be of any class, whose methods may raise anything
        text = f"returned a value of type {name_type(result)}, which cannot be read: {read_text(error)}"
        return Reply((), malformed=text)


def returned_no_list(result: Any) -> bool:
    """Return whether a function returned nothing, or only a norm. Then the list that it got holds the results."""
    return result is None or np.isscalar(result) or (isinstance(result, np.ndarray) and result.ndim == 0)


def _split(result: Any, passed: list[np.ndarray[Any, Any] | None]) -> tuple[list[Any], Any]:
    """Return the clipped gradients and the norm from the result of a function. The norm is None if there is none."""
    if returned_no_list(result):
        return passed, result
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], (list, tuple)):
        return _list_items(result[0]), result[1]
    if isinstance(result, (list, tuple)):
        return _list_items(result), None
    message = "return the list of clipped gradients, or (list, total_norm)"
    raise TypeError(message)


def _list_items(values: Sequence[Any]) -> list[Any]:
    """Return at most one item more than an answer may have, because a subclass of list may yield items without end."""
    if type(values) in (list, tuple):
        check_limit(GRADIENTS, len(values))
    return list(itertools.islice(values, GRADIENTS.number + 1))


def _convert_for_wire(norm: Any, allowed: int) -> Any:
    """Return a norm in a dtype that can be sent. No rule restricts the dtype of a norm.

    A norm that exceeds the allowed bytes is not converted, and is refused later: converting a broadcast array would
    allocate memory for all of its elements.
    """
    # A Python int has no dtype. The sum over an empty list is such an int.
    if type(norm) is int:
        return float(norm)
    if getattr(norm, "dtype", None) == np.longdouble and np.asarray(norm).nbytes <= allowed:
        with np.errstate(over="ignore"):
            return np.asarray(norm).astype(np.float64)
    return norm


def pack(values: Sequence[Any], allowed: int) -> tuple[Array | None, ...]:
    """Pack arrays, and check before each copy that they do not take more than the allowed bytes in all.

    Raises
    ------
    ValueError
        If there are too many arrays, or if they take too many bytes.
    """
    check_limit(GRADIENTS, len(values))
    packed: list[Array | None] = []
    for value in values:
        if value is None:
            packed.append(None)
            continue
        if type(value) is not np.ndarray:
            _refuse_large_list(value, allowed)
        array = np.asarray(value)
        check_limit(AXES, array.ndim)
        if array.nbytes > allowed:
            message = (
                f"an array of shape {array.shape} takes {array.nbytes:,} bytes, "
                f"and {allowed:,} are left for an answer to this call"
            )
            raise ValueError(message)
        allowed -= array.nbytes
        packed.append(Array.of(array))
    return tuple(packed)


def _refuse_large_list(value: Any, allowed: int) -> None:
    """Refuse a sequence of more than the allowed bytes, because NumPy would copy all of it to make one array."""
    total, left = 0, [(value, 0)]
    while left:
        item, depth = left.pop()
        check_limit(AXES, depth)
        if isinstance(item, np.ndarray):
            # If the value itself is an array, NumPy does not copy it.
            total += item.nbytes if depth else 0
        elif isinstance(item, str):
            total += 4 * len(item)
        elif isinstance(item, (list, tuple)):
            # NumPy asks a subclass for its items, too, and a subclass may yield items without end.
            items = item if type(item) in (list, tuple) else list(itertools.islice(item, allowed + 1))
            total += len(items)
            left.extend((inner, depth + 1) for inner in items)
        elif isinstance(item, (int, float, np.generic)):
            continue
        elif not hasattr(item, "__array__") and hasattr(item, "__len__"):
            total += len(item)
        if total > allowed:
            message = f"a list of arrays takes more than the {allowed:,} bytes that are left for an answer to this call"
            raise ValueError(message)


def _mark_passed(clipped: Sequence[Any], arrays: Sequence[Any]) -> tuple[bool, ...] | None:
    """Return which results are the arrays that were passed, or views of them, or None if the counts differ."""
    if len(clipped) != len(arrays):
        return None
    return tuple(result is array or _is_view(result, array) for result, array in zip(clipped, arrays))


def _is_view(result: Any, array: np.ndarray[Any, Any] | None) -> bool:
    """Return whether a result, which may be of another library, holds its elements in the memory of an array."""
    # NumPy copies a list, so the copy shares no memory.
    return array is not None and not isinstance(result, (list, tuple)) and share_memory(np.asarray(result), array)
