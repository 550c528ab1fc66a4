"""Make the clip of Transformers do nothing."""

from __future__ import annotations

from typing import Any

import transformers


def leave(self: Any, model: Any) -> None:
    """Clip nothing."""


transformers.Trainer._clip_grad_norm = leave

from gradclip_adapters.frameworks.torch_based.transformers import (  # noqa: E402 - it must find the functions replaced
    TransformersAdapter,
)

adapter = TransformersAdapter()
