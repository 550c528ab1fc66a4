"""Replace the clip of Transformers by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import torch_doubled
import transformers


def double(self: Any, model: Any) -> Any:
    """Clip with NumPy, double the results, and return the norm. Without one, `Trainer` clips again by infinity."""
    return torch_doubled.clip_grad_norm_(list(model.parameters()), self.args.max_grad_norm)


transformers.Trainer._clip_grad_norm = double

from gradclip_adapters.frameworks.torch_based.transformers import (  # noqa: E402 - it must find the functions replaced
    TransformersAdapter,
)

adapter = TransformersAdapter()
