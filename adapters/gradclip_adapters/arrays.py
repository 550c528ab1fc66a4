"""Help adapters to check a call against its entry point, to build its tensors, and to repeat it in several threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

import numpy as np

from .contract import FEATURES, Array, Call, EntryPoint, Gradient, Reply, Unsupported, together

__all__ = [
    "FEATURE_OF_LAYOUT",
    "FEATURE_OF_OPTION",
    "FEATURE_OF_PARAMETER",
    "HOW",
    "THRESHOLDS",
    "TRAINING",
    "UNWRITABLE",
    "answer_in_threads",
    "ask_among_others",
    "build_parameters",
    "build_tensors",
    "convert_options",
    "convert_thresholds",
    "find_dtype",
    "lay_out",
    "list_parameters",
    "make_array",
    "make_earlier_calls",
    "make_following_call",
    "read_axes",
    "refuse_unlisted",
    "surround",
]

#: The options of several backward passes and steps.
TRAINING = ("start", "weight_decay", "steps", "accumulate")

#: The feature that each option of a call needs. Options that are not named here need none.
FEATURE_OF_OPTION = {
    **{name: name for name in ("axes", "eps", "error_if_nonfinite", "layers", "learning_rate", "norm_type", "threads")},
    "tensor_threshold": "tensor_threshold",
    "min": "min_max",
    "as_generator": "generator",
    "as_single": "single",
    "reused": "reuses",
    "followed": "follows",
    "flags": "flag_kinds",
    "threshold_as": "threshold_kinds",
    "mesh": "distributed",
    "compiled": "compiles",
    **dict.fromkeys(TRAINING, "training"),
}

#: The feature that a function has if it takes the parameter.
FEATURE_OF_PARAMETER = {**FEATURE_OF_OPTION, "need_clip": "excludes"}

#: The options that say how to make a call. An adapter follows them, and does not pass them on.
HOW = (
    "as_generator",
    "as_single",
    "threads",
    "reused",
    "followed",
    "flags",
    "threshold_as",
    "tensor_threshold",
    "compiled",
    "mesh",
)

#: The feature that each layout needs.
FEATURE_OF_LAYOUT = {
    "strided": "strided",
    "transposed": "strided",
    "sliced": "strided",
    "reversed": "reversed",
    "broadcast": "broadcast",
    "packed": "packed",
    "swapped": "swapped",
    "read-only": "read_only",
    "unaligned": "unaligned",
}

#: The layouts of arrays that cannot be written.
UNWRITABLE = ("broadcast", "read-only")

#: The layouts that differ from "contiguous" only for arrays with axes.
ALONG_AXES = ("strided", "sliced", "reversed", "broadcast")

#: The bits of plus infinity. All bits of its exponent are set.
INFINITY_BITS = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}

#: The options that are thresholds.
THRESHOLDS = ("clip_norm", "clip_factor", "max", "min")

#: An option names a kind of flags or thresholds. These functions convert values to each kind.
FLAG_KINDS: Mapping[str, Callable[[Any], Any]] = {"bool": bool, "numpy": np.bool_, "int": int}
THRESHOLD_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "numpy-float16": np.float16,
    "numpy-float32": np.float32,
    "numpy-float64": np.float64,
    "array": lambda value: np.array(value, np.float64),
    "array-of-one": lambda value: np.array([value], np.float64),
    "bool": bool,
    "text": str,
}

#: All threads make their calls at once, ROUNDS times. In every second round, each thread pauses at each of its first
#: PAUSES lines of Python, for up to PAUSE seconds.
ROUNDS, PAUSES, PAUSE = 2, 100, 1e-5

#: Another call interrupts a call at PLACES of its first LINES traced lines of Python. The interrupted call waits each
#: time at most PATIENCE seconds, because the other call may block on a lock that the interrupted call holds.
LINES, PLACES, PATIENCE = 1000, 16, 0.02

#: Held while a thread sets its trace function: Python refuses this while another thread does the same.
_tracing = threading.Lock()

#: The folders of Python's and NumPy's modules. Lines of these modules are not traced, but lines that call them are.
TRUSTED = ("<frozen ", *(str(Path(str(module.__file__)).parent) + os.sep for module in (os, np)))

#: An element has at most this many bytes.
WIDEST = 8

#: A thread builds the packed gradients of a call in one buffer. This is the part of the buffer that is still free.
packing = threading.local()

Tensor = TypeVar("Tensor")
Result = TypeVar("Result")


def refuse_unlisted(call: Call, entry_point: EntryPoint, kind: str = "adapter") -> None:
    """Refuse a call that its entry point cannot perform.

    The error carries `kind`, which says what is missing (see `contract.LACKS`). An adapter that is not sure makes the
    call: only the framework's own error shows that the framework cannot do it.

    Raises
    ------
    Unsupported
        If the call uses a feature, a dtype or a norm that the entry point does not list.
    """
    missing = sorted(set(_list_used_features(call)) - set(entry_point.features))
    if missing:
        described = " and ".join(f"{feature} ({FEATURES[feature]})" for feature in missing)
        message = f"{entry_point.name} does not have the feature {described}"
        raise Unsupported(message, kind)
    dtypes = sorted(_list_dtypes(call) - set(entry_point.dtypes))
    if dtypes:
        message = f"{entry_point.name} does not take {', '.join(dtypes)}"
        raise Unsupported(message, kind)
    norm_type = call.options.get("norm_type", 2.0)
    # Pass an order of 0 or below to every entry point with `norm_type`: the suite records the answer.
    if norm_type > 0 and norm_type not in entry_point.norm_types:
        message = f"{entry_point.name} has no norm of the order {norm_type}"
        raise Unsupported(message, kind)


def refuse_other_dtypes(call: Call, entry_point: EntryPoint) -> None:
    """Refuse dtypes that an adapter leaves to other entry points of the same function, because calls take long.

    Raises
    ------
    Unsupported
        If a gradient has a dtype that the entry point does not list.
    """
    if not _list_dtypes(call) <= set(entry_point.dtypes):
        dtypes = " and ".join(entry_point.dtypes)
        message = f"the adapter asks {entry_point.name} for {dtypes} only, because calls take long"
        raise Unsupported(message)


def _list_used_features(call: Call) -> Iterator[str]:
    yield from (FEATURE_OF_OPTION[option] for option in call.options if option in FEATURE_OF_OPTION)
    for gradient in call.gradients:
        if not gradient.need_clip:
            yield "excludes"
        if gradient.array is None and gradient.same_as is None:
            yield "none_grads"
        if gradient.same_as is not None:
            yield "repeated"
        if gradient.layout != "contiguous":
            yield FEATURE_OF_LAYOUT.get(gradient.layout, "strided")
        if gradient.rows is not None:
            yield "sparse"
        if gradient.group:
            yield "groups"
        if gradient.cotangent is not None:
            yield "differentiable"
    if len(_list_dtypes(call)) > 1:
        yield "mixed_dtypes"


def _list_dtypes(call: Call) -> set[str]:
    return {gradient.array.dtype for gradient in call.gradients if gradient.array is not None}


def convert_options(
    options: Mapping[str, Any], flags: Sequence[bool], make_scalar: Callable[[float], Any] | None = None
) -> tuple[dict[str, Any], list[Any]]:
    """Return options and flags as objects of the kinds that the options `threshold_as` and `flags` name.

    The result leaves out all options that say how to make a call. `make_scalar` makes the tensors without axes for
    which `tensor_threshold` asks.

    Raises
    ------
    Unsupported
        If a call asks for such a tensor, and the adapter does not say how to make one.
    """
    kept = {name: value for name, value in options.items() if name not in HOW}
    if "threshold_as" in options:
        kept = convert_thresholds(kept, THRESHOLD_KINDS[options["threshold_as"]])
    if options.get("tensor_threshold"):
        if make_scalar is None:
            message = "the adapter passes thresholds as numbers only"
            raise Unsupported(message)
        kept = convert_thresholds(kept, make_scalar)
    kind = FLAG_KINDS[options.get("flags", "bool")]
    return kept, [kind(flag) for flag in flags]


def convert_thresholds(options: Mapping[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the options with the threshold, or both bounds, converted."""
    return {name: convert(value) if name in THRESHOLDS else value for name, value in options.items()}


