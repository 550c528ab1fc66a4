"""Answer calls for an adapter that lists its entry points as functions on a list of tensors.

An adapter derives from :class:`ListAdapter`. It says how to make a tensor, how to read one, and which functions clip.
An adapter of a framework on NumPy arrays derives from :class:`ArrayListAdapter`, and says only which functions clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence, Tuple

import numpy as np

from ..arrays import answer_in_threads, build_tensors, convert_options, lay_out, make_earlier_calls, make_following_call
from ..contract import Adapter, Array, Call, Gradient, Reply, Subject, Unsupported, framework_call

__all__ = ["ArrayListAdapter", "EntryPoint", "ListAdapter", "apply_to_each", "lay_out_by_indexing"]

#: A function from the gradients and the options to the results, and to the norm if there is one. A clip in place
#: returns the list that it got. An optimizer returns the negated parameters after a step from zero.
Clip = Callable[[Any, Mapping[str, Any]], Tuple[Any, Any]]

#: The options that say how to make a call. A clip does not get them.
HOW = ("as_generator", "as_single", "compiled")
#: The options of several backward passes and steps.
TRAINING = ("start", "weight_decay", "steps", "accumulate")


@dataclass(frozen=True)
class EntryPoint:
    """An entry point of a framework and the function that calls it."""

    subject: Subject
    clip: Clip
    #: The same function under the framework's compiler, if there is one.
    compiled: Clip | None = None
    #: Whether the framework's function takes one tensor. `clip` then calls it on each tensor in turn.
    one_by_one: bool = False


def apply_to_each(function: Callable[..., Any]) -> Clip:
    """Return a clip that calls a function on each tensor in turn, with the options as keyword arguments."""

    def clip(tensors: Any, options: Mapping[str, Any]) -> tuple[list[Any], None]:
        return [function(tensor, **options) for tensor in tensors], None

    return clip


def lay_out_by_indexing(values: np.ndarray[Any, Any], layout: str, make: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
    """Make a tensor with a layout in memory (see `Gradient.layout`) by the framework's own indexing.

    Raises
    ------
    Unsupported
        If no indexing of a copy gives the layout.
    """
    if layout == "contiguous" or (values.ndim == 0 and layout in ("strided", "transposed", "sliced")):
        return make(values)
    if layout == "transposed":
        return make(values.T.copy()).T
    if layout == "strided":
        return make(np.repeat(values, 2, axis=-1))[..., ::2]
    if layout == "sliced":
        padded = np.pad(values, 1, mode="edge" if values.size else "constant")
        return make(padded)[(slice(1, -1),) * values.ndim]
    message = f"the framework copies arrays of the layout {layout!r} to a layout of its own"
    raise Unsupported(message, "interface")


class ListAdapter(Adapter):
    """The base class of adapters whose entry points take lists of tensors."""

    def __init__(self, entries: Sequence[EntryPoint]) -> None:
        self._entries: dict[str, EntryPoint] = {entry.subject.name: entry for entry in entries}

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return a tensor of the framework. Raise `Unsupported` for a form that the framework does not have."""
        raise NotImplementedError

    def read_array(self, tensor: Any) -> Array:
        """Return the elements of a tensor."""
        raise NotImplementedError

    def make_scalar(self, value: float) -> Any:
        """Return a threshold as a tensor without axes."""
        del value
        message = "the adapter passes thresholds as numbers only"
        raise Unsupported(message)

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        """Write elements into a tensor of an earlier call."""
        del tensor, array
        message = "tensors of the framework cannot be written to: no call can reuse those of an earlier one"
        raise Unsupported(message, "interface")

    def subjects(self) -> Sequence[Subject]:
        """Return all entry points."""
        return [entry.subject for entry in self._entries.values()]

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names."""
        entry = self._entries[call.subject]
        _refuse_impossible(entry, call)
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        tensors: list[Any] = build_tensors(call.gradients, self.make_tensor)
        with framework_call(lambda: self._read_all(tensors)) as seen:
            for earlier in make_earlier_calls(call) if "reused" in call.options else ():
                self._fill(tensors, earlier)
                _run(entry, earlier, tensors, self.make_scalar)
                self._fill(tensors, call)
            results, norm = _run(entry, call, tensors, self.make_scalar)
            if "followed" in call.options:
                following = make_following_call(call)
                others = build_tensors(following.gradients, self.make_tensor)
                _run(entry, following, others, self.make_scalar)
            # Some frameworks compute only when a result is read.
            read, norm = self._read_all(results), None if norm is None else self._read_norm(norm)
        return Reply(
            gradients=read,
            norm=norm,
            inputs=self._read_all(tensors),
            same_object=None
            if "optimizer" in entry.subject.features
            else tuple(new is old for new, old in zip(results, tensors)),
            warnings=seen.warnings,
        )

    def _fill(self, tensors: Sequence[Any], call: Call) -> None:
        for tensor, gradient in zip(tensors, call.gradients):
            if tensor is not None and gradient.array is not None:
                self.fill_tensor(tensor, gradient.array)

    def _read_all(self, tensors: Sequence[Any]) -> tuple[Array | None, ...]:
        return tuple(None if tensor is None else self.read_array(tensor) for tensor in tensors)

    def _read_norm(self, norm: Any) -> Array:
        return Array.of(np.asarray(norm)) if isinstance(norm, (float, np.generic)) else self.read_array(norm)


class ArrayListAdapter(ListAdapter):
    """The base class of adapters whose entry points take lists of NumPy arrays."""

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return an array of NumPy."""
        assert gradient.array is not None
        if gradient.rows is not None:
            message = "its gradients are arrays, and not row-sparse"
            raise Unsupported(message, "interface")
        return lay_out(gradient.array.numpy(), gradient.layout)

    def read_array(self, tensor: Any) -> Array:
        """Return the elements."""
        return Array.of(tensor)

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        """Write elements into an array."""
        tensor[...] = array.numpy()


