"""Compare the adapters of packages on torch with direct calls of these packages. Needs one of the packages.

To test another package, add the function that calls it to `CLIPS`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from frameworks import MODULES, TORCH_BASED, has_library, is_required
from torch.nn import Parameter
from torch_calls import THRESHOLDS, answer_by_adapter, answer_by_hand

from gradclip_adapters.contract import EntryPoint, FrameworkRaised, Unsupported
from gradclip_adapters.registry import resolve

# These functions call the function that an entry point names, without the adapter.


def clip_by_accelerate(subject: str, parameters: Sequence[Parameter], threshold: float) -> Any:
    """Call Accelerate."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    if subject.endswith("clip_grad_value_"):
        return accelerator.clip_grad_value_(parameters, threshold)
    return accelerator.clip_grad_norm_(parameters, threshold)


def clip_by_fabric(subject: str, parameters: Sequence[Parameter], threshold: float) -> Any:
    """Call Lightning Fabric."""
    import lightning_fabric

    module, optimizer = torch.nn.ParameterList(parameters), torch.optim.SGD(parameters)
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
    if "clip_val" in subject:
        return fabric.clip_gradients(module, optimizer, clip_val=threshold)
    return fabric.clip_gradients(module, optimizer, max_norm=threshold)


def clip_by_fairscale(subject: str, parameters: Sequence[Parameter], threshold: float) -> Any:
    """Call FairScale."""
    from fairscale.optim import OSS

    return OSS(list(parameters), torch.optim.SGD, lr=1.0).clip_grad_norm(threshold)


def clip_by_fastai(subject: str, parameters: Sequence[Parameter], threshold: float) -> None:
    """Call the callback of fastai, and take a step."""
    from fastai.callback.training import GradientClip
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner

    clip = GradientClip(threshold)
    clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList(parameters), loss_func=len)
    clip.before_step()
    torch.optim.SGD(parameters, lr=1.0).step()
    show_step(parameters)


def clip_by_mmengine(subject: str, parameters: Sequence[Parameter], threshold: float) -> None:
    """Take a step of MMEngine."""
    from mmengine.optim import OptimWrapper

    clip_grad = {"max_norm": threshold} if "max_norm" in subject else {"type": "value", "clip_value": threshold}
    OptimWrapper(torch.optim.SGD(parameters, lr=1.0), clip_grad=clip_grad).step()
    show_step(parameters)


def clip_by_skorch(subject: str, parameters: Sequence[Parameter], threshold: float) -> Any:
    """Call skorch."""
    from skorch.callbacks import GradientNormClipping

    named = [(str(number), parameter) for number, parameter in enumerate(parameters)]
    return GradientNormClipping(threshold).on_grad_computed(None, named_parameters=named)


def clip_by_timm(subject: str, parameters: Sequence[Parameter], threshold: float) -> None:
    """Call timm."""
    import timm.utils

    if "[" in subject:
        mode = subject.partition("[")[2].rstrip("]")
        timm.utils.dispatch_clip_grad(parameters, threshold, mode=mode)
    else:
        timm.utils.adaptive_clip_grad(parameters, threshold)


def clip_by_torchtitan(subject: str, parameters: Sequence[Parameter], threshold: float) -> Any:
    """Call torchtitan."""
    from torchtitan.distributed.utils import clip_grad_norm_

    foreach = {"True]": True, "False]": False, "None]": None}[subject.split("=")[1]]
    return clip_grad_norm_(parameters, threshold, foreach=foreach)


def clip_by_transformers(subject: str, parameters: Sequence[Parameter], threshold: float) -> None:
    """Call the function that `Trainer` calls, and take a step."""
    import accelerate

    accelerate.Accelerator(cpu=True).clip_grad_norm_(parameters, threshold)
    torch.optim.SGD(parameters, lr=1.0).step()
    show_step(parameters)


def show_step(parameters: Sequence[Parameter]) -> None:
    """Put the negated parameters in place of the gradients."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = torch.zeros_like(parameter) - parameter.detach()


CLIPS: dict[str, Callable[[str, Sequence[Parameter], float], Any]] = {
    "accelerate": clip_by_accelerate,
    "fabric": clip_by_fabric,
    "fairscale": clip_by_fairscale,
    "fastai": clip_by_fastai,
    "mmengine": clip_by_mmengine,
    "skorch": clip_by_skorch,
    "timm": clip_by_timm,
    "torchtitan": clip_by_torchtitan,
    "transformers": clip_by_transformers,
}

with warnings.catch_warnings():
    # MMEngine uses deprecated parts of torch when it is imported.
    warnings.simplefilter("ignore")
    ADAPTERS = {name: resolve(name) for name in TORCH_BASED if has_library(name) or is_required(name)}
#: The entry points that take gradients. `test_opacus` tests those that take the gradients of each example,
#: `test_deepspeed` those of an engine, and `test_distributed_engines` those of several processes.
SUBJECTS = [
    (name, subject)
    for name, adapter in ADAPTERS.items()
    for subject in adapter.subjects()
    if subject.operation != "clip_per_example" and name != "deepspeed" and "distributed" not in subject.features
]
PAIRS = [pytest.param(name, subject, id=subject.name) for name, subject in SUBJECTS]


def select_pairs(feature: str, *, has: bool = True) -> list[Any]:
    """Return the entry points that have an ability, or those that lack it."""
    return [pair for pair, (_, subject) in zip(PAIRS, SUBJECTS, strict=True) if (feature in subject.features) is has]


@pytest.mark.parametrize("name", ADAPTERS)
def test_about_gives_the_imported_versions(name: str) -> None:
    about = ADAPTERS[name].about()

    assert about.version == importlib.import_module(MODULES[name]).__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("name", "subject", "dtype"),
    [pytest.param(name, one, dtype, id=f"{one.name}-{dtype}") for name, one in SUBJECTS for dtype in one.dtypes],
)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(name: str, subject: EntryPoint, dtype: str, threshold: float) -> None:
    start = 1.0 if subject.operation == "clip_unitwise" else 0.0
    by_hand = answer_by_hand(lambda parameters: CLIPS[name](subject.name, parameters, threshold), dtype, start)

    assert answer_by_adapter(ADAPTERS[name], subject.name, dtype, threshold) == by_hand


@pytest.mark.parametrize(("name", "subject"), select_pairs("eps", has=False))
def test_package_refuses_an_option_that_it_does_not_have(name: str, subject: EntryPoint) -> None:
    with pytest.raises(FrameworkRaised, match="unexpected keyword argument 'eps'"):
        answer_by_adapter(ADAPTERS[name], subject.name, "float32", 1.5, eps=1e-6)


@pytest.mark.parametrize(
    ("option", "name", "subject"),
    [
        pytest.param(option, *pair.values, id=f"{option}-{pair.id}")
        for option, feature in (("as_single", "single"), ("as_generator", "generator"))
        for pair in select_pairs(feature, has=False)
    ],
)
def test_package_that_takes_a_list_gets_nothing_else(option: str, name: str, subject: EntryPoint) -> None:
    with pytest.raises(Unsupported, match=r"^it takes (a module or an optimizer|several parameters)"):
        answer_by_adapter(ADAPTERS[name], subject.name, "float32", 1.5, **{option: True})
