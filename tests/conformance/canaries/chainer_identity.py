"""Make Chainer's hooks do nothing."""

from __future__ import annotations

from typing import Any

from chainer.optimizer_hooks import GradientClipping, GradientHardClipping


def leave(hook: Any, *arguments: Any) -> None:
    """Clip nothing."""


GradientClipping.__call__ = leave
GradientHardClipping.__call__ = leave

from gradclip_adapters.frameworks.chainer import ChainerAdapter  # noqa: E402 - it must find the methods replaced

adapter = ChainerAdapter()
