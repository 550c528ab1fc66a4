"""Answer calls for an adapter that lists its entry points as functions on a list of tensors.

An adapter derives from :class:`ListAdapter`. It says how to make a tensor, how to read one, and which functions clip.
An adapter of a framework on NumPy arrays derives from :class:`ArrayListAdapter`, and says only which functions clip.
An adapter that passes something else than lists derives from :class:`DeclaredAdapter`.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Tuple

import numpy as np

from ..arrays import (
    TRAINING,
    answer_in_threads,
    ask_among_others,
    build_tensors,
    convert_options,
    find_dtype,
    make_array,
    surround,
)
from ..contract import About, Adapter, Array, Call, EntryPoint, Gradient, Reply, Unsupported, framework_call

#: A function from the gradients and the options to the results, and to the norm if there is one. A clip in place
#: returns the list that it got. An optimizer returns the negated parameters after a step from zero. This is the form of
#: `EntryPoint.clip` and `EntryPoint.compiled` for a :class:`ListAdapter`.
Clip = Callable[[Any, Mapping[str, Any]], Tuple[Any, Any]]


#: The abilities that every function has whose tensors can be written: the adapter makes other calls around a call, and
#: converts thresholds.
CALLS = ("follows", "reuses", "threshold_kinds")
#: The layouts of arrays of NumPy that these functions are asked for.
LAYOUTS = ("strided", "reversed", "packed")

#: The orders of norms that cases ask of a framework whose function takes any order.
NORM_TYPES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, float("inf"))


def apply_to_all(function: Callable[..., tuple[Any, Any]]) -> Clip:
    """Return a clip that calls a function on all tensors, with the options as keyword arguments."""

    def clip(tensors: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
        return function(tensors, **options)

    return clip


def apply_to_each(function: Callable[..., Any]) -> Clip:
    """Return a clip that calls a function on each tensor in turn, with the options as keyword arguments."""

    def clip(tensors: Any, options: Mapping[str, Any]) -> tuple[list[Any], None]:
        return [function(tensor, **options) for tensor in tensors], None

    return clip


def rename(options: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Return the options under the names that a framework gives them."""
    return {names.get(name, name): value for name, value in options.items()}


@contextlib.contextmanager
def cut_errors(mark: str) -> Iterator[None]:
    """Cut the texts of errors before a mark. What follows holds folders or times, which differ between runs."""
    try:
        yield
    except Exception as error:
        text, found, _ = str(error).partition(mark)
        if not found:
            raise
        raise type(error)(text) from None


def read_each(read: Callable[[Any], Array], tensors: Iterable[Any]) -> tuple[Array | None, ...]:
    """Return the elements of each tensor, and None where there is no tensor."""
    return tuple(None if tensor is None else read(tensor) for tensor in tensors)


