"""Offer torch's two clip functions, with torch's own signatures and formulas, computed by the reference.

>>> from gradclip_spec.torch import clip_grad_norm_, clip_grad_value_  # doctest: +SKIP
"""

import functools
import types
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradclip_spec._clip import clip_by_global_norm, clip_by_value
from gradclip_spec._inputs import check_number

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    r"""Clip the gradients of parameters by their common norm, in place, as `torch.nn.utils.clip_grad_norm_` does.

    .. math:: g_i \leftarrow \min\left(1, \frac{\mathit{max\_norm}}{N + 10^{-6}}\right) g_i

    Parameters
    ----------
    parameters : tensor, or iterable of tensors
        The parameters whose `grad` is clipped, of any shape, and of dtype float16, bfloat16, float32 or float64.
    max_norm : float
        The threshold, zero or more.
    norm_type : float, optional
        The p of the norm, above zero; 'inf' or infinity is the largest magnitude.
    error_if_nonfinite : bool, optional
        Whether to raise if the norm is NaN or infinite.
    foreach : bool, optional
        Accepted for compatibility, without effect: all tensors are always processed together.

    Returns
    -------
    tensor
        The norm before clipping, in the same dtype as torch's: the promoted dtype of the gradients.

    Raises
    ------
    RuntimeError
        With `error_if_nonfinite`, if the norm is not finite. A finite norm is not refused, even if torch's own sum of
        squares overflows.
    TypeError
        If gradients cannot be clipped; see :func:`gradclip_spec.clip_by_global_norm`.
    ValueError
        If `max_norm` is negative (torch flips the signs) or NaN, or `norm_type` is not above zero.

    See Also
    --------
    gradclip_spec.clip_by_global_norm : The same with `eps=1e-6`, and other formulas.

    Notes
    -----
    Elements agree with torch's up to rounding, but for three kinds of call. If torch's sum of squares overflows or
    underflows, the elements here are right. If the norm and `max_norm` are infinite, nothing changes here, and torch
    makes every element NaN. A tensor that is the gradient of two parameters is scaled once here, and twice by torch.

    Source: `torch.nn.utils.clip_grad_norm_`.
    """
    import torch

    parameters = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    listed = list(parameters)
    if isinstance(parameters, types.GeneratorType) and not listed:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    grads = [parameter.grad for parameter in listed if parameter.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    with torch.no_grad():
        try:
            _, norm = clip_by_global_norm(
                grads,
                check_number("max_norm", float(max_norm)),
                norm_type=float(norm_type),
                eps=1e-6,
                error_if_nonfinite=error_if_nonfinite,
                inplace=True,
            )
        except FloatingPointError:
            message = (
                f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so it "
                "cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
            raise RuntimeError(message) from None
        return norm.to(functools.reduce(torch.promote_types, [grad.dtype for grad in grads]))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    r"""Clip every element of the gradients of parameters, in place, as `torch.nn.utils.clip_grad_value_` does.

    .. math:: g \leftarrow \min(\max(g, -\mathit{clip\_value}), \mathit{clip\_value})

    Parameters
    ----------
    parameters : tensor, or iterable of tensors
        The parameters whose `grad` is clipped, of any shape, and of dtype float16, bfloat16, float32 or float64.
    clip_value : float
        The largest magnitude, zero or more.
    foreach : bool, optional
        Accepted and without effect.

    Raises
    ------
    TypeError
        If gradients cannot be clipped; see :func:`gradclip_spec.clip_by_value`.
    ValueError
        If `clip_value` is negative or NaN (torch sets every element to that number).

    See Also
    --------
    gradclip_spec.clip_by_value : The same with two bounds.

    Notes
    -----
    Source: `torch.nn.utils.clip_grad_value_`.
    """
    import torch

    listed = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    with torch.no_grad():
        clip_by_value([p.grad for p in listed if p.grad is not None], max=float(clip_value), inplace=True)
