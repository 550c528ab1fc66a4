"""What adapters share: a call is checked against its subject, and its gradients become tensors."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional, Sequence, TypeVar

import numpy as np

from .contract import FEATURES, Call, Gradient, Subject, Unsupported

__all__ = ["build_tensors", "lay_out", "refuse_unlisted"]

#: The feature that each option of a call needs; options that are not named here need none.
FEATURE_OF_OPTION = {
    "min": "min_max",
    "norm_type": "norm_type",
    "eps": "eps",
    "error_if_nonfinite": "error_if_nonfinite",
    "learning_rate": "learning_rate",
    "as_generator": "generator",
}

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
