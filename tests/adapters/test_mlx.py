"""Test that the MLX adapter compiles a call that asks for it. Needs MLX."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, Gradient
from gradclip_adapters.frameworks.mlx import MLXAdapter

ADAPTER = MLXAdapter()
NAME = "mlx.optimizers.clip_grad_norm"


def test_compiled_call_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    if "compiles" not in ADAPTER.entry_points[NAME].features:
        pytest.skip("mx.compile needs g++ on the CPU")
    compile_function, compiled = mx.compile, []
    monkeypatch.setattr(mx, "compile", lambda function: compiled.append(function) or compile_function(function))
    gradient = Gradient("g", Array.of(np.array([3.0, 4.0], np.float32)))

    reply = ADAPTER.call(Call(NAME, (gradient,), {"clip_norm": 1.5, "compiled": True}))

    assert len(compiled) == 1
    assert reply.norm is not None
