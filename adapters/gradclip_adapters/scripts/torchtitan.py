"""Call the clip of torchtitan."""

from functools import partial

from torchtitan.distributed.utils import clip_grad_norm_

from .torch import clip_by_norm, make, make_sliced, make_strided, make_transposed, read_bfloat16

ENTRY_POINTS = {
    "torchtitan.distributed.utils.clip_grad_norm_[foreach=True]": partial(clip_by_norm, clip_grad_norm_, foreach=True),
    "torchtitan.distributed.utils.clip_grad_norm_[foreach=False]": partial(
        clip_by_norm, clip_grad_norm_, foreach=False
    ),
    "torchtitan.distributed.utils.clip_grad_norm_[foreach=None]": partial(clip_by_norm, clip_grad_norm_, foreach=None),
}
