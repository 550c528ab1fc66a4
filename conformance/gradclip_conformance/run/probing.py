"""Probe the features that an entry point declares, before the run is planned.

The module `abilities` probes the features that an entry point does not declare.

An entry point that declares `may_return_norm` is called once or twice, to see whether it returns a norm. Two test cases
need the same calls later. They reuse these answers, so that the function gets no additional calls. An entry point that
declares `flushes_subnormals` must flush a number in a call. Otherwise the declaration is dropped. A hang, an exit or a
crash here has the same effect as in any other call.

An entry point that hangs repeatedly gets no more calls, because each of its thousand cells would take the time limit. A
compiled entry point gets more time for the first call with new shapes, because that call compiles, and every entry
point gets more time for a long list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Array, Call, EntryPoint, Gradient
from gradclip_adapters.mesh import Mesh
from gradclip_adapters.operations import OPERATIONS

from ..judge.model import Answer, Description, Replied, TimedOut
from ..oracle.formats import FORMATS, encode

#: The feature that requests a probe for a returned norm.
PROBED = "may_return_norm"
#: The feature that the probe adds if a norm is returned.
FOUND = "returns_norm"

#: An entry point with this feature may turn subnormal numbers into zeros.
FLUSHES = "flushes_subnormals"

#: The gradients are 3 and 4, and their norm is 5. One threshold is below the norm and one is above, because some
#: functions return the norm only if they clip.
THRESHOLDS = (1.0, 8.0)


#: An entry point gets no more calls after this many hanging calls in a row. The first number is for one of which no
#: call has ended yet. The second number is larger, because the cases of one rule may cause many hangs in a row.
HANGS_AT_FIRST, HANGS_IN_A_ROW = 3, 20


class Patience:
    """For each entry point, the number of hanging calls since the last one that ended, and whether any has ended."""

    def __init__(self) -> None:
        self._hung: Counter[str] = Counter()
        self._ended: set[str] = set()

    def ask(self, call: Call, ask: Callable[[], Answer]) -> Answer:
        """Return the answer of `ask`, or the reason why the entry point gets no more calls."""
        entry_point = call.subject
        limit = HANGS_IN_A_ROW if entry_point in self._ended else HANGS_AT_FIRST
        if self._hung[entry_point] >= limit:
            return TimedOut(0.0, f"The call was not made, because {limit} calls of {entry_point} in a row had hung.")
        answer = ask()
        if isinstance(answer, TimedOut):
            self._hung[entry_point] += 1
        else:
            self._hung[entry_point] = 0
            self._ended.add(entry_point)
        return answer


#: A first call with new shapes, and one with many gradients, get this many times the usual limit. (On a busy machine,
#: compiling a kernel with torch.compile took over 30 s, which is the usual limit.)
LONGER = 4

#: A list of more gradients counts as long. (A step of Adam in Keras on TensorFlow took 16 ms for each gradient, and a
#: row may have two calls with over a thousand gradients.)
MANY_GRADIENTS = 100


class TimeLimits:
    """The time limits of calls. They are longer where a call compiles, or has many gradients.

    A new host process has compiled nothing.
    """

    def __init__(self, entry_points: Iterable[EntryPoint] = ()) -> None:
        self._always = {entry_point.name for entry_point in entry_points if "compiled" in entry_point.features}
        self._done: set[object] = set()
        self._failed: set[object] = set()

    def find(self, call: Call, seconds: float) -> float:
        """Return the time limit of a call: `LONGER * seconds` if it has many gradients, or compiles for new shapes.

        If a call hangs even with the longer limit, later calls with the same shapes get the ordinary limit.
        """
        has_many = len(call.gradients) > MANY_GRADIENTS
        if not has_many and not self._compiles(call):
            return seconds
        key = _find_key(call)
        return seconds if key in self._failed or (key in self._done and not has_many) else LONGER * seconds

    def note(self, call: Call, answer: Answer) -> None:
        """Note the answer to a call."""
        if isinstance(answer, TimedOut):
            self._failed.add(_find_key(call))
        elif self._compiles(call):
            self._done.add(_find_key(call))

    def _compiles(self, call: Call) -> bool:
        return call.subject in self._always or bool(call.options.get("compiled"))

    def forget(self) -> None:
        """Forget what was compiled, because the host process ended."""
        self._done.clear()


def _find_key(call: Call) -> object:
    """Return the properties for which a compiler compiles anew: entry point, dtypes, shapes, and the names of options.

    The shape of a missing gradient is None.
    """
    arrays = [gradient.array for gradient in call.gradients]
    shapes = tuple(None if array is None else (array.dtype, array.shape) for array in arrays)
    return call.subject, shapes, frozenset(call.options)


class EarlyAnswers:
    """The answers to calls that were made before the first case. Each is used once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Call, Answer]] = []

    def keep(self, call: Call, answer: Answer) -> None:
        """Keep the answer to a call."""
        self._kept.append((call, answer))

    def holds(self, call: Call) -> bool:
        """Return whether there is an answer to a call."""
        return any(early == call for early, _ in self._kept)

    def take(self, call: Call) -> Answer | None:
        """Return the kept answer to a call, and forget it. Return None if there is none."""
        for place, (early, answer) in enumerate(self._kept):
            if early == call:
                del self._kept[place]
                return answer
        return None


