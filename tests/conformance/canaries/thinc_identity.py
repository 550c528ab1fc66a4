"""Make thinc's clip do nothing."""

from __future__ import annotations

from thinc.api import Ops

Ops.clip_gradient = lambda self, gradient, threshold: gradient

from gradclip_adapters.frameworks.thinc import ThincAdapter  # noqa: E402 - it must find the method replaced

adapter = ThincAdapter()
