"""The names of adapters, and how a name, a file or a function becomes an adapter.

`BUILT_IN` repeats the entry points of `pyproject.toml` because a host in a framework's own Python (3.7, nothing
installed) has no metadata to read them from; a test proves that the two agree.
"""

from __future__ import annotations

BUILT_IN = {
    "numpy": "gradclip_adapters.reference:numpy",
    "torch": "gradclip_adapters.torch:TorchAdapter",
    "paddle": "gradclip_adapters.paddle:PaddleAdapter",
    "paddle-fluid": "gradclip_adapters.paddle_fluid:PaddleFluidAdapter",
    "tensorflow": "gradclip_adapters.tensorflow:TensorFlowAdapter",
}
