"""Replace a function that clips, by the kind of the place where it leaves the clipped gradients.

Each kind takes the framework's function and the way. "identity" leaves the gradients as they are. "doubled" calls the
framework's function and doubles the gradients, which happens by no accident. A norm that is returned stays right.
"""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any, Callable, Iterable, Iterator, List

#: A function from the framework's function and the way to the function in its place.
Kind = Callable[[Callable[..., Any], str], Callable[..., Any]]
#: A function from the arguments of the framework's function to the tensors that it changes.
Find = Callable[..., List[Any]]

IDENTITY = "identity"


def scale(factor: int, found: Any) -> Any:
    """Return new tensors in the same lists: a tensor, or each tensor of a list, times a factor."""
    if isinstance(found, (list, tuple)):
        return type(found)([scale(factor, one) for one in found])
    return None if found is None else factor * found


# Functions that return the gradients


def keep(gradients: Any) -> Any:
    return gradients


def add_examples(gradients: Iterable[Any]) -> list[Any]:
    """Return the sums of the gradients of all examples."""
    return [gradient.sum(0) for gradient in gradients]


def make_returned(leave: Callable[[Any], Any]) -> Kind:
    """Return the kind of a function that takes the gradients first, and returns the clipped ones."""

    def kind(original: Callable[..., Any], way: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def replaced(gradients: Any, *args: Any, **options: Any) -> Any:
            return leave(gradients) if way == IDENTITY else scale(2, original(gradients, *args, **options))

        return replaced

    return kind


returned = make_returned(keep)
#: A function on the gradients of each example. It returns the sums of the clipped ones.
added = make_returned(add_examples)


def beside_other(kind: Kind) -> Kind:
    """Return the kind of a function that returns the results and something else, such as the norm."""

    def both(original: Callable[..., Any], way: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def replaced(gradients: Any, *args: Any, **options: Any) -> Any:
            # A function may write into the gradients that it gets.
            _, other = original(scale(1, gradients), *args, **options)
            clip = kind(lambda *more, **names: original(*more, **names)[0], way)
            return clip(gradients, *args, **options), other

        return replaced

    return both


with_norm = beside_other(returned)


def of_method(kind: Kind) -> Kind:
    """Return the kind of a method, or of a function that takes something else before what the kind takes."""

    def method(original: Callable[..., Any], way: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def replaced(self: Any, *args: Any, **options: Any) -> Any:
            return kind(functools.partial(original, self), way)(*args, **options)

        return replaced

    return method


def pairs(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace a function that takes and returns pairs of a parameter and its gradient."""

    @functools.wraps(original)
    def replaced(passed: Any) -> Any:
        if way == IDENTITY:
            return passed
        return [(parameter, scale(2, gradient)) for parameter, gradient in original(passed)]

    return replaced


def pair(original: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Replace a function that takes and returns one parameter and its gradient."""

    @functools.wraps(original)
    def replaced(param: Any, grad: Any) -> Any:
        return (param, grad) if way == IDENTITY else (param, scale(2, original(param, grad)[1]))

    return replaced


def outermost(kind: Kind) -> Kind:
    """Return the kind of a function that other replaced functions call. It doubles nothing for them."""

    def outer(original: Callable[..., Any], way: str) -> Callable[..., Any]:
        replaced = kind(original, way)

        @functools.wraps(original)
        def choose(*args: Any, **options: Any) -> Any:
            if getattr(inside, "replaced", False):
                return original(*args, **options)
            inside.replaced = True
            try:
                return replaced(*args, **options)
            finally:
                inside.replaced = False

        return choose

    return outer


#: Whether this thread is inside a function that is replaced by `outermost`.
inside = threading.local()


# Functions that change tensors


def make_changed(find: Find) -> Kind:
    """Return the kind of a function that changes the tensors which `find` finds from its arguments."""

    def kind(original: Callable[..., Any], way: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def replaced(*args: Any, **options: Any) -> Any:
            args = tuple(_list(one) for one in args)
            options = {name: _list(one) for name, one in options.items()}
            before = scale(1, find(*args, **options))
            result = original(*args, **options)
            # A function may put another tensor into the place of a gradient.
            for tensor, old in zip(find(*args, **options), before):
                write(tensor, old if way == IDENTITY else 2 * tensor)
            return result

        return replaced

    return kind


def _list(passed: Any) -> Any:
    return list(passed) if isinstance(passed, Iterator) else passed


def write(tensor: Any, values: Any) -> None:
    if hasattr(tensor, "set_value"):
        # Paddle assigns by index only to tensors with axes.
        tensor.set_value(values)
    elif hasattr(tensor, "copy_"):
        # A distributed tensor of torch cannot be assigned to by index.
        tensor.copy_(values)
    else:
        tensor[...] = values


def find_tensors(tensors: Any, *args: Any, **options: Any) -> list[Any]:
    """Return each tensor of a list once, or the only tensor."""
    listed = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return list({id(one): one for one in listed}.values())


def find_gradients(parameters: Any, *args: Any, **options: Any) -> list[Any]:
    listed = find_tensors([parameters] if hasattr(parameters, "grad") else list(parameters))
    return [one.grad for one in listed if one.grad is not None]


def find_in_groups(groups: Iterable[Any]) -> list[Any]:
    """Return the gradients of the parameters in an optimizer's groups."""
    return find_gradients(itertools.chain.from_iterable(group["params"] for group in groups))


tensors = make_changed(find_tensors)
parameters = make_changed(find_gradients)


# What is unlike the functions of other frameworks


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
