"""What adapters share: a call is checked against its subject, its gradients become tensors, and threads make it."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Callable, Iterator, List, Optional, Sequence, TypeVar

import numpy as np

from .contract import FEATURES, Array, Call, Gradient, Reply, Subject, Unsupported, together

__all__ = ["build_tensors", "in_threads", "lay_out", "refuse_unlisted"]

#: The feature that each option of a call needs; options that are not named here need none.
FEATURE_OF_OPTION = {
    "min": "min_max",
    "norm_type": "norm_type",
    "eps": "eps",
    "error_if_nonfinite": "error_if_nonfinite",
    "learning_rate": "learning_rate",
    "as_generator": "generator",
    "as_single": "single",
    "threads": "threads",
    "compiled": "compiles",
}

#: How often threads make their calls: every other time with pauses, else at full speed.
ROUNDS = 4

#: In a round with pauses, a thread leaves the others their turn at each of so many lines of Python, for up to so many
#: seconds.
LINES, PAUSE = 300, 1e-5

#: Where Python's own modules and NumPy's lie. What threads wrongly share is reached from the lines that call them.
TRUSTED = ("<frozen ", os.path.dirname(os.__file__) + os.sep, os.path.dirname(np.__file__) + os.sep)

Tensor = TypeVar("Tensor")


def refuse_unlisted(call: Call, subject: Subject) -> None:
    """Refuse a call that asks for what its subject does not list.

    Raises
    ------
    Unsupported
        When the call uses a feature, a dtype or a norm that the subject does not list.
    """
    missing = sorted(set(_features_used(call)) - set(subject.features))
    if missing:
        message = "{} cannot do this: {}".format(subject.name, "; ".join(FEATURES[feature] for feature in missing))
        raise Unsupported(message)
    dtypes = {gradient.array.dtype for gradient in call.gradients if gradient.array is not None}
    if not dtypes <= set(subject.dtypes):
        message = "{} does not take {}".format(subject.name, ", ".join(sorted(dtypes - set(subject.dtypes))))
        raise Unsupported(message)
    norm_type = call.options.get("norm_type", 2.0)
    if norm_type not in subject.norm_types:
        message = "{} has no norm of the order {}".format(subject.name, norm_type)
        raise Unsupported(message)


def _features_used(call: Call) -> Iterator[str]:
    yield from (FEATURE_OF_OPTION[option] for option in call.options if option in FEATURE_OF_OPTION)
    for gradient in call.gradients:
        if not gradient.need_clip:
            yield "excludes"
        if gradient.array is None and gradient.same_as is None:
            yield "none_grads"
        if gradient.same_as is not None:
            yield "repeated"
        if gradient.layout != "contiguous":
            yield "strided"
        if gradient.rows is not None:
            yield "sparse"
    if len({gradient.array.dtype for gradient in call.gradients if gradient.array is not None}) > 1:
        yield "mixed_dtypes"


def build_tensors(gradients: Sequence[Gradient], build: Callable[[Gradient], Tensor]) -> List[Optional[Tensor]]:
    """The tensors of a call, `build` making one of each gradient that exists and is not an earlier one again."""
    tensors: List[Optional[Tensor]] = []
    for gradient in gradients:
        if gradient.same_as is not None:
            tensors.append(tensors[gradient.same_as])
        else:
            tensors.append(None if gradient.array is None else build(gradient))
    return tensors


def lay_out(values: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """A copy of `values` that lies in memory as `layout` says (see `Gradient.layout`).

    Raises
    ------
    Unsupported
        When the layout is not one of the contract's.
    """
    if layout == "contiguous":
        return values.copy(order="C")
    if layout == "transposed":
        return values.copy(order="F")
    if layout == "strided":
        # A 0-d array has no axis to stride along. Repeating leaves the values in the gaps too, so that code which
        # walks the whole buffer counts each element twice instead of failing by accident.
        return values.copy() if values.ndim == 0 else np.repeat(values, 2, axis=-1)[..., ::2]
    message = "no layout {!r} here: contiguous, strided or transposed".format(layout)
    raise Unsupported(message)


def in_threads(call: Call, answer: Callable[[Call], Reply]) -> Reply:
    """Answer a call from as many threads at once as its option `threads` says.

    The threads wait for one another where they call the framework. Every other one makes another call, in which every
    other element of each gradient is zero, so that a thread finds something else in what it wrongly shares.

    Parameters
    ----------
    call
        With the option `threads`, which is not passed on.
    answer
        Answers a call, in whatever thread, with one :func:`framework_call` block.

    Returns
    -------
    Reply
        That to the same call alone; or the first that a thread got for it that is not the same bit for bit.

    Raises
    ------
    FrameworkRaised
        What the framework raised in any of the calls.
    """
    options = dict(call.options)
    count = options.pop("threads")
    same = replace(call, options=options)
    other = replace(same, gradients=tuple(_every_other_element(gradient) for gradient in same.gradients))
    alone = answer(same)
    for number_of_round in range(ROUNDS):
        calls = [other if number % 2 else same for number in range(count)]
        replies = _at_once(answer, calls, hesitating=number_of_round % 2 == 0)
        for reply in replies[::2]:
            if (reply.gradients, reply.norm) != (alone.gradients, alone.norm):
                return reply
    return alone


def _every_other_element(gradient: Gradient) -> Gradient:
    if gradient.array is None:
        return gradient
    bits = gradient.array.bits()
    bits.reshape(-1)[1::2] = 0
    return replace(gradient, array=Array(gradient.array.dtype, gradient.array.shape, bits.tobytes()))


@contextlib.contextmanager
def _among_others(barrier: threading.Barrier, hesitating: bool) -> Iterator[List[Any]]:
    """The context of a call of the framework in one of several threads; there are no warnings to record."""
    barrier.wait()
    before = sys.gettrace()
    if hesitating:
        sys.settrace(_hesitation())
    try:
        yield []
    finally:
        sys.settrace(before)


def _hesitation() -> Callable[..., Any]:
    """A trace function that pauses, so that other threads come between any two lines and not by chance alone."""
    left, pauses = iter(range(LINES)), random.Random(threading.get_ident())

    def trace(frame: Any, event: str, argument: Any) -> Any:
        del argument
        if event == "call" and _is_trusted(frame.f_code.co_filename):
            return None
        if event == "line":
            if next(left, None) is None:
                sys.settrace(None)
                return None
            time.sleep(pauses.uniform(0.0, PAUSE))
        return trace

    return trace


def _is_trusted(filename: str) -> bool:
    # Below Python's own modules lie, in some installations, those of other people.
    return filename.startswith(TRUSTED) and ("-packages" not in filename or filename.startswith(TRUSTED[-1]))


def _at_once(answer: Callable[[Call], Reply], calls: Sequence[Call], hesitating: bool) -> List[Reply]:
    barrier = threading.Barrier(len(calls))

    def in_this_thread(call: Call) -> Reply:
        together.manager = _among_others(barrier, hesitating)
        try:
            return answer(call)
        except BaseException:
            # Before it calls the framework, it would be waited for without end.
            barrier.abort()
            raise

    with warnings.catch_warnings(), ThreadPoolExecutor(len(calls)) as pool:
        warnings.simplefilter("ignore")
        futures = [pool.submit(in_this_thread, call) for call in calls]
    errors = [error for error in (future.exception() for future in futures) if error is not None]
    for error in errors:
        # The others' own errors are those of the barrier.
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [future.result() for future in futures]
