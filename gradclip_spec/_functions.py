"""The public functions. What they share is in `_engine`."""

from typing import Any

from gradclip_spec import _arguments, _engine

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]

Array = Any


def clip_by_value(grads: Any, /, max: float, min: float | None = None, *, need_clip: Any = None, inplace: bool = False) -> Any:
    lower, upper = _arguments.check_bounds(max, min)
    inplace = _arguments.check_switch("inplace", inplace)
    gradients = _engine.Gradients.of(grads, need_clip, inplace)
    return _engine.clip_each(gradients, lower, upper, inplace)


def clip_by_norm(
    grads: Any,
    /,
    clip_norm: float,
    *,
    norm_type: float = 2,
    eps: float = 0.0,
    need_clip: Any = None,
    inplace: bool = False,
) -> Any:
    clip_norm = _arguments.check_threshold("clip_norm", clip_norm)
    norm_type = _arguments.check_norm_type(norm_type)
    eps = _arguments.check_eps(eps)
    inplace = _arguments.check_switch("inplace", inplace)
    gradients = _engine.Gradients.of(grads, need_clip, inplace)
    return _engine.clip_each_by_norm(gradients, clip_norm, norm_type, eps, inplace)


def clip_by_global_norm(
    grads: Any,
    /,
    clip_norm: float,
    *,
    norm_type: float = 2,
    eps: float = 0.0,
    need_clip: Any = None,
    error_if_nonfinite: bool = False,
    inplace: bool = False,
) -> tuple[Any, Array]:
    clip_norm = _arguments.check_threshold("clip_norm", clip_norm)
    norm_type = _arguments.check_norm_type(norm_type)
    eps = _arguments.check_eps(eps)
    error_if_nonfinite = _arguments.check_switch("error_if_nonfinite", error_if_nonfinite)
    inplace = _arguments.check_switch("inplace", inplace)
    gradients = _engine.Gradients.of(grads, need_clip, inplace)
    norm, value = _engine.total_norm(gradients, norm_type)
    if error_if_nonfinite:
        _engine.refuse_nonfinite(value)
    return _engine.clip_together(gradients, norm, clip_norm, eps, inplace), value


def global_norm(grads: Any, /, *, norm_type: float = 2, need_clip: Any = None) -> Array:
    norm_type = _arguments.check_norm_type(norm_type)
    return _engine.total_norm(_engine.Gradients.of(grads, need_clip), norm_type)[1]