def lay_out_by_indexing(values: np.ndarray[Any, Any], layout: str, make: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
    """Make a tensor with a layout in memory (see `Gradient.layout`) by the framework's own indexing."""
    if layout == "contiguous" or (values.ndim == 0 and layout in ("strided", "transposed", "sliced")):
        return make(values)
    if layout == "transposed":
        return make(values.T.copy()).T
    if layout == "strided":
        return make(np.repeat(values, 2, axis=-1))[..., ::2]
    if layout == "sliced":
        buffer, index = surround(values)
        return make(buffer)[index]
    message = f"the framework copies arrays of the layout {layout!r} to a layout of its own"
    raise Unsupported(message, "interface")


class DeclaredAdapter(Adapter):
    """The base class of adapters that know their framework and all entry points when they are made."""

    def __init__(self, about: About, entry_points: Iterable[EntryPoint]) -> None:
        self._about = about
        self.entry_points = {entry.name: entry for entry in entry_points}

    def about(self) -> About:
        """Return the framework's version, and the settings that may change a result."""
        return self._about

    def subjects(self) -> Sequence[EntryPoint]:
        """Return all entry points."""
        return list(self.entry_points.values())


class ListAdapter(DeclaredAdapter):
    """The base class of adapters whose entry points take lists of tensors."""

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return a tensor of the framework. Raise `Unsupported` for a form that the framework does not have."""
        raise NotImplementedError

    def read_array(self, tensor: Any) -> Array:
        """Return the elements of a tensor."""
        raise NotImplementedError

    def read_result(self, tensor: Any) -> Array:
        """Return the elements of a result. It may have another form than the gradients."""
        return self.read_array(tensor)

    def make_scalar(self, value: float, dtype: str) -> Any:
        """Return a threshold as a tensor without axes, for gradients of a dtype."""
        del value, dtype
        message = "the adapter passes thresholds as numbers only"
        raise Unsupported(message)

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        """Write elements into a tensor of an earlier call."""
        del tensor, array
        message = "tensors of the framework cannot be written to: no call can reuse those of an earlier one"
        raise Unsupported(message, "interface")

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names."""
        entry = self.entry_points[call.subject]
        _refuse_impossible(entry, call)
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        tensors: list[Any] = build_tensors(call.gradients, self.make_tensor)
        with framework_call(lambda: read_each(self.read_array, tensors)) as seen:
            ask = partial(self._clip, entry)
            results, norm = ask_among_others(call, tensors, ask, self.make_tensor, self.fill_tensor)
            # Some frameworks compute only when a result is read.
            read, norm = read_each(self.read_result, results), None if norm is None else self._read_norm(norm)
        return Reply(
            gradients=read,
            norm=norm,
            inputs=read_each(self.read_array, tensors),
            same_object=None
            if "optimizer" in entry.features
            else tuple(new is old for new, old in zip(results, tensors)),
            warnings=seen.warnings,
        )

    def _clip(self, entry: EntryPoint, call: Call, tensors: list[Any]) -> tuple[list[Any], Any]:
        """Pass the tensors to the clip in the form that the call asks for. Return the results and the norm."""
        flags = [gradient.need_clip for gradient in call.gradients]
        dtype = find_dtype(call.gradients)
        options, converted = convert_options(call.options, flags, lambda value: self.make_scalar(value, dtype))
        if not all(flags):
            # These frameworks have no such parameter. The clip passes it on, and the framework raises an error.
            options["need_clip"] = converted
        is_single = "as_single" in call.options and not entry.one_by_one
        passed: Any = tensors[0] if is_single else tensors
        if "as_generator" in call.options:
            passed = (tensor for tensor in tensors)
        clip: Clip = entry.compiled if "compiled" in call.options else entry.clip
        results, norm = clip(passed, options)
        if results is passed:
            return tensors, norm
        return ([results] if is_single else list(results)), norm

    def _read_norm(self, norm: Any) -> Array:
        return Array.of(np.asarray(norm)) if isinstance(norm, (float, np.generic)) else self.read_array(norm)


class ArrayListAdapter(ListAdapter):
    """The base class of adapters whose entry points take lists of NumPy arrays."""

    def make_tensor(self, gradient: Gradient) -> Any:
        if gradient.rows is not None:
            message = "its gradients are arrays, and not row-sparse"
            raise Unsupported(message, "interface")
        return make_array(gradient)

    def read_array(self, tensor: Any) -> Array:
        return Array.of(tensor)

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        tensor[...] = array.numpy()


def _refuse_impossible(entry: EntryPoint, call: Call) -> None:
    if entry.one_by_one and not call.gradients:
        message = f"{entry.name} takes one tensor: an empty list gives no tensor to call it on"
        raise Unsupported(message, "interface")
    if entry.one_by_one and "as_generator" in call.options:
        message = f"{entry.name} takes one tensor, not a list of tensors"
        raise Unsupported(message, "interface")
    if any(gradient.group for gradient in call.gradients) or any(name in call.options for name in TRAINING):
        message = "the adapter makes one step from zero, with one group of parameters"
        raise Unsupported(message)
    if any(gradient.cotangent is not None for gradient in call.gradients):
        message = "the adapter takes no derivatives"
        raise Unsupported(message)
    if "compiled" in call.options and entry.compiled is None:
        message = f"the adapter calls {entry.name} without a compiler"
        raise Unsupported(message)