def settle_abilities(description: Description, ask: Callable[[Call], Answer], early: EarlyAnswers) -> Description:
    """Probe the entry points, and return the description with the features that the probes found.

    `returns_norm` is added beside `may_return_norm` if a call returns a norm. It is also added if no call is answered,
    so that the cases about the norm report the failure.
    `flushes_subnormals` is dropped if every call is answered, and none flushes.
    """
    entry_points = []
    for declared in description.subjects:
        entry_point = _settle(declared, ask, early) if PROBED in declared.features else declared
        if FLUSHES in entry_point.features and not _is_flushing(entry_point, ask):
            entry_point = replace(entry_point, features=tuple(name for name in entry_point.features if name != FLUSHES))
        entry_points.append(entry_point)
    return replace(description, subjects=tuple(entry_points))


def _is_flushing(entry_point: EntryPoint, ask: Callable[[Call], Answer]) -> bool:
    """Return whether a call loses a subnormal number, or gets no answer.

    The first call clips a normal number. In a clip by norm, the right result is half of this number, which is
    subnormal. The second call passes subnormal numbers and need not clip them.
    """
    operation = OPERATIONS[entry_point.operation]
    for dtype in entry_point.dtypes:
        small = FORMATS[dtype].smallest_normal
        for values, threshold in (((small, 1), 0.5), ((small / 2, small / 2), 1.0)):
            # A threshold relative to this parameter, whose norm is one, is the threshold itself.
            parameter = Array(dtype, (2,), encode((1, 0), dtype)) if operation.is_relative else None
            gradients = (Gradient("g0", Array(dtype, (2,), encode(values, dtype)), parameter=parameter),)
            options: dict[str, Any] = {operation.threshold: threshold}
            if "requires_min" in entry_point.features:
                options["min"] = -threshold
            answer = ask(Call(entry_point.name, gradients, options))
            if not isinstance(answer, Replied):
                return True
            found = [array for array in answer.reply.gradients if array is not None]
            if any(not array.bits().ravel()[:1].any() for array in found):
                return True
    return False


def _settle(entry_point: EntryPoint, ask: Callable[[Call], Answer], early: EarlyAnswers) -> EntryPoint:
    # Keep `may_return_norm`: the entry point has not declared that it returns a norm, and later calls may return none.
    features = set(entry_point.features)
    # If neither call is answered, add the feature, so that the cases about the norm report the failure.
    failed = 0
    for threshold in THRESHOLDS:
        call = _make_call(entry_point, threshold)
        answer = ask(call)
        early.keep(call, answer)
        if not isinstance(answer, Replied):
            failed += 1
        elif answer.reply.norm is not None:
            features.add(FOUND)
            break
    if failed == len(THRESHOLDS):
        features.add(FOUND)
    return replace(entry_point, features=tuple(sorted(features)))


def _make_call(entry_point: EntryPoint, threshold: float) -> Call:
    dtype = "float32" if "float32" in entry_point.dtypes else entry_point.dtypes[0]
    gradients = tuple(
        Gradient(f"g{number}", Array(dtype, (1,), encode([value], dtype))) for number, value in enumerate((3, 4))
    )
    mesh = {} if entry_point.mesh is None else {"mesh": str(Mesh(entry_point.mesh))}
    return Call(entry_point.name, gradients, {"clip_norm": threshold, **mesh})
