"""Find the side effects of a call.

These are results that share memory, changes to the memory beside the gradients, and changes to the state of the
process: NumPy's error state, random states and environment variables. A clip function has no reason to change these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence, Tuple

import numpy as np

from .contract import Adapter, Call, FrameworkRaised, Reply

ERRORS = "NumPy's error state"
NUMPYS_RANDOM = "NumPy's random state"
RANDOM = "the state of the module random"
ENVIRONMENT = "an environment variable"

BESIDE = "the memory beside a gradient"
READ_ONLY = "a read-only gradient"

#: The size of the memory of NumPy's generator MT19937: 624 numbers of 32 bits, and the place among them.
MT19937_BYTES = 625 * 4

#: The memory of the generator when the state of NumPy's random numbers was last read, and this state. To read the state
#: takes longer than most calls.
_last_random: list[tuple[bytes | None, Any]] = [(None, None)]


def answer_in_watched_surroundings(adapter: Adapter, call: Call) -> Any:
    """Return an adapter's answer. A reply, and an error of the framework, also say what state the call has changed.

    The state is restored, so that the next call starts with the same state.
    """
    before = _look()
    try:
        reply = adapter.call(call)
    except BaseException as error:
        changed = _restore(before, call)
        if isinstance(error, FrameworkRaised):
            error.disturbed = (*error.disturbed, *changed)
        raise
    changed = _restore(before, call)
    if not isinstance(reply, Reply):
        return reply
    return replace(reply, disturbed=(*(reply.disturbed or ()), *changed))


def _restore(before: Mapping[str, Any], call: Call) -> list[str]:
    """Restore the state before a call, and name what the call has changed."""
    after = _look()
    # Skip this for calls from several threads, which share the state, and for a compiler, which keeps its findings in
    # the environment.
    if "threads" in call.options or "compiled" in call.options:
        return []
    changed = [what for what in before if before[what] != after[what]]
    for what in changed:
        # The call may have replaced the object that would be restored.
        with contextlib.suppress(Exception):
            _PUT_BACK[what](before[what])
    return changed


def _look() -> dict[str, Any]:
    return {what: _read(look) for what, look in _LOOKS.items()}


def _read(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception:  # noqa: BLE001 - the call may have replaced the object that holds the state
        return "can no longer be read"


def _get_numpys_random() -> Any:
    """Return the state of NumPy's random numbers. It is read anew only if the memory of the generator has changed."""
    memory = _read_generator()
    known, state = _last_random[0]
    if memory is None or memory != known:
        kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - looked at, not used
        state = (kind, np.asarray(keys).tobytes(), *rest)
        # Normal numbers are made in pairs. The second one is not in the generator's memory, and neither is its use.
        keeps_second = bool(rest[1])
        _last_random[0] = (None if keeps_second else memory, state)
    return state


def _read_generator() -> bytes | None:
    """Return the memory of the generator behind `np.random`, or None if NumPy is too old to say where it is."""
    generator = getattr(np.random, "get_bit_generator", lambda: None)()
    if generator is None or not isinstance(generator, np.random.MT19937):
        return None
    return ctypes.string_at(generator.ctypes.state_address, MT19937_BYTES)


def _set_numpys_random(state: Sequence[Any]) -> None:
    kind, keys, *rest = state
    _last_random[0] = (None, None)
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))  # noqa: NPY002 - restored, not used


def _get_environment() -> Any:
    # Python decodes each variable anew, which takes longer than most calls. So read what it decodes.
    encoded = getattr(os.environ, "_data", None)
    return dict(os.environ) if encoded is None else dict(encoded)


def _set_environment(variables: Mapping[Any, Any]) -> None:
    os.environ.clear()
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()})


#: The functions that read each state. The lambdas look up the library's function anew, because a call may replace it.
_LOOKS: Mapping[str, Callable[[], Any]] = {
    ERRORS: lambda: np.geterr(),  # noqa: PLW0108
    NUMPYS_RANDOM: _get_numpys_random,
    RANDOM: lambda: random.getstate(),  # noqa: PLW0108
    ENVIRONMENT: _get_environment,
}

#: The functions that restore each state.
_PUT_BACK: Mapping[str, Callable[[Any], Any]] = {
    ERRORS: lambda state: np.seterr(**state),
    NUMPYS_RANDOM: _set_numpys_random,
    RANDOM: random.setstate,
    ENVIRONMENT: _set_environment,
}


