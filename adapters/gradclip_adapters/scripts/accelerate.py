"""Call the clips of Accelerate."""

from functools import partial

import accelerate

from .torch import clip_by_norm, clip_by_value, make, make_sliced, make_strided, make_transposed, read_bfloat16

ENTRY_POINTS = {
    "accelerate.Accelerator.clip_grad_norm_": partial(clip_by_norm, accelerate.Accelerator(cpu=True).clip_grad_norm_),
    "accelerate.Accelerator.clip_grad_value_": partial(
        clip_by_value, accelerate.Accelerator(cpu=True).clip_grad_value_
    ),
}
