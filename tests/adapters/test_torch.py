"""The torch adapter, against torch called by hand; run in an environment that has torch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

try:
    import torch
except ImportError as error:
    if "torch" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"PyTorch is not installed in this environment: {error}", allow_module_level=True)

from gradclip_adapters.contract import FEATURES, Array, Call, FrameworkRaised, Gradient, Reply, Unsupported
from gradclip_adapters.torch import ENTRY_POINTS, TorchAdapter, array_of, tensor_of

ADAPTER = TorchAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}
GLOBAL_NORM = sorted(name for name, subject in SUBJECTS.items() if subject.operation == "clip_by_global_norm")
CLIP_ONLY = sorted(set(GLOBAL_NORM) - {"torch.nn.utils.clip_grad_norm_ then torch.optim.SGD"})
BY_VALUE = sorted(set(SUBJECTS) - set(GLOBAL_NORM))
DTYPES = ("float16", "bfloat16", "float32", "float64")
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def gradients_of(dtype: str, layout: str = "contiguous") -> tuple[Gradient, ...]:
    """Three gradients, with one that is None between them."""
    arrays = [array_of(torch.tensor(values, dtype=getattr(torch, dtype))) for values in VALUES]
    first, *rest = (Gradient(f"g{number}", array, layout=layout) for number, array in enumerate(arrays))
    return (first, Gradient("none", None), *rest)


def parameters_of(dtype: str) -> list[torch.nn.Parameter]:
    """The same by hand."""
    parameters = []
    for values in VALUES:
        gradient = torch.tensor(values, dtype=getattr(torch, dtype))
        parameter = torch.nn.Parameter(torch.zeros_like(gradient))
        parameter.grad = gradient
        parameters.append(parameter)
    return [parameters[0], torch.nn.Parameter(torch.zeros(3)), *parameters[1:]]


def by_hand(subject: str, parameters: list[torch.nn.Parameter], options: Mapping[str, Any]) -> torch.Tensor | None:
    """What the subject's name says, written out."""
    if "clip_grad_value_" in subject:
        foreach = {"True": True, "False": False, "None": None}[subject.split("=")[1][:-1]]
        torch.nn.utils.clip_grad_value_(parameters, options["max"], foreach=foreach)
        return None
    others = {name: value for name, value in options.items() if name in ("norm_type", "error_if_nonfinite")}
    if "get_total_norm" in subject:
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None], **others)
        torch.nn.utils.clip_grads_with_norm_(parameters, options["clip_norm"], norm)
        return norm
    foreach = {"=True]": True, "=False]": False}.get(subject[subject.find("=") :])
    norm = torch.nn.utils.clip_grad_norm_(parameters, options["clip_norm"], foreach=foreach, **others)
    if "SGD" in subject:
        torch.optim.SGD(parameters, lr=options.get("learning_rate", 1.0)).step()
    return norm


def options_of(subject: str, threshold: float, **options: Any) -> dict[str, Any]:
    """The options with the threshold under its name."""
    return {"max" if "value" in subject else "clip_norm": threshold, **options}


def values_of(reply: Reply) -> list[Any]:
    """The gradients of a reply as lists."""
    return [None if array is None else tensor_of(array).tolist() for array in reply.gradients]


class TestConversion:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "sliced"])
    @pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 0), (2, 3, 4)])
    def test_bits_survive(self, dtype: str, layout: str, shape: tuple[int, ...]) -> None:
        generator = np.random.default_rng(0)
        size = np.dtype("u2" if dtype == "bfloat16" else dtype).itemsize
        bits = generator.integers(0, 256, (int(np.prod(shape)) * size), dtype=np.uint8)
        array = Array(dtype, shape, bits.tobytes())

        tensor = tensor_of(array, layout)

        assert str(tensor.dtype) == f"torch.{dtype}"
        assert array_of(tensor) == array

    def test_layouts_are_real(self) -> None:
        array = array_of(torch.ones(2, 3))

        layouts = ("contiguous", "strided", "transposed", "sliced")
        assert [tensor_of(array, layout).stride() for layout in layouts] == [(3, 1), (6, 2), (1, 2), (5, 1)]


