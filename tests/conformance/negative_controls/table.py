"""List what a negative control replaces in each framework."""

from __future__ import annotations

import importlib
from typing import Any

from gradclip_adapters.operations import OPERATIONS, Operation

from . import special
from .kinds import (
    Kind,
    added,
    beside_other,
    find_gradients,
    find_in_groups,
    make_changed,
    of_method,
    outermost,
    pair,
    pairs,
    parameters,
    returned,
    tensors,
    with_norm,
)

__all__ = ["TABLE", "replace"]

FLEET = "paddle.distributed.fleet.meta_optimizers"


def _choose_kind(operation: Operation) -> Kind:
    if operation.sums_examples:
        return added
    return with_norm if operation.returns_norm else returned


#: For each adapter, the functions that are replaced, as "module:attribute", and their kinds. The script of Node that
#: stands beside this file replaces the function of TensorFlow.js.
TABLE: dict[str, list[tuple[str, Kind]]] = {
    "numpy": [(f"gradclip_spec:{name}", _choose_kind(operation)) for name, operation in OPERATIONS.items()],
    "torch": [
        ("torch.nn.utils:clip_grad_value_", parameters),
        ("torch.nn.utils:clip_grad_norm_", parameters),
        ("torch.nn.utils:clip_grads_with_norm_", parameters),
    ],
    "accelerate": [
        ("accelerate:Accelerator.clip_grad_norm_", of_method(parameters)),
        ("accelerate:Accelerator.clip_grad_value_", of_method(parameters)),
    ],
    "fabric": [("lightning_fabric:Fabric.clip_gradients", of_method(parameters))],
    "torchtitan": [("torchtitan.distributed.utils:clip_grad_norm_", parameters)],
    "fairscale": [
        (
            "fairscale.optim:OSS.clip_grad_norm",
            make_changed(lambda optimizer, *args, **options: find_in_groups(optimizer.param_groups)),
        )
    ],
    "skorch": [
        (
            "skorch.callbacks:GradientNormClipping.on_grad_computed",
            make_changed(lambda *args, named_parameters: find_gradients(one for _, one in named_parameters)),
        )
    ],
    "mmengine": [
        (
            "mmengine.optim:OptimWrapper._clip_grad",
            make_changed(lambda wrapper: find_in_groups(wrapper.optimizer.param_groups)),
        )
    ],
    "transformers": [
        ("transformers:Trainer._clip_grad_norm", make_changed(lambda _, model: find_gradients(model.parameters())))
    ],
    "fastai": [
        (
            "fastai.callback.training:GradientClip.before_step",
            make_changed(lambda callback: find_gradients(callback.parameters())),
        )
    ],
    "timm": [("timm.utils:dispatch_clip_grad", parameters), ("timm.utils:adaptive_clip_grad", parameters)],
    "opacus": [("opacus.optimizers:DPOptimizer.pre_step", special.opacus_step)],
    "deepspeed": [
        ("deepspeed.runtime.utils:clip_grad_norm_", parameters),
        ("deepspeed.runtime.engine:clip_grad_norm_", parameters),
        ("deepspeed.runtime.utils:clip_tensors_by_global_norm", tensors),
        (
            "deepspeed.runtime.zero.stage_1_and_2:DeepSpeedZeroOptimizer.unscale_and_clip_grads",
            of_method(tensors),
        ),
        (
            "deepspeed.runtime.zero.stage3:DeepSpeedZeroOptimizer_Stage3.unscale_and_clip_grads",
            make_changed(lambda optimizer, group, norm: [optimizer.fp32_partitioned_groups_flat[group].grad]),
        ),
    ],
    "paddle": [
        ("paddle.nn:ClipGradByValue.__call__", outermost(of_method(pairs))),
        ("paddle.nn:ClipGradByNorm.__call__", outermost(of_method(pairs))),
        ("paddle.nn:ClipGradByGlobalNorm.__call__", outermost(of_method(pairs))),
        ("paddle.nn.utils:clip_grad_value_", outermost(parameters)),
        ("paddle.nn.utils:clip_grad_norm_", outermost(parameters)),
        ("paddle.nn.clip:clip_by_norm", outermost(returned)),
        ("paddle:clip", outermost(returned)),
        ("paddle:Tensor.clip_", outermost(tensors)),
        ("paddle.base:libpaddle.pir.Value._set_error_clip", special.missing_error_clip),
        (
            f"{FLEET}.dygraph_optimizer.hybrid_parallel_optimizer:HybridParallelClipGrad.__call__",
            outermost(of_method(pairs)),
        ),
    ],
    "paddle-fluid": [
        ("paddle.fluid.clip:GradientClipByValue.__call__", of_method(pairs)),
        ("paddle.fluid.clip:GradientClipByNorm.__call__", of_method(pairs)),
        ("paddle.fluid.clip:GradientClipByGlobalNorm.__call__", of_method(pairs)),
        # `append_gradient_clip_ops` calls these.
        ("paddle.fluid.clip:GradientClipByValue._create_operators", of_method(pair)),
        ("paddle.fluid.clip:GradientClipByNorm._create_operators", of_method(pair)),
        ("paddle.fluid.clip:GradientClipByGlobalNorm._create_operators", of_method(pair)),
        ("paddle.fluid.clip:ErrorClipByValue._append_clip_op", special.error_clip),
    ],
    "tensorflow": [
        ("tensorflow:clip_by_value", returned),
        ("tensorflow:clip_by_norm", returned),
        ("tensorflow:compat.v1.clip_by_average_norm", returned),
        ("tensorflow:clip_by_global_norm", with_norm),
    ],
    "tensorflow-js": [],
    "jax": [("jax.example_libraries.optimizers:clip_grads", returned)],
    "optax": [
        ("optax:clip", special.optax_transformation),
        ("optax:clip_by_global_norm", special.optax_transformation),
        ("optax:clip_by_block_rms", special.optax_transformation),
        ("optax:adaptive_grad_clip", special.optax_transformation),
        ("optax:per_example_global_norm_clip", beside_other(added)),
        ("optax:per_example_layer_norm_clip", beside_other(added)),
        ("optax:projections.projection_l2_ball", returned),
        ("optax:projections.projection_linf_ball", returned),
        ("optax:projections.projection_box", returned),
        ("optax:projections.projection_hypercube", returned),
    ],
    **{
        f"keras-{backend}": [("keras.optimizers:Optimizer._clip_gradients", of_method(returned))]
        for backend in ("torch", "tensorflow", "jax")
    },
    "mlx": [("mlx.optimizers:clip_grad_norm", with_norm), ("mlx.nn.utils:clip_grad_norm_sharded", with_norm)],
    "mxnet": [
        ("mxnet:gluon.utils.clip_global_norm", tensors),
        ("mxnet:nd.clip", returned),
        ("mxnet:optimizer.SGD", special.mxnet_optimizer),
    ],
    "chainer": [
        (
            "chainer.optimizer_hooks:GradientClipping.__call__",
            make_changed(lambda _, optimizer: find_gradients(optimizer.target.params(False))),
        ),
        (
            "chainer.optimizer_hooks:GradientHardClipping.__call__",
            make_changed(lambda hook, rule, parameter: find_gradients(parameter)),
        ),
    ],
    "thinc": [("thinc.api:Ops.clip_gradient", of_method(returned))],
    "nnabla": [
        ("nnabla.functions:clip_by_value", returned),
        ("nnabla.functions:clip_by_norm", returned),
        ("nnabla.solvers:Sgd", special.nnabla_solver),
    ],
    "megengine": [
        ("megengine.optimizer:clip_grad_value", parameters),
        ("megengine.optimizer:clip_grad_norm", parameters),
    ],
    "onnxruntime-training": [
        ("onnx.helper:make_node", special.copying_node),
        ("onnxruntime:InferenceSession.run", special.doubled_returned),
        ("onnxruntime.training.api:Optimizer.set_learning_rate", special.doubled_rate),
    ],
    "mindspore": [
        ("mindspore.ops:clip_by_norm", returned),
        ("mindspore.ops:clip_by_global_norm", returned),
        ("mindspore.ops:clip_by_value", returned),
        ("mindspore.nn:ClipByNorm", special.layer),
    ],
    # The adapter chooses what Jittor's first import compiles.
    "jittor": [("gradclip_adapters.frameworks.jittor:jittor.optim.Optimizer.clip_grad_norm", special.jittor_optimizer)],
}


def replace(adapter: str, way: str) -> None:
    """Replace the functions of an adapter's framework."""
    if adapter not in TABLE:
        message = f"tests/conformance/negative_controls/table.py has no row for {adapter!r}"
        raise KeyError(message)
    for place, kind in TABLE[adapter]:
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for one in owners:
            owner = getattr(owner, one)
        original = getattr(owner, name, None)
        replacement = kind(original, way)
        if replacement is not original:
            setattr(owner, name, replacement)
