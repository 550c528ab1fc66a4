"""Test what the TensorFlow.js adapter refuses. Needs Node, and TensorFlow.js beside this Python."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, Gradient, Unsupported
from gradclip_adapters.frameworks.tensorflow_js import TensorFlowJSAdapter

PACKAGES = Path(sys.prefix, "node_modules")
ENTRY_POINT = "tf.clipByValue"
GRADIENT = Gradient("g", Array.of(np.array([3.0, -4.0], np.float32)))

if not (PACKAGES / "@tensorflow").is_dir() and "tensorflow-js" not in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
    pytest.skip("TensorFlow.js is not installed beside this Python", allow_module_level=True)


@pytest.fixture
def adapter() -> Iterator[TensorFlowJSAdapter]:
    made = TensorFlowJSAdapter()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("dtype", "changes", "options", "message"),
    [
        ("float64", {}, {}, "float32 only"),
        ("float32", {"need_clip": False}, {}, "excludes nothing"),
        ("float32", {"layout": "strided"}, {}, "dense"),
        ("float32", {}, {"threads": 2}, "no option threads"),
    ],
)
def test_what_tensorflow_js_does_not_offer_is_unsupported(
    adapter: TensorFlowJSAdapter, dtype: str, changes: Any, options: Any, message: str
) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, dtype)), **changes)

    with pytest.raises(Unsupported, match=message):
        adapter.call(Call(ENTRY_POINT, (gradient,), {"max": 1.0, "min": -1.0, **options}))


def test_death_of_node_ends_the_host(adapter: TensorFlowJSAdapter) -> None:
    adapter._process.send_signal(signal.SIGKILL)
    adapter._process.wait()

    with pytest.raises(SystemExit, match="Node: "):
        adapter.call(Call(ENTRY_POINT, (GRADIENT,), {"max": 1.0, "min": -1.0}))
