"""Say what the installed torch has, and do what older versions do otherwise. No other adapter module asks for this."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping

import torch
from torch.nn import utils

_PARAMETERS = inspect.signature(utils.clip_grad_norm_).parameters

#: The ability to raise an error for a norm that is not finite, which came in 1.9.
ERROR_IF_NONFINITE = ("error_if_nonfinite",) if "error_if_nonfinite" in _PARAMETERS else ()
#: The parameter `foreach` came in 2.0. Before, there is one mode without it.
MODES: tuple[Mapping[str, bool | None], ...] = (
    ({"foreach": True}, {"foreach": False}, {"foreach": None}) if "foreach" in _PARAMETERS else ({},)
)
#: `torch.compile` came in 2.0.
HAS_COMPILER = hasattr(torch, "compile")
#: `get_total_norm` and `clip_grads_with_norm_` came in 2.6.
HAS_TWO_STEPS = hasattr(utils, "get_total_norm")
#: Before 2.3, the scaler of losses works on GPUs only.
HAS_SCALER = hasattr(getattr(torch, "amp", None), "GradScaler")
#: FSDP2 came in 2.6, and DTensor got its place.
HAS_MESH = HAS_TWO_STEPS


def _find_dtypes(clip: Callable[..., Any]) -> tuple[str, ...]:
    """Return the dtypes for which this build has the kernels of a clip. Old builds for CPUs lack some of half width."""
    found = []
    for name in ("float16", "bfloat16", "float32", "float64"):
        dtype = getattr(torch, name)
        parameter = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
        parameter.grad = torch.zeros_like(parameter)
        try:
            if dtype == torch.bfloat16:
                # The adapters pass it as integers. Before 1.8, `view` takes no dtype.
                torch.zeros(1, dtype=torch.int16).view(dtype)
            clip(parameter, 1.0)
        except (RuntimeError, TypeError):
            continue
        found.append(name)
    return tuple(found)


NORM_DTYPES = _find_dtypes(utils.clip_grad_norm_)
VALUE_DTYPES = _find_dtypes(utils.clip_grad_value_)
#: The dtypes that processes can send each other. Before 2.0, gloo refused bfloat16 ("Invalid scalar type").
SENT_DTYPES = ("float16", "bfloat16", "float32", "float64") if HAS_COMPILER else ("float16", "float32", "float64")


def make_scaler(device: str, enabled: bool) -> Any:
    """Return a scaler of losses for a device. One that is not enabled changes nothing, and every version has it."""
    return torch.amp.GradScaler(device, enabled=enabled) if HAS_SCALER else torch.cuda.amp.GradScaler(enabled=False)


def find_cpu_capability() -> str:
    """Return the instructions that torch's kernels use. Old versions do not say it."""
    find = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    return "unknown" if find is None else str(find())


def make_rows(rows: Any, values: torch.Tensor, shape: Any) -> torch.Tensor:
    """Return a row-sparse tensor. Before 2.0, torch checks it without being asked."""
    checks = {"check_invariants": True} if HAS_COMPILER else {}
    return torch.sparse_coo_tensor(rows, values, shape, **checks)
