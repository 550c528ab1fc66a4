"""Check torch tensors in a training loop, and special tensors, some of which are refused before any change."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm

CLIPS: list[Callable[..., Any]] = [clip_by_norm, clip_by_global_norm, clip_by_value]


def test_training_loop_equals_that_of_torch() -> None:
    losses: dict[bool, list[float]] = {}
    for ours in (True, False):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(9, 31), torch.nn.Tanh(), torch.nn.Linear(31, 5))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses[ours] = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = (model(torch.ones(20, 9)) ** 2).sum()
            losses[ours].append(float(loss.detach()))
            if not ours:
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                continue
            # docs/how-to/use-the-reference.md: begin
            loss.backward()
            grads = [parameter.grad for parameter in model.parameters()]
            _, total_norm = clip_by_global_norm(grads, 1.0, eps=1e-6, inplace=True)
            optimizer.step()
            # docs/how-to/use-the-reference.md: end
            assert float(global_norm(grads)) <= min(float(total_norm), 1.0) * (1 + 2.0**-22)
    assert losses[True] == pytest.approx(losses[False], rel=1e-5)
    assert losses[True][-1] < losses[True][0]


def _make_leaf() -> Any:
    return torch.tensor([3.0, 4.0], requires_grad=True)


def _make_inference() -> Any:
    with torch.inference_mode():
        return torch.tensor([3.0, 4.0])


def _make_unrecorded_view() -> Any:
    product = _make_leaf() * 2
    with torch.no_grad():
        return product.view(2, 1)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize(
    "second",
    [
        _make_leaf,
        lambda: _make_leaf().view(2, 1),
        _make_inference,
        lambda: torch.ones(1).expand(3),
        lambda: torch.as_strided(torch.arange(1.0, 6.0), (3, 3), (1, 1)),
        lambda: torch._neg_view(torch.ones(2)),
        lambda: (torch.ones(2, 3, requires_grad=True) * 2).unbind()[0],
        _make_unrecorded_view,
    ],
    ids=[
        *("leaf", "view of a leaf", "inference", "expanded", "overlapping", "negative"),
        *("view made with others", "view that is not recorded"),
    ],
)
def test_in_place_is_refused_before_anything_is_changed(clip: Any, second: Callable[[], Any]) -> None:
    first = torch.tensor([30.0, 40.0])
    with pytest.raises(TypeError, match=r"`inplace=True` .* at '1'"):
        clip([first, second()], 1.0, inplace=True)

    assert first.tolist() == [30.0, 40.0]
    assert not first.requires_grad


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("clip", CLIPS)
def test_parameters_are_refused(clip: Callable[..., Any], inplace: bool) -> None:
    model = torch.nn.Linear(3, 2)
    for grads in (model.parameters(), dict(model.named_parameters()), model.weight):
        with pytest.raises(TypeError, match=r"the gradient( at '(0|weight)')? is a torch.nn.Parameter.* `.grad`"):
            clip(grads, 1.0, inplace=inplace)


@pytest.mark.parametrize("clip", CLIPS)
def test_in_place_works_where_torch_allows_it(clip: Any) -> None:
    with torch.no_grad():
        clip([_make_leaf()], 1.0, inplace=True)
    with torch.inference_mode():
        clip([_make_inference()], 1.0, inplace=True)
    parameter = _make_leaf()
    product = parameter * 2
    clip([product], 1.0, inplace=True)
    product.sum().backward()
    assert parameter.grad is not None
    with pytest.raises(TypeError, match=r"at '0'"):
        # Autograd would have to record the coefficient.
        clip([torch.ones(2, 3).unbind()[0], _make_leaf() * 2], 1.0, inplace=True)
    whole = torch.ones(4, 6, 5)
    for view in (whole[::2, 1:], whole.transpose(0, 2), whole[:, :1].permute(2, 1, 0), whole[..., 0], whole[:0, ::2]):
        clip([view], 1.0, inplace=True)


def _make_nested(layout: Any = torch.strided) -> Any:
    return torch.nested.nested_tensor([torch.full((3,), 9.0), torch.full((2,), 9.0)], layout=layout)


@pytest.mark.parametrize("clip", [*CLIPS, lambda grads, threshold, **options: global_norm(grads)])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: torch.ones(2, 2).to_sparse(), r"layout .*; call its method `to_dense`"),
        (lambda: torch.ones(2, 2).to_sparse_csr(), r"layout .*; call its method `to_dense`"),
        (lambda: torch.ones(2, 2).to_mkldnn(), r"layout .*; call its method `to_dense`"),
        (
            lambda: torch.masked.masked_tensor(torch.tensor([30.0, 40.0]), torch.tensor([True, False])),
            "a masked tensor; fill the masked elements",
        ),
        (_make_nested, r"a nested tensor; take it apart \(`unbind`\) or fill it up"),
        (lambda: _make_nested(torch.jagged), r"a nested tensor; take it apart \(`unbind`\) or fill it up"),
    ],
    ids=["COO", "CSR", "MKL-DNN", "masked", "nested", "jagged"],
)
def test_other_kinds_of_tensors_are_refused(clip: Any, make: Callable[[], Any], says: str) -> None:
    with warnings.catch_warnings():
        # torch says that a kind is a prototype, or in beta.
        warnings.simplefilter("ignore", UserWarning)
        tensor = make()
    first = torch.tensor([30.0])
    with pytest.raises(TypeError, match=says):
        clip([first, tensor], 1.0, inplace=True)

    assert first.tolist() == [30.0]
    kept, dense = clip_by_norm([tensor, first], 1.0, need_clip=[False, True])
    assert kept is tensor
    assert dense.tolist() == [1.0]


def test_nested_tensors_are_clipped_in_the_forms_that_the_refusal_names() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage", UserWarning)
        nested = _make_nested()

    assert [x.shape for x in clip_by_norm(nested.unbind(), 9.0)] == [(3,), (2,)]
    assert clip_by_norm([nested.to_padded_tensor(0.0)], 9.0)[0].shape == (2, 3)


@pytest.mark.parametrize("clip", CLIPS)
def test_in_place_returns_the_same_tensors_beside_a_subclass(clip: Any) -> None:
    class Named(torch.Tensor):  # type: ignore[misc, name-defined, unused-ignore]
        pass

    grads = [torch.full((4,), 2.0).as_subclass(Named), torch.full((4,), 2.0)]
    clipped = clip(grads, 1.0, inplace=True)
    clipped = clipped[0] if isinstance(clipped, tuple) else clipped

    assert all(x is y for x, y in zip(clipped, grads, strict=True))
    assert [type(x) for x in grads] == [Named, torch.Tensor]
    assert float(grads[1].max()) <= 1.0


#: Rounding the second coefficient to float32 gives an error of nearly half an ulp.
@pytest.mark.parametrize("threshold", [0.5, 0.5 * (1 + 0.95 * 2.0**-24)])
def test_version_counter_and_strides_are_right_for_any_coefficient(threshold: float) -> None:
    weight = torch.ones(1000, requires_grad=True)
    grad = torch.zeros(1000)
    grad[3] = 1.0
    loss = (weight * grad).sum()
    clip_by_global_norm([grad], threshold, inplace=True)
    # Torch's version counter shows that the tensor was written into.
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    images = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    images[0, 0, 0, 0] = 1.0
    (clipped,), _ = clip_by_global_norm([images], threshold)
    assert clipped.stride() == images.stride()


def test_tiny_coefficient_of_half_precision_scales_correctly() -> None:
    for tensor in (torch.zeros(1 << 20, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16).T[::2]):
        tensor[0] = 1.0
        norm = float(global_norm(tensor))
        clip_by_global_norm([tensor], 2.0**-130, inplace=True)
        assert float(tensor.flatten()[0]) == pytest.approx(2.0**-130 / norm, rel=2.0**-3)


@pytest.mark.parametrize("size", [3, 20_000, 200_000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_with_lazy_negation(size: int, dtype: str) -> None:
    # The imaginary part of a conjugate is such a tensor.
    tensor = torch._neg_view(torch.full((size,), 2.0, dtype=getattr(torch, dtype)))
    assert tensor.is_neg()

    assert float(global_norm(tensor)) == pytest.approx(2 * math.sqrt(size), rel=2.0**-23)
    for clipped in (clip_by_norm(tensor, 1e-45), clip_by_norm(tensor, math.sqrt(size)), clip_by_value(tensor, 1.0)):
        assert bool((clipped <= 0).all())
    torch.testing.assert_close(clip_by_norm(tensor, math.sqrt(size)), -torch.ones_like(tensor.resolve_neg()))


def test_error_if_nonfinite_takes_tensors_that_require_grad() -> None:
    for value in (math.nan, 3.0):
        grads = [torch.tensor([value], requires_grad=True)]
        if math.isnan(value):
            with pytest.raises(FloatingPointError, match="total norm"):
                clip_by_global_norm(grads, 1.0, error_if_nonfinite=True)
        else:
            clipped, norm = clip_by_global_norm(grads, 1.0, error_if_nonfinite=True)
            assert norm.requires_grad
            assert clipped[0].tolist() == [1.0]


def test_norm_is_on_the_device_of_the_included_arrays() -> None:
    elsewhere = torch.empty(2, device="meta")
    for requires_grad in (False, True):
        grads = [elsewhere, torch.tensor([3.0, 4.0], requires_grad=requires_grad)]
        clipped, norm = clip_by_global_norm(grads, 1.0, need_clip=[False, True])
        assert clipped[0] is elsewhere
        assert float(norm.detach()) == 5.0
