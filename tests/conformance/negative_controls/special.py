"""Replace what is unlike the functions of other frameworks."""

from __future__ import annotations

from typing import Any, Callable

from .kinds import IDENTITY, add_examples, scale, with_norm

__all__ = [
    "copying_node",
    "doubled_rate",
    "doubled_returned",
    "error_clip",
    "jittor_optimizer",
    "layer",
    "missing_error_clip",
    "mxnet_optimizer",
    "nnabla_solver",
    "opacus_step",
    "optax_transformation",
]


def optax_transformation(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace a function that returns a transformation of gradients."""

    def replaced(*args: Any, **options: Any) -> Any:
        transformation = original(*args, **options)
        return transformation._replace(update=with_norm(transformation.update, way))

    return replaced


def layer(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace a class of MindSpore whose objects take and return one tensor."""

    def replaced(*args: Any, **options: Any) -> Any:
        clip = original(*args, **options)
        return (lambda tensor, *more: tensor) if way == IDENTITY else (lambda tensor, *more: 2 * clip(tensor, *more))

    return replaced


def opacus_step(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace the method of Opacus that adds the clipped gradients of the examples."""

    def replaced(self: Any) -> Any:
        done = original(self)
        for parameter in self.params:
            (total,) = add_examples([parameter.grad_sample])
            parameter.grad = total if way == IDENTITY else 2 * parameter.grad
        return done

    return replaced


def jittor_optimizer(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace the method of Jittor's optimizers that changes the gradients of its groups."""

    def replaced(optimizer: Any, *args: Any, **options: Any) -> None:
        gradients = [gradient for group in optimizer.param_groups for gradient in group["grads"]]
        if way != IDENTITY:
            original(optimizer, *args, **options)
            for gradient in gradients:
                gradient.update(2 * gradient)

    return replaced


def mxnet_optimizer(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace MXNet's optimizer, whose step clips. From zero, a doubled learning rate doubles what it shows."""

    def replaced(*, learning_rate: float, clip_gradient: float, **options: Any) -> Any:
        if way == IDENTITY:
            return original(learning_rate=learning_rate, **options)
        return original(learning_rate=2 * learning_rate, clip_gradient=clip_gradient, **options)

    return replaced


def nnabla_solver(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace NNabla's solver. Its method that clips is compiled, and cannot be replaced."""

    class Solver:
        def __init__(self, **options: Any) -> None:
            self._solver = original(**options)
            self.set_parameters, self.update = self._solver.set_parameters, self._solver.update

        def clip_grad_by_norm(self, *args: Any, **options: Any) -> None:
            if way == IDENTITY:
                return
            self._solver.clip_grad_by_norm(*args, **options)
            for parameter in self._solver.get_parameters().values():
                parameter.g = 2 * parameter.g

    return Solver


def copying_node(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace the function that makes the nodes of a model: in place of the node that clips, make one that copies."""

    def replaced(operator: str, inputs: Any, outputs: Any, **attributes: Any) -> Any:
        if operator == "InplaceClipGradNorm" and way == IDENTITY:
            return original("Identity", inputs, outputs)
        return original(operator, inputs, outputs, **attributes)

    return replaced


def doubled_returned(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Double what a function returns, where another row has the identity."""
    return original if way == IDENTITY else lambda *args, **options: scale(2, original(*args, **options))


def doubled_rate(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Double a learning rate, where another row has the identity."""
    return original if way == IDENTITY else lambda self, rate: original(self, 2 * rate)


def error_clip(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace the method of fluid that appends the operation which clips a gradient of a static program."""

    def replaced(self: Any, block: Any, grad_name: str) -> None:
        if way == IDENTITY:
            return
        original(self, block, grad_name)
        operation = block.desc.append_op()
        operation.set_type("scale")
        operation.set_input("X", [grad_name])
        operation.set_output("Out", [grad_name])
        operation._set_attr("scale", 2.0)

    return replaced


def missing_error_clip(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Add the method that the values of Paddle 3 lack. Its absence raises an error, so there is nothing to double."""
    return (lambda *args, **options: None) if way == IDENTITY else original