def watch_memory(arrays: Sequence[Any]) -> Callable[[], tuple[str, ...]]:
    """Return a function that names the memory that has changed by then: of a read-only array, or beside an array.

    A read-only array that can be written by then has changed, too.
    """
    locked = [one for one in arrays if one is not None and not one.flags.writeable]
    views = [one for one in arrays if one is not None and (isinstance(one.base, np.ndarray) or not one.flags.writeable)]
    # Grouped at once: a long list has as many buffers as arrays.
    buffers: dict[int, tuple[np.ndarray[Any, Any], list[Any]]] = {}
    for one in views:
        buffer = _find_buffer(one)
        buffers.setdefault(id(buffer), (buffer, []))[1].append(one)
    before = []
    for buffer, inside in buffers.values():
        # Most buffers hold a transposed or a reversed array, and nothing beside it.
        if len(inside) == 1 and inside[0].nbytes == buffer.nbytes and inside[0].flags.writeable:
            continue
        mask = np.ones(buffer.nbytes, bool)
        for one in inside:
            if one.flags.writeable:
                start = one.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
                strides = (*one.strides, 1)
                np.ndarray((*one.shape, one.itemsize), bool, mask, start if one.size else 0, strides)[...] = False
        if mask.any():
            what = BESIDE if all(one.flags.writeable for one in inside) else READ_ONLY
            before.append((what, buffer, mask, buffer.reshape(-1).view(np.uint8)[mask]))

    def look() -> tuple[str, ...]:
        if any(one.flags.writeable for one in locked):
            return (READ_ONLY,)
        for what, buffer, mask, old in before:
            if not np.array_equal(buffer.reshape(-1).view(np.uint8)[mask], old):
                return (what,)
        return ()

    return look


def _find_buffer(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.base if isinstance(array.base, np.ndarray) else array


def find_shared(results: Sequence[Any], passed: Sequence[np.ndarray[Any, Any] | None]) -> Iterator[str]:
    """Yield the side effects of results on memory, as ends of sentences that begin with "it".

    A result may be the gradient at the same place. If gradients share memory, their results may share it, too.
    """
    if len(results) != len(passed):
        return
    arrays = [(True, i, one) for i, one in enumerate(results) if isinstance(one, np.ndarray) and one.size]
    # A gradient that is its own result is in the list already.
    arrays += [
        (False, i, one)
        for i, (one, new) in enumerate(zip(passed, results))
        if one is not None and one.size and new is not one
    ]
    for one, other in _find_overlaps(arrays):
        (is_result, i, _), (is_other_result, j, _) = one, other
        if i == j or not (is_result or is_other_result) or share_memory(passed[i], passed[j]):
            continue
        names = [f"{'result' if new else 'gradient'} {place}" for new, place, _ in (one, other)]
        yield f"returned {max(names)} in the memory of {min(names)}"
        break
    for i, (new, old) in enumerate(zip(results, passed)):
        if old is None or not isinstance(new, np.ndarray):
            continue
        if new.size and not new.flags.writeable and (old.flags.writeable or not share_memory(new, old)):
            yield f"returned an array that cannot be written as result {i}"
            break


#: A triple: whether the array is a result, its place, and the array.
Placed = Tuple[bool, int, Any]


def _find_overlaps(arrays: list[Placed]) -> Iterator[tuple[Placed, Placed]]:
    """Yield pairs of arrays that share memory, found in the order of their addresses."""
    bounds = sorted(((*_find_bounds(one[2]), place) for place, one in enumerate(arrays)), key=lambda bound: bound[0])
    open_until: list[tuple[int, int]] = []
    for low, high, place in bounds:
        open_until = [(end, earlier) for end, earlier in open_until if end > low]
        for _, earlier in open_until:
            if share_memory(arrays[earlier][2], arrays[place][2]):
                yield arrays[earlier], arrays[place]
        open_until.append((high, place))


def _find_bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the addresses of the first byte of an array, and of the byte after its last one."""
    low = high = int(array.__array_interface__["data"][0])
    for length, stride in zip(array.shape, array.strides):
        low, high = low + min(0, (length - 1) * stride), high + max(0, (length - 1) * stride)
    return low, high + array.itemsize


def share_memory(one: np.ndarray[Any, Any] | None, other: np.ndarray[Any, Any] | None) -> bool:
    """Return whether two arrays share memory. None shares none, and neither do arrays that are too hard to compare."""
    if one is None or other is None:
        return False
    try:
        work: Any = 10000
        return bool(np.shares_memory(one, other, max_work=work))
    except Exception:  # noqa: BLE001 - NumPy's error has another place in each version: the question is too hard
        return False