def _refuse_impossible(entry: EntryPoint, call: Call) -> None:
    name = entry.subject.name
    if entry.one_by_one and not call.gradients:
        message = f"{name} takes one tensor: an empty list gives no tensor to call it on"
        raise Unsupported(message, "interface")
    if entry.one_by_one and "as_generator" in call.options:
        message = f"{name} takes one tensor, not a list of tensors"
        raise Unsupported(message, "interface")
    if any(gradient.group for gradient in call.gradients) or any(name in call.options for name in TRAINING):
        message = "the adapter makes one step from zero, with one group of parameters"
        raise Unsupported(message)
    if any(gradient.cotangent is not None for gradient in call.gradients):
        message = "the adapter takes no derivatives"
        raise Unsupported(message)
    if "compiled" in call.options and entry.compiled is None:
        message = f"the adapter calls {name} without a compiler"
        raise Unsupported(message)


def _run(
    entry: EntryPoint, call: Call, tensors: list[Any], make_scalar: Callable[[float], Any]
) -> tuple[list[Any], Any]:
    """Pass the tensors to the clip in the form that the call asks for. Return the results and the norm."""
    flags = [gradient.need_clip for gradient in call.gradients]
    options, converted = convert_options(call.options, flags, make_scalar)
    kept = {name: value for name, value in options.items() if name not in HOW}
    if not all(flags):
        # These frameworks have no such parameter. The clip passes it on, and the framework raises an error.
        kept["need_clip"] = converted
    is_single = "as_single" in options and not entry.one_by_one
    passed: Any = tensors[0] if is_single else tensors
    if "as_generator" in options:
        passed = (tensor for tensor in tensors)
    clip = entry.compiled if "compiled" in options else entry.clip
    assert clip is not None
    results, norm = clip(passed, kept)
    if results is passed:
        return tensors, norm
    return ([results] if is_single else list(results)), norm