class TestSubjects:
    def test_every_feature_is_one_of_the_contract(self) -> None:
        assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)

    def test_about_is_the_version_that_is_imported(self) -> None:
        assert ADAPTER.about().version == torch.__version__

    @pytest.mark.parametrize("subject", sorted(SUBJECTS))
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("threshold", [1.5, 64.0, 0.0])
    def test_answers_what_torch_answers_by_hand(self, subject: str, dtype: str, threshold: float) -> None:
        options = options_of(subject, threshold)
        parameters = parameters_of(dtype)

        norm = by_hand(subject, parameters, options)
        reply = ADAPTER.call(Call(subject, gradients_of(dtype), options))

        steps = "SGD" in subject
        expected = [
            None if p.grad is None else array_of(torch.zeros_like(p) - p if steps else p.grad) for p in parameters
        ]
        assert list(reply.gradients) == expected
        assert reply.norm == (None if norm is None else array_of(norm))

    @pytest.mark.parametrize("subject", sorted(SUBJECTS))
    def test_generators_change_nothing(self, subject: str) -> None:
        options = options_of(subject, 1.5)
        plain = ADAPTER.call(Call(subject, gradients_of("float32"), options))

        assert ADAPTER.call(Call(subject, gradients_of("float32"), {**options, "as_generator": True})) == plain

    @pytest.mark.parametrize("subject", sorted(SUBJECTS))
    @pytest.mark.parametrize("layout", ["strided", "transposed", "sliced"])
    def test_layouts_are_taken(self, subject: str, layout: str) -> None:
        options = options_of(subject, 1.5)
        plain = ADAPTER.call(Call(subject, gradients_of("float64"), options))

        reply = ADAPTER.call(Call(subject, gradients_of("float64", layout), options))

        for one, other in zip(values_of(reply), values_of(plain), strict=True):
            if one is not None:
                # The sum of the squares may be taken in another order.
                np.testing.assert_array_max_ulp(np.asarray(one), np.asarray(other), 4)

    @pytest.mark.parametrize("subject", sorted(SUBJECTS))
    def test_a_reused_gradient_leads_to_the_same(self, subject: str) -> None:
        options = options_of(subject, 1.5)
        alone = ADAPTER.call(Call(subject, gradients_of("float64"), options))

        assert ADAPTER.call(Call(subject, gradients_of("float64"), {**options, "reused": True})) == alone

    @pytest.mark.parametrize("subject", GLOBAL_NORM)
    @pytest.mark.parametrize("norm_type", [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, float("inf")])
    def test_norm_types_reach_torch(self, subject: str, norm_type: float) -> None:
        options = options_of(subject, 1.5, norm_type=norm_type)

        norm = by_hand(subject, parameters_of("float64"), options)
        reply = ADAPTER.call(Call(subject, gradients_of("float64"), options))

        assert norm is not None
        assert reply.norm == array_of(norm)

    @pytest.mark.parametrize("subject", GLOBAL_NORM)
    def test_nonfinite_norm_raises_where_asked(self, subject: str) -> None:
        array = array_of(torch.tensor([float("inf"), 1.0]))
        options = {"clip_norm": 1.0, "error_if_nonfinite": True}

        with pytest.raises(FrameworkRaised, match="RuntimeError: The total norm of order 2") as raised:
            ADAPTER.call(Call(subject, (Gradient("a", array),), options))

        assert raised.value.inputs == (array,)

    @pytest.mark.parametrize("subject", [*CLIP_ONLY, *BY_VALUE])
    def test_result_is_the_gradient_itself(self, subject: str) -> None:
        reply = ADAPTER.call(Call(subject, gradients_of("float32"), options_of(subject, 1.5)))

        assert reply.same_object == (True, True, True, True)
        assert reply.inputs == reply.gradients

    @pytest.mark.parametrize("subject", GLOBAL_NORM)
    def test_repeated_parameter_is_counted_twice(self, subject: str) -> None:
        array = array_of(torch.tensor([3.0]))
        gradients = (Gradient("a", array), Gradient("b", array, same_as=0))

        reply = ADAPTER.call(Call(subject, gradients, {"clip_norm": 1.0}))

        assert reply.norm is not None
        assert tensor_of(reply.norm).item() == pytest.approx(18**0.5)
        assert reply.gradients[0] == reply.gradients[1]

    def test_optimizer_steps_by_its_rate(self) -> None:
        gradients = (Gradient("a", array_of(torch.tensor([4.0, -8.0]))),)
        options = {"clip_norm": 64.0, "learning_rate": 0.25}

        reply = ADAPTER.call(Call("torch.nn.utils.clip_grad_norm_ then torch.optim.SGD", gradients, options))

        assert values_of(reply) == [[1.0, -2.0]]

    @pytest.mark.parametrize(
        ("subject", "gradient", "options"),
        [
            (GLOBAL_NORM[0], Gradient("a", array_of(torch.ones(1)), need_clip=False), {"clip_norm": 1.0}),
            (GLOBAL_NORM[0], Gradient("a", array_of(torch.ones(1, 1)), rows=(0,), height=1), {"clip_norm": 1.0}),
            (GLOBAL_NORM[0], Gradient("a", array_of(torch.ones(1))), {"clip_norm": 1.0, "norm_type": 4.0}),
            (GLOBAL_NORM[0], Gradient("a", array_of(torch.ones(1))), {"clip_norm": 1.0, "eps": 1e-8}),
            (BY_VALUE[0], Gradient("a", array_of(torch.ones(1))), {"max": 1.0, "min": 0.0}),
        ],
    )
    def test_what_torch_cannot_do_is_unsupported(
        self, subject: str, gradient: Gradient, options: dict[str, Any]
    ) -> None:
        with pytest.raises(Unsupported):
            ADAPTER.call(Call(subject, (gradient,), options))

    def test_optimizer_over_nothing_is_unsupported(self) -> None:
        with pytest.raises(Unsupported, match="empty list of parameters"):
            ADAPTER.call(Call("torch.nn.utils.clip_grad_norm_ then torch.optim.SGD", (), {"clip_norm": 1.0}))


