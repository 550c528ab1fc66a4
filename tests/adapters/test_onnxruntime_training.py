"""Test what the adapter of ONNX Runtime training passes on. Needs ONNX Runtime training."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.frameworks.onnxruntime import ONNXRuntimeAdapter

ADAPTER = ONNXRuntimeAdapter()
OPERATOR, STEP = "com.microsoft.InplaceClipGradNorm", "onnxruntime.training.onnxblock.optim.ClipGradNorm [SGD]"
GRADIENT = Gradient("g", Array.of(np.array([3.0, -4.0], np.float32)))


def test_schema_lists_the_dtypes_that_the_operator_declares() -> None:
    for dtype in ("float16", "float64"):
        gradient = Gradient("g", Array.of(np.ones(2, dtype)))
        with pytest.raises(FrameworkRaised, match="Tensor type mismatch"):
            ADAPTER.call(Call(OPERATOR, (gradient,), {"clip_norm": 1.0}))


# A block whose `__init__` raised an error raises another one when it is deleted.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("subject", [OPERATOR, STEP])
def test_option_that_the_clip_does_not_have_is_refused(subject: str) -> None:
    with pytest.raises(FrameworkRaised):
        ADAPTER.call(Call(subject, (GRADIENT,), {"clip_norm": 1.0, "eps": 1.0}))