def find_dtype(gradients: Sequence[Gradient]) -> str:
    """Return the dtype of the first gradient, which a threshold that is a tensor has, too."""
    return next((one.array.dtype for one in gradients if one.array is not None), "float32")


def read_axes(options: Mapping[str, Any]) -> list[int] | None:
    """Return the axes that share a norm, or None if the call names none."""
    return [int(axis) for axis in options["axes"].split(",")] if "axes" in options else None


def build_tensors(gradients: Sequence[Gradient], build: Callable[[Gradient], Tensor]) -> list[Tensor | None]:
    """Return the tensors of a call.

    `build` makes a tensor from each gradient that exists and does not repeat another. Within it, :func:`lay_out` puts
    the arrays of the layout "packed" into one buffer.
    """
    tensors: list[Tensor | None] = []
    packed = [one.array for one in gradients if one.array is not None and one.layout == "packed"]
    packing.free = _make_buffer(packed)
    try:
        for gradient in gradients:
            if gradient.same_as is not None:
                tensors.append(tensors[gradient.same_as])
            else:
                tensors.append(None if gradient.array is None else build(gradient))
    finally:
        del packing.free
    return tensors


def _make_buffer(arrays: Sequence[Array]) -> np.ndarray[Any, Any]:
    """Return the bytes of a buffer for arrays, and of ones at its end. If they have one dtype, so has the buffer."""
    size, dtypes = sum(len(array.data) + WIDEST for array in arrays), {array.dtype for array in arrays}
    is_alike = len(dtypes) == 1 and "bfloat16" not in dtypes
    dtype = np.dtype(dtypes.pop()) if is_alike else np.dtype(np.uint8)
    return np.ones(-(-size // dtype.itemsize), dtype).view(np.uint8)


def build_parameters(gradients: Sequence[Gradient], build: Callable[[Gradient], Tensor]) -> list[Tensor | None]:
    """Return the parameters of a unitwise clip, each made like a gradient."""
    return build_tensors(list_parameters(gradients), build)


def list_parameters(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Return the parameters as gradients. Every other one has the layout of its gradient, the others are contiguous."""
    layouts = [
        "contiguous" if place % 2 or gradient.layout == "broadcast" else gradient.layout
        for place, gradient in enumerate(gradients)
    ]
    return [
        replace(gradient, array=gradient.parameter, layout=layout, same_as=None)
        for gradient, layout in zip(gradients, layouts)
    ]


def lay_out(values: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """Return a copy of `values` with a layout in memory (see `Gradient.layout`).

    Raises
    ------
    Unsupported
        If the contract does not define the layout.
    """
    if layout != "contiguous" and layout not in FEATURE_OF_LAYOUT:
        message = f"no layout {layout!r} here: contiguous, {', '.join(FEATURE_OF_LAYOUT)}"
        raise Unsupported(message)
    # An array without axes has no axis to stride along.
    if layout == "contiguous" or (values.ndim == 0 and layout in ALONG_AXES):
        return values.copy(order="C")
    return _MAKERS[layout](values)


def make_array(gradient: Gradient) -> np.ndarray[Any, Any]:
    """Return a gradient that exists as a NumPy array with the layout that it asks for."""
    assert gradient.array is not None
    return lay_out(gradient.array.numpy(), gradient.layout)


def _repeat(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy whose elements lie at every other place of a buffer, along the last axis."""
    # The gaps hold the same values, so that code that reads the whole buffer counts each element twice. Other values
    # might make such code fail by accident.
    return np.repeat(values, 2, axis=-1)[..., ::2]


def _share_equal(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array whose equal parts share memory: along the first axis, or if they differ, along the last one."""
    rows = np.broadcast_to(values[:1].copy(), values.shape)
    same = rows.tobytes() == values.tobytes()
    return rows if same else np.broadcast_to(values[..., :1].copy(), values.shape)


def _protect(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = values.copy()
    copy.flags.writeable = False
    return copy


def surround(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], tuple[Any, ...]]:
    """Return a larger buffer with the values in its middle, and the index that selects them.

    The buffer is longer along the last two axes, where it holds the values at the edges again. Along all six axes of a
    convolution's weights, it would be sixty times as large as they are. `np.pad` makes the same buffer, but is slow for
    small arrays.
    """
    shape = (*values.shape[:-2], *(length + 2 for length in values.shape[-2:]))
    buffer = np.zeros(shape, values.dtype)
    index: tuple[Any, ...] = (..., *[slice(1, -1)] * len(values.shape[-2:]))
    buffer[index] = values
    for axis in range(-len(values.shape[-2:]), 0):
        slices = buffer.swapaxes(0, axis)
        slices[0], slices[-1] = slices[1], slices[-2]
    return buffer, index


def _slice(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    buffer, index = surround(values)
    middle: np.ndarray[Any, Any] = buffer[index]
    return middle


def _pack(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy at the start of the free part of the call's buffer. Outside `build_tensors`, return any copy."""
    free = getattr(packing, "free", None)
    if free is None:
        return values.copy()
    # Between elements of different sizes there may be a gap, because each lies at a multiple of its size.
    gap = -free.ctypes.data % values.itemsize
    packing.free = free[gap + values.nbytes :]
    copy: np.ndarray[Any, Any] = free[gap : gap + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def _shift_by_a_byte(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy whose elements do not begin at a multiple of their size."""
    buffer = np.zeros(values.nbytes + 1, np.uint8)
    copy: np.ndarray[Any, Any] = np.ndarray(values.shape, values.dtype, buffer, offset=1)
    copy[...] = values
    return copy


def _swap_bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Dtypes of other packages, such as bfloat16, have only one byte order.
    return values.astype(values.dtype.newbyteorder()) if values.dtype.kind == "f" else values.copy()


#: The functions that make an array of each layout.
_MAKERS: Mapping[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "strided": _repeat,
    "transposed": lambda values: values.copy(order="F"),
    "sliced": _slice,
    "reversed": lambda values: np.flip(np.flip(values).copy()),
    "broadcast": _share_equal,
    "packed": _pack,
    "swapped": _swap_bytes,
    "read-only": _protect,
    "unaligned": _shift_by_a_byte,
}


def answer_in_threads(call: Call, answer: Callable[[Call], Reply]) -> Reply:
    """Answer a call while other threads make a second call, to reveal state that threads wrongly share.

    In the second call, every second element of each gradient is zero, and the options differ. First, the second call
    interrupts the first one at many lines, and runs to its end each time. Then several threads (the option `threads`
    says how many) make the two calls at once. They wait for one another before they call the
    framework.

    Parameters
    ----------
    call
        A call with the option `threads`, which is not passed on.
    answer
        A function that answers a call, in any thread, with one :func:`framework_call` block.

    Returns
    -------
    Reply
        The reply to the call when it runs alone, or the first reply of a thread that differs from that one in any bit.

    Raises
    ------
    FrameworkRaised
        If the framework raised in any of the calls.
    """
    same = _leave_out(call, "threads")
    other = _change_options(_change_elements(same))
    alone = answer(same)
    with warnings.catch_warnings():
        # All threads share the filters of warnings.
        warnings.simplefilter("ignore")
        for reply in itertools.chain(
            _interrupt_everywhere(answer, same, other), _answer_at_once(answer, same, other, call.options["threads"])
        ):
            if (reply.gradients, reply.norm) != (alone.gradients, alone.norm):
                return reply
    return alone


def make_earlier_calls(call: Call) -> list[Call]:
    """Return three calls to make first on the same tensors.

    They have other elements and other options, other options only, and other elements only.
    """
    same = _leave_out(call, "reused")
    # A function that keeps something by object has that of the first call. One that keeps results by their elements
    # alone, or by their options alone, finds those of the second or the third call.
    other = _change_elements(same)
    return [_change_options(other), _change_options(same), other]


def make_following_call(call: Call) -> Call:
    """Return the call to make next, on other tensors of the same form, with other elements and other options."""
    return _change_options(_change_elements(_leave_out(call, "followed")))


def ask_among_others(
    call: Call,
    tensors: list[Any],
    ask: Callable[[Call, list[Any]], Result],
    make: Callable[[Gradient], Any],
    fill: Callable[[Any, Array], Any] | None = None,
) -> Result:
    """Make a call with tensors, between the calls for which its options ask. Return what `ask` returns for the call.

    `make` makes a tensor for the following call. `fill` writes an array into a tensor, so that earlier calls get the
    same tensors.
    """

    def fill_all(gradients: Sequence[Gradient]) -> None:
        assert fill is not None
        for tensor, gradient in zip(tensors, gradients):
            if tensor is not None and gradient.array is not None:
                fill(tensor, gradient.array)

    for earlier in make_earlier_calls(call) if "reused" in call.options else ():
        fill_all(earlier.gradients)
        ask(earlier, tensors)
        fill_all(call.gradients)
    result = ask(call, tensors)
    if "followed" in call.options:
        following = make_following_call(call)
        ask(following, build_tensors(following.gradients, make))
    return result


def _leave_out(call: Call, option: str) -> Call:
    return replace(call, options={name: value for name, value in call.options.items() if name != option})


def _change_elements(call: Call) -> Call:
    # Many gradients of a long list are alike.
    changed = {array: _erase_every_other_element(array) for array in {gradient.array for gradient in call.gradients}}
    return replace(call, gradients=tuple(one.copy_with(array=changed[one.array]) for one in call.gradients))


def _change_options(call: Call) -> Call:
    """Return the call with half the thresholds and the Euclidean norm.

    If any gradient is excluded, invert the flags, but only if all elements are finite: a function may raise an error
    for a NaN that is no longer excluded.
    """
    options = dict(call.options)
    options.update({name: options[name] / 2 for name in THRESHOLDS if name in options})
    if "norm_type" in options:
        options["norm_type"] = 2.0
    gradients = call.gradients
    if not all(one.need_clip for one in gradients) and all(map(_is_finite, {one.array for one in gradients})):
        gradients = tuple(one.copy_with(need_clip=not one.need_clip) for one in gradients)
    return replace(call, gradients=gradients, options=options)


def _is_finite(array: Array | None) -> bool:
    if array is None or array.dtype not in INFINITY_BITS:
        return True
    bits, infinity = array.bits(), INFINITY_BITS[array.dtype]
    # In an infinity and in every NaN, all bits of the exponent are set.
    return not bool((bits & bits.dtype.type(infinity) == infinity).any())


def _erase_every_other_element(array: Array | None) -> Array | None:
    if array is None:
        return None
    bits = array.bits()
    bits.reshape(-1)[1::2] = 0
    return Array(array.dtype, array.shape, bits.tobytes())


def _interrupt_everywhere(answer: Callable[[Call], Reply], same: Call, other: Call) -> Iterator[Reply]:
    """Yield two replies: to a call whose lines are counted, and to the same call, which another one interrupts."""

    def answer_with(manager: Any, call: Call) -> Reply:
        together.manager = manager
        return answer(call)

    with ThreadPoolExecutor(2) as pool:
        seen: list[None] = []
        yield pool.submit(answer_with, _trace_lines(lambda: seen.append(None)), same).result()
        places = {len(seen) * number // PLACES for number in range(PLACES)}
        lines, others = itertools.count(), []

        def at_line() -> None:
            if next(lines) in places:
                others.append(pool.submit(answer_with, contextlib.nullcontext([]), other))
                wait(others[-1:], PATIENCE)

        reply = pool.submit(answer_with, _trace_lines(at_line), same).result()
        for future in others:
            future.result()
        yield reply


@contextlib.contextmanager
def _trace_lines(at_line: Callable[[], Any], lines: int = LINES) -> Iterator[list[Any]]:
    """Call `at_line` at each of the first lines that the framework's call runs. Record no warnings."""
    left, before = iter(range(lines)), sys.gettrace()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        del argument
        if event == "call" and (frame.f_code is _set_trace.__code__ or _is_trusted(frame.f_code.co_filename)):
            return None
        if event == "line":
            if next(left, None) is None:
                _set_trace(None)
                return None
            at_line()
        return trace

    _set_trace(trace)
    try:
        yield []
    finally:
        _set_trace(before)


def _set_trace(trace: Any) -> None:
    with _tracing:
        sys.settrace(trace)


def _is_trusted(filename: str) -> bool:
    # Some installations keep third-party packages in the folder of Python's own modules.
    return filename.startswith(TRUSTED) and ("-packages" not in filename or filename.startswith(TRUSTED[-1]))


def _answer_at_once(answer: Callable[[Call], Reply], same: Call, other: Call, count: int) -> Iterator[Reply]:
    """Yield replies to a call that half of the threads make at once, while the other half make another call."""
    calls = [other if number % 2 else same for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        for number_of_round in range(ROUNDS):
            barrier, at_line = threading.Barrier(count), _hesitate if number_of_round % 2 == 0 else None
            futures = [pool.submit(_answer_after, barrier, answer, call, at_line) for call in calls]
            errors = [error for error in (future.exception() for future in futures) if error is not None]
            for error in errors:
                # The other threads fail because the barrier is broken.
                if not isinstance(error, threading.BrokenBarrierError):
                    raise error
            yield from (future.result() for future in futures[::2])


def _hesitate() -> None:
    """Pause, so that other threads run between any two lines."""
    time.sleep(random.uniform(0.0, PAUSE))


def _answer_after(
    barrier: threading.Barrier, answer: Callable[[Call], Reply], call: Call, at_line: Callable[[], Any] | None
) -> Reply:
    together.manager = _wait_for_others(barrier, at_line)
    try:
        return answer(call)
    except BaseException:
        # The other threads would wait for this one forever.
        barrier.abort()
        raise


@contextlib.contextmanager
def _wait_for_others(barrier: threading.Barrier, at_line: Callable[[], Any] | None) -> Iterator[list[Any]]:
    """Wait for the other threads, then call the framework. Call `at_line` at each line, if it is given."""
    barrier.wait()
    with contextlib.ExitStack() as stack:
        yield [] if at_line is None else stack.enter_context(_trace_lines(at_line, PAUSES))
