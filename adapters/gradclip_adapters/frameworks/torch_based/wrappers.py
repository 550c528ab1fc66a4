"""Adapt packages that clip by torch's functions, or by functions like them. Each package is a row of the table below.

A row has a few short functions, which pass the parameters of a call to the package. They import it themselves, because
each environment has the package of one row.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

import torch
from torch.nn import Parameter, ParameterList

from ...contract import EntryPoint
from .distributed import join_group_of_one
from .engine_meshes import EXPERT_MESHES, EXPERTS, EnginesAdapter, list_on_meshes
from .parameters import (
    ANY_NORM,
    COMMON,
    DTYPES,
    NORM_TYPES,
    OWNED,
    Clip,
    GivenGradients,
    Parameters,
    ParametersAdapter,
    TrainingAdapter,
    select_more,
    train_model,
)


@dataclass(frozen=True)
class Wrapper:
    """A row of the table. A call returns the adapter."""

    framework: str
    #: The module that has the clips.
    module: str
    entry_points: Sequence[EntryPoint]
    #: Does what the package needs before the first call.
    prepare: Callable[[], None] = lambda: None
    #: Returns whether this version has an entry point.
    offers: Callable[[EntryPoint], bool] = lambda _: True
    adapter: type[ParametersAdapter] = EnginesAdapter

    def __call__(self) -> ParametersAdapter:
        """Import the package, and return its adapter."""
        with warnings.catch_warnings():
            # torchvision warns if its own extension does not load. timm's clips do not use it.
            warnings.filterwarnings("ignore", "Failed to load image Python extension")
            importlib.import_module(self.module)
        self.prepare()
        package = self.module.partition(".")[0]
        # torchtitan has no such attribute.
        version = getattr(sys.modules[package], "__version__", None) or importlib.metadata.version(package)
        entry_points = [entry for entry in self.entry_points if self.offers(entry)]
        return self.adapter(self.framework, version, entry_points)


def _by_norm(name: str, clip: Clip, features: Sequence[str], dtypes: Sequence[str] = DTYPES) -> EntryPoint:
    return EntryPoint(name, "clip_by_global_norm", tuple(dtypes), tuple(features), NORM_TYPES, clip=clip)


def _by_value(name: str, clip: Clip, features: Sequence[str]) -> EntryPoint:
    return EntryPoint(name, "clip_by_value", DTYPES, tuple(features), clip=clip)


def _leave_out(features: Sequence[str], name: str) -> tuple[str, ...]:
    return tuple(feature for feature in features if feature != name)


def _clip_norm_by_accelerate(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    return accelerator.clip_grad_norm_(passed(), options["clip_norm"], **select_more(options))


def _clip_value_by_accelerate(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    return accelerator.clip_grad_value_(passed(), options["max"], **select_more(options))


def _clip_by_fabric(argument: str, threshold: str) -> Clip:
    def clip(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
        import lightning_fabric

        parameters = passed()
        fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
        limit = {argument: options[threshold]}
        return fabric.clip_gradients(
            ParameterList(parameters), torch.optim.SGD(parameters), **limit, **select_more(options)
        )

    return clip


def _has_model_parallel() -> bool:
    import lightning_fabric.strategies

    return hasattr(lightning_fabric.strategies, "ModelParallelStrategy")


def _clip_by_fabric_on_meshes(passed: Callable[[], Sequence[Parameter]], options: Mapping[str, Any]) -> Any:
    # torch's optimizers refuse an empty list, so a rank without parameters gets one without a gradient.
    parameters = list(passed()) or [Parameter(torch.zeros(1))]
    return _launch_fabric().clip_gradients(
        ParameterList(parameters),
        torch.optim.SGD(parameters, lr=1.0),
        max_norm=options["clip_norm"],
        **select_more(options),
    )


@functools.lru_cache(maxsize=None)
def _launch_fabric() -> Any:
    """Return the Fabric of this process, which joins the group of its rank."""
    import lightning_fabric
    from lightning_fabric.strategies import ModelParallelStrategy

    world = torch.distributed.get_world_size()
    # The parameters are on meshes already. So Fabric's own mesh has any form.
    strategy = ModelParallelStrategy(lambda module, _: module, data_parallel_size=world, tensor_parallel_size=1)
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=world, strategy=strategy)
    fabric.launch()
    return fabric


def _clip_by_fairscale(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
    from fairscale.optim import OSS

    optimizer = OSS(passed(), torch.optim.SGD, lr=1.0)
    return optimizer.clip_grad_norm(options["clip_norm"], **select_more(options))


def _step_by_fastai(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    train_model(passed(), lambda model: _train_by_fastai(model, options))


def _train_by_fastai(model: GivenGradients, options: Mapping[str, Any]) -> None:
    from fastai.callback.training import GradientClip
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import SGD

    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(1), torch.zeros(1)))
    learner = Learner(
        DataLoaders(batches, []),
        model,
        loss_func=lambda loss, _: loss.float(),
        opt_func=SGD,
        lr=options.get("learning_rate", 1.0),
        train_bn=False,
        cbs=[GradientClip(options["clip_norm"], **select_more(options))],
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit(1)


def _step_by_mmengine(argument: str, threshold: str, kind: Mapping[str, str]) -> Clip:
    def step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
        from mmengine.optim import OptimWrapper

        optimizer = torch.optim.SGD(passed(), lr=options.get("learning_rate", 1.0))
        clip_grad = {**kind, argument: options[threshold], **select_more(options)}
        OptimWrapper(optimizer, clip_grad=clip_grad).step()

    return step


def _clip_by_skorch(passed: Callable[[], Sequence[Parameter]], options: Mapping[str, Any]) -> None:
    """Call the callback as `NeuralNet.train_step` calls it: with pairs of a name and a parameter."""
    from skorch.callbacks import GradientNormClipping

    more = select_more(options)
    # skorch has another name for the order of the norm.
    if "norm_type" in more:
        more["gradient_clip_norm_type"] = more.pop("norm_type")
    callback = GradientNormClipping(gradient_clip_value=options["clip_norm"], **more).initialize()
    named = ((str(number), parameter) for number, parameter in enumerate(passed()))
    callback.on_grad_computed(None, named_parameters=named)


def _dispatch_by_timm(mode: str, threshold: str) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
        import timm.utils

        timm.utils.dispatch_clip_grad(passed(), options[threshold], mode, **select_more(options))

    return clip


def _clip_units_by_timm(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
    import timm.utils

    timm.utils.adaptive_clip_grad(passed(), options["clip_factor"], **select_more(options))


def _clip_by_torchtitan(foreach: bool | None) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
        from torchtitan.distributed import utils

        return utils.clip_grad_norm_(passed(), options["clip_norm"], foreach=foreach, **select_more(options))

    return clip


def _clip_by_torchtitan_on_meshes(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    return _clip_by_torchtitan(None)(passed, options)


def _clip_by_torchtitan_with_experts(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    return _clip_by_torchtitan(None)(passed, {**options, "ep_enabled": True})


def _is_in_this_torchtitan(entry: EntryPoint) -> bool:
    from torchtitan.distributed import utils

    return EXPERTS not in entry.name or "ep_enabled" in inspect.signature(utils.clip_grad_norm_).parameters


# The table

IN_PLACE = (*COMMON, "in_place")
OWNED_IN_PLACE = (*OWNED, "in_place")
#: Each call of MMEngine takes a step, so the parameters of an earlier call are not at zero any more.
STEPS = (*_leave_out(OWNED, "reuses"), "optimizer", "learning_rate")

# Accelerate says of each that it "should be used in place of" torch's function, which takes a single tensor, too.
use_accelerate = Wrapper(
    "Accelerate",
    "accelerate",
    (
        _by_norm("accelerate.Accelerator.clip_grad_norm_", _clip_norm_by_accelerate, (*IN_PLACE, *ANY_NORM)),
        _by_value("accelerate.Accelerator.clip_grad_value_", _clip_value_by_accelerate, IN_PLACE),
        *list_on_meshes("accelerate.Accelerator.clip_grad_norm_", _clip_norm_by_accelerate, ("norm_type",), DTYPES),
    ),
)

use_fabric = Wrapper(
    "Lightning Fabric",
    "lightning_fabric",
    (
        _by_norm(
            "lightning_fabric.Fabric.clip_gradients[max_norm]",
            _clip_by_fabric("max_norm", "clip_norm"),
            (*OWNED_IN_PLACE, *ANY_NORM, "error_if_nonfinite"),
        ),
        _by_value(
            "lightning_fabric.Fabric.clip_gradients[clip_val]", _clip_by_fabric("clip_val", "max"), OWNED_IN_PLACE
        ),
        *list_on_meshes(
            "lightning_fabric.Fabric.clip_gradients",
            _clip_by_fabric_on_meshes,
            ("norm_type", "error_if_nonfinite"),
            DTYPES,
        ),
    ),
    offers=lambda entry: entry.mesh is None or _has_model_parallel(),
)

# Its optimizer shards its state over a group of processes.
use_fairscale = Wrapper(
    "FairScale",
    "fairscale.optim",
    (
        _by_norm(
            "fairscale.optim.OSS.clip_grad_norm",
            _clip_by_fairscale,
            (*_leave_out(OWNED_IN_PLACE, "mixed_dtypes"), *ANY_NORM),
            ("float16", "bfloat16", "float32"),
        ),
    ),
    join_group_of_one,
)

use_fastai = Wrapper(
    "fastai",
    "fastai.callback.training",
    (
        _by_norm(
            "fastai.callback.training.GradientClip",
            _step_by_fastai,
            ("none_grads", "mixed_dtypes", "optimizer", "learning_rate", "norm_type"),
        ),
    ),
    adapter=TrainingAdapter,
)

use_mmengine = Wrapper(
    "MMEngine",
    "mmengine.optim",
    (
        _by_norm(
            "mmengine.optim.OptimWrapper[max_norm]",
            _step_by_mmengine("max_norm", "clip_norm", {}),
            (*STEPS, "norm_type", "error_if_nonfinite"),
        ),
        _by_value(
            "mmengine.optim.OptimWrapper[clip_value]",
            _step_by_mmengine("clip_value", "max", {"type": "value"}),
            STEPS,
        ),
    ),
)

use_skorch = Wrapper(
    "skorch",
    "skorch.callbacks",
    (
        _by_norm(
            "skorch.callbacks.GradientNormClipping", _clip_by_skorch, (*_leave_out(IN_PLACE, "single"), "norm_type")
        ),
    ),
)

use_timm = Wrapper(
    "timm",
    "timm.utils",
    (
        _by_norm(
            "timm.utils.dispatch_clip_grad[norm]", _dispatch_by_timm("norm", "clip_norm"), (*IN_PLACE, "norm_type")
        ),
        _by_value("timm.utils.dispatch_clip_grad[value]", _dispatch_by_timm("value", "max"), IN_PLACE),
        EntryPoint(
            "timm.utils.dispatch_clip_grad[agc]",
            "clip_unitwise",
            DTYPES,
            IN_PLACE,
            clip=_dispatch_by_timm("agc", "clip_factor"),
        ),
        EntryPoint(
            "timm.utils.adaptive_clip_grad", "clip_unitwise", DTYPES, (*IN_PLACE, "eps"), clip=_clip_units_by_timm
        ),
    ),
)

use_torchtitan = Wrapper(
    "torchtitan",
    "torchtitan.distributed.utils",
    (
        *(
            _by_norm(
                f"torchtitan.distributed.utils.clip_grad_norm_[foreach={foreach}]",
                _clip_by_torchtitan(foreach),
                (*IN_PLACE, *ANY_NORM, "error_if_nonfinite"),
            )
            for foreach in (True, False, None)
        ),
        *list_on_meshes(
            "torchtitan.distributed.utils.clip_grad_norm_",
            _clip_by_torchtitan_on_meshes,
            ("norm_type", "error_if_nonfinite"),
            DTYPES,
        ),
        *list_on_meshes(
            "torchtitan.distributed.utils.clip_grad_norm_",
            _clip_by_torchtitan_with_experts,
            ("norm_type", "error_if_nonfinite"),
            DTYPES,
            EXPERT_MESHES,
        ),
    ),
    offers=_is_in_this_torchtitan,
)
