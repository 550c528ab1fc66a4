"""Make the clip of fastai do nothing."""

from __future__ import annotations

from typing import Any

from fastai.callback.training import GradientClip


def leave(self: Any) -> None:
    """Clip nothing."""


GradientClip.before_step = leave

from gradclip_adapters.frameworks.torch_based.fastai import FastaiAdapter  # noqa: E402 - it must find the functions replaced

adapter = FastaiAdapter()