@pytest.mark.parametrize("subject", sorted(name for name, one in SUBJECTS.items() if "compiles" in one.features))
def test_a_compiled_call_is_compiled(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, compiling = ENTRY_POINTS[subject], []

    def clip(passed: Any, options: Mapping[str, Any]) -> torch.Tensor | None:
        compiling.append(torch.compiler.is_compiling())
        return entry.clip(passed, options)

    monkeypatch.setitem(ENTRY_POINTS, subject, replace(entry, clip=clip))
    options = options_of(subject, 1.0)
    with warnings.catch_warnings():
        # The compiler's own imports use what is deprecated.
        warnings.simplefilter("ignore")
        compiled = ADAPTER.call(Call(subject, gradients_of("float32"), {**options, "compiled": True}))
    alone = ADAPTER.call(Call(subject, gradients_of("float32"), options))

    assert compiling == [True, False]
    for one, other in zip(values_of(compiled), values_of(alone), strict=True):
        assert (one is None) == (other is None)
        np.testing.assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-6)


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_a_single_tensor_is_passed_in_no_list(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, taken = ENTRY_POINTS[subject], []

    def clip(passed: Any, options: Mapping[str, Any]) -> torch.Tensor | None:
        taken.append(type(passed()))
        return entry.clip(passed, options)

    monkeypatch.setitem(ENTRY_POINTS, subject, replace(entry, clip=clip))
    alone, options = gradients_of("float32")[:1], options_of(subject, 1.0)
    single = ADAPTER.call(Call(subject, alone, {**options, "as_single": True}))
    listed = ADAPTER.call(Call(subject, alone, options))

    assert taken == [torch.nn.Parameter, list]
    assert (single.gradients, single.norm) == (listed.gradients, listed.norm)
