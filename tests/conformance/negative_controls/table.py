"""List what a negative control replaces in each framework."""

from __future__ import annotations

import importlib
from typing import Any

from gradclip_adapters.operations import OPERATIONS, Operation

from . import kinds
from .kinds import Kind, find_gradients, find_in_groups, make_changed, of_method, outermost

FLEET = "paddle.distributed.fleet.meta_optimizers"


def _choose_kind(operation: Operation) -> Kind:
    if operation.sums_examples:
        return kinds.added
    return kinds.with_norm if operation.returns_norm else kinds.returned


#: For each adapter, the functions that are replaced, as "module:attribute", and their kinds. The script of Node that
#: stands beside this file replaces the function of TensorFlow.js.
TABLE: dict[str, list[tuple[str, Kind]]] = {
    "numpy": [(f"gradclip_spec:{name}", _choose_kind(operation)) for name, operation in OPERATIONS.items()],
    "torch": [
        ("torch.nn.utils:clip_grad_value_", kinds.parameters),
        ("torch.nn.utils:clip_grad_norm_", kinds.parameters),
        ("torch.nn.utils:clip_grads_with_norm_", kinds.parameters),
    ],
    "accelerate": [
        ("accelerate:Accelerator.clip_grad_norm_", of_method(kinds.parameters)),
        ("accelerate:Accelerator.clip_grad_value_", of_method(kinds.parameters)),
    ],
    "fabric": [("lightning_fabric:Fabric.clip_gradients", of_method(kinds.parameters))],
    "torchtitan": [("torchtitan.distributed.utils:clip_grad_norm_", kinds.parameters)],
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
    "timm": [("timm.utils:dispatch_clip_grad", kinds.parameters), ("timm.utils:adaptive_clip_grad", kinds.parameters)],
    "opacus": [("opacus.optimizers:DPOptimizer.pre_step", kinds.opacus_step)],
    "deepspeed": [
        ("deepspeed.runtime.utils:clip_grad_norm_", kinds.parameters),
        ("deepspeed.runtime.engine:clip_grad_norm_", kinds.parameters),
        ("deepspeed.runtime.utils:clip_tensors_by_global_norm", kinds.tensors),
        (
            "deepspeed.runtime.zero.stage_1_and_2:DeepSpeedZeroOptimizer.unscale_and_clip_grads",
            of_method(kinds.tensors),
        ),
        (
            "deepspeed.runtime.zero.stage3:DeepSpeedZeroOptimizer_Stage3.unscale_and_clip_grads",
            make_changed(lambda optimizer, group, norm: [optimizer.fp32_partitioned_groups_flat[group].grad]),
        ),
    ],
    "paddle": [
        ("paddle.nn:ClipGradByValue.__call__", outermost(of_method(kinds.pairs))),
        ("paddle.nn:ClipGradByNorm.__call__", outermost(of_method(kinds.pairs))),
        ("paddle.nn:ClipGradByGlobalNorm.__call__", outermost(of_method(kinds.pairs))),
        ("paddle.nn.utils:clip_grad_value_", outermost(kinds.parameters)),
        ("paddle.nn.utils:clip_grad_norm_", outermost(kinds.parameters)),
        ("paddle.nn.clip:clip_by_norm", outermost(kinds.returned)),
        ("paddle:clip", outermost(kinds.returned)),
        ("paddle:Tensor.clip_", outermost(kinds.tensors)),
        ("paddle.base:libpaddle.pir.Value._set_error_clip", kinds.missing_error_clip),
        (
            f"{FLEET}.dygraph_optimizer.hybrid_parallel_optimizer:HybridParallelClipGrad.__call__",
            outermost(of_method(kinds.pairs)),
        ),
    ],
    "paddle-fluid": [
        ("paddle.fluid.clip:GradientClipByValue.__call__", of_method(kinds.pairs)),
        ("paddle.fluid.clip:GradientClipByNorm.__call__", of_method(kinds.pairs)),
        ("paddle.fluid.clip:GradientClipByGlobalNorm.__call__", of_method(kinds.pairs)),
        # `append_gradient_clip_ops` calls these.
        ("paddle.fluid.clip:GradientClipByValue._create_operators", of_method(kinds.pair)),
        ("paddle.fluid.clip:GradientClipByNorm._create_operators", of_method(kinds.pair)),
        ("paddle.fluid.clip:GradientClipByGlobalNorm._create_operators", of_method(kinds.pair)),
        ("paddle.fluid.clip:ErrorClipByValue._append_clip_op", kinds.error_clip),
    ],
    "tensorflow": [
        ("tensorflow:clip_by_value", kinds.returned),
        ("tensorflow:clip_by_norm", kinds.returned),
        ("tensorflow:compat.v1.clip_by_average_norm", kinds.returned),
        ("tensorflow:clip_by_global_norm", kinds.with_norm),
    ],
    "tensorflow-js": [],
    "jax": [("jax.example_libraries.optimizers:clip_grads", kinds.returned)],
    "optax": [
        ("optax:clip", kinds.optax_transformation),
        ("optax:clip_by_global_norm", kinds.optax_transformation),
        ("optax:clip_by_block_rms", kinds.optax_transformation),
        ("optax:adaptive_grad_clip", kinds.optax_transformation),
        ("optax:per_example_global_norm_clip", kinds.beside_other(kinds.added)),
        ("optax:per_example_layer_norm_clip", kinds.beside_other(kinds.added)),
        ("optax:projections.projection_l2_ball", kinds.returned),
        ("optax:projections.projection_linf_ball", kinds.returned),
        ("optax:projections.projection_box", kinds.returned),
        ("optax:projections.projection_hypercube", kinds.returned),
    ],
    **{
        f"keras-{backend}": [("keras.optimizers:Optimizer._clip_gradients", of_method(kinds.returned))]
        for backend in ("torch", "tensorflow", "jax")
    },
    "mlx": [
        ("mlx.optimizers:clip_grad_norm", kinds.with_norm),
        ("mlx.nn.utils:clip_grad_norm_sharded", kinds.with_norm),
    ],
    "mxnet": [
        ("mxnet:gluon.utils.clip_global_norm", kinds.tensors),
        ("mxnet:nd.clip", kinds.returned),
        ("mxnet:optimizer.SGD", kinds.mxnet_optimizer),
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
    "thinc": [("thinc.api:Ops.clip_gradient", of_method(kinds.returned))],
    "nnabla": [
        ("nnabla.functions:clip_by_value", kinds.returned),
        ("nnabla.functions:clip_by_norm", kinds.returned),
        ("nnabla.solvers:Sgd", kinds.nnabla_solver),
    ],
    "megengine": [
        ("megengine.optimizer:clip_grad_value", kinds.parameters),
        ("megengine.optimizer:clip_grad_norm", kinds.parameters),
    ],
    "onnxruntime-training": [
        ("onnx.helper:make_node", kinds.copying_node),
        ("onnxruntime:InferenceSession.run", kinds.doubled_returned),
        ("onnxruntime.training.api:Optimizer.set_learning_rate", kinds.doubled_rate),
    ],
    "mindspore": [
        ("mindspore.ops:clip_by_norm", kinds.returned),
        ("mindspore.ops:clip_by_global_norm", kinds.returned),
        ("mindspore.ops:clip_by_value", kinds.returned),
        ("mindspore.nn:ClipByNorm", kinds.layer),
    ],
    # The adapter chooses what Jittor's first import compiles.
    "jittor": [("gradclip_adapters.frameworks.jittor:jittor.optim.Optimizer.clip_grad_norm", kinds.jittor_optimizer)],
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
