"""Check plain functions as adapters: their signatures, their arguments, and the answers that are accepted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.arrays import make_earlier_calls, make_following_call
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Reply, Unsupported
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.judge.model import Replied
from gradclip_conformance.run.in_process import InProcess

THREE_FOUR = np.array([3.0, 4.0], dtype=np.float32)
GRADIENT = Gradient("a", Array.of(THREE_FOUR))


def make_call(*arrays: np.ndarray[Any, Any] | None, **options: Any) -> Call:
    gradients = tuple(
        Gradient(f"g{number}", None if array is None else Array.of(array)) for number, array in enumerate(arrays)
    )
    return Call("fn", gradients, options)


def ask(function: Any, *arrays: np.ndarray[Any, Any] | None) -> Reply:
    """Return the reply of a function that clips arrays, by default one array."""
    return PlainFunction(function, "clip_by_norm").call(make_call(*(arrays or (THREE_FOUR,)), clip_norm=1.0))


def read_array(array: Array | None) -> np.ndarray[Any, Any]:
    assert array is not None
    return array.numpy()


def halve(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Halve the gradients. This is not a clip, but the adapter must report any result."""
    return [None if grad is None else grad / 2 for grad in grads]


class TestSignature:
    def test_features_follow_the_parameters(self) -> None:
        def take_everything(
            grads: Any,
            clip_norm: float,
            norm_type: float = 2.0,
            *,
            eps: float = 0.0,
            need_clip: Any = None,
            error_if_nonfinite: bool = False,
        ) -> None: ...

        (bare,) = PlainFunction(halve, "clip_by_global_norm").subjects()
        (full,) = PlainFunction(take_everything, "clip_by_global_norm").subjects()

        assert set(full.features) - set(bare.features) == {
            "norm_type",
            "excludes",
            "flag_kinds",
            "optional_flags",
            "error_if_nonfinite",
        }
        assert bare.norm_types == (2.0,)
        assert full.norm_types == (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, float("inf"))

    def test_arbitrary_keywords_count_as_every_parameter(self) -> None:
        (entry_point,) = PlainFunction(lambda grads, **options: grads, "clip_by_value").subjects()

        assert {"min_max", "excludes"} <= set(entry_point.features)
        assert "requires_min" not in entry_point.features

    @pytest.mark.parametrize(("in_place", "feature"), [(True, "in_place"), (False, "functional")])
    def test_in_place_is_judged_only_if_declared(self, in_place: bool, feature: str) -> None:
        (silent,) = PlainFunction(halve, "clip_by_norm").subjects()
        (declared,) = PlainFunction(halve, "clip_by_norm", in_place=in_place).subjects()

        assert set(declared.features) - set(silent.features) == {feature}

    @pytest.mark.parametrize(
        ("function", "operation", "text"),
        [
            (halve, "clip_by_value", "takes no parameter 'max'"),
            (lambda: None, "clip_by_norm", "no positional argument"),
            (lambda grads, clip_norm, rate: grads, "clip_by_norm", "needs rate"),
            (lambda grads, clip_norm, norm_type: grads, "clip_by_norm", "needs norm_type"),
            (dict.fromkeys, "clip_by_norm", "takes no parameter 'clip_norm'"),
            (min, "clip_by_norm", "no signature to read"),
            (halve, "clip", "no operation 'clip'"),
        ],
    )
    def test_function_that_cannot_be_called_is_refused(self, function: Any, operation: str, text: str) -> None:
        with pytest.raises((TypeError, ValueError), match=text):
            PlainFunction(function, operation)

    def test_about_names_the_function_and_the_version_of_its_package(self) -> None:
        def clip(grads: Any, clip_norm: float) -> Any:
            return grads

        assert PlainFunction(clip, "clip_by_norm").about().version == ""
        clip.__module__, clip.__qualname__ = "numpy.linalg", "clip"
        about = PlainFunction(clip, "clip_by_norm").about()
        assert (about.framework, about.version) == ("numpy.linalg:clip", np.__version__)


class TestWhatIsPassed:
    def test_function_gets_only_the_options_of_the_case_and_the_flags(self) -> None:
        seen: dict[str, Any] = {}

        def record(grads: Any, *, clip_norm: float, **options: Any) -> Any:
            seen.update(options, clip_norm=clip_norm)
            return grads

        gradients = (GRADIENT, replace(GRADIENT, need_clip=False))
        PlainFunction(record, "clip_by_norm").call(Call("fn", gradients, {"clip_norm": 1.0, "norm_type": 0.5}))

        assert seen == {"clip_norm": 1.0, "norm_type": 0.5, "need_clip": [True, False]}

    def test_flags_with_a_default_are_left_out_if_nothing_is_excluded(self) -> None:
        seen = []

        def optional(grads: Any, *, clip_norm: float, need_clip: Any = "default") -> Any:
            seen.append(need_clip)
            return grads

        def needed(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
            return optional(grads, clip_norm=clip_norm, need_clip=need_clip)

        def unshown(grads: Any, *, clip_norm: float, **options: Any) -> Any:
            return optional(grads, clip_norm=clip_norm, **options)

        some = (GRADIENT, replace(GRADIENT, need_clip=False))
        for function in (optional, needed, unshown):
            for gradients in (some[:1], some):
                PlainFunction(function, "clip_by_norm").call(Call("fn", gradients, {"clip_norm": 1.0}))

        assert seen == ["default", [True, False], [True], [True, False], [True], [True, False]]

    @pytest.mark.parametrize(
        ("gradient", "options", "text"),
        [
            *(
                (GRADIENT, {option: 1.0}, r"halve (does not have the feature|takes no parameter)")
                for option in ("norm_type", "eps", "error_if_nonfinite", "learning_rate", "as_generator")
            ),
            (replace(GRADIENT, need_clip=False), {}, "takes no parameter 'need_clip'"),
            (replace(GRADIENT, layout="spiral"), {}, "strided"),
            (replace(GRADIENT, rows=(0, 0), height=2), {}, "sparse"),
        ],
    )
    def test_call_beyond_the_parameters_of_a_function_is_unsupported(
        self, gradient: Gradient, options: dict[str, float], text: str
    ) -> None:
        with pytest.raises(Unsupported, match=text):
            PlainFunction(halve, "clip_by_global_norm").call(Call("fn", (gradient,), {"clip_norm": 1.0, **options}))

    def test_missing_min_is_not_filled_in(self) -> None:
        def take_both(grads: Any, *, min: float, max: float) -> Any:
            return grads

        adapter = PlainFunction(take_both, "clip_by_value")

        assert "requires_min" in adapter.subjects()[0].features
        with pytest.raises(Unsupported, match="without min"):
            adapter.call(make_call(THREE_FOUR, max=1.0))

    def test_reused_array_was_called_with_other_numbers_and_options(self) -> None:
        seen = []

        def record(grads: Any, clip_norm: float) -> Any:
            seen.append(((id(grads), id(grads[0])), grads[0].tolist(), clip_norm))
            grads[0] *= 2
            return grads

        PlainFunction(record, "clip_by_norm").call(make_call(THREE_FOUR, clip_norm=1.0, reused=True))

        others = [([3.0, 0.0], 0.5), ([3.0, 4.0], 0.5), ([3.0, 0.0], 1.0)]
        assert [each[1:] for each in seen] == [*others, ([3.0, 4.0], 1.0)]
        assert len({each[0] for each in seen}) == 1

    def test_reused_flags_and_parameters_had_other_contents(self) -> None:
        seen = []

        def record(grads: Any, clip_factor: float, parameters: Any, need_clip: Any) -> Any:
            seen.append(((id(parameters[0]), id(need_clip)), parameters[0].tolist(), list(need_clip)))
            return grads

        unit = replace(GRADIENT, need_clip=False, parameter=GRADIENT.array)
        options = {"clip_factor": 1.0, "reused": True}
        PlainFunction(record, "clip_unitwise").call(Call("fn", (unit, replace(unit, need_clip=True)), options))

        assert [each[1] for each in seen] == [[6.0, 8.0], [6.0, 8.0], [6.0, 8.0], [3.0, 4.0]]
        assert [each[2] for each in seen] == [[True, False], [True, False], [False, True], [False, True]]
        assert len({each[0] for each in seen}) == 1

    @pytest.mark.parametrize(
        ("returned", "seen"),
        [
            (lambda c: 5.0, True),
            (lambda c: 5.0 if c > 5 else None, True),
            (lambda c: None, False),
            (lambda c: c / 0, True),
        ],
        ids=["always", "below-the-threshold", "never", "raises-an-error"],
    )
    def test_first_calls_find_out_whether_a_norm_is_returned(
        self, returned: Callable[[float], float | None], seen: bool
    ) -> None:
        def clip(grads: Any, *, clip_norm: float) -> Any:
            return list(grads), returned(clip_norm)

        (entry_point,) = InProcess(PlainFunction(clip, "clip_by_global_norm")).description.subjects

        assert ("returns_norm" in entry_point.features) is seen
        assert "may_return_norm" in entry_point.features

    def test_first_answers_are_reused_for_the_same_calls(self) -> None:
        calls = []

        def clip(grads: Any, *, clip_norm: float) -> Any:
            calls.append(clip_norm)
            return [grad * len(calls) for grad in grads]

        adapter = InProcess(PlainFunction(clip, "clip_by_global_norm", name="fn"))
        assert calls == [1.0, 8.0]
        three, four = np.array([3.0], np.float32), np.array([4.0], np.float32)

        asked = [make_call(three, four, clip_norm=clip_norm) for clip_norm in (8.0, 1.0, 1.0)]
        answers = [adapter.ask(call, 1.0) for call in asked]

        assert calls == [1.0, 8.0, 1.0]
        replies = [answer.reply for answer in answers if isinstance(answer, Replied)]
        assert [read_array(reply.gradients[0]) for reply in replies] == [6.0, 3.0, 9.0]


class TestAnswer:
    def test_none_stays_none_and_inputs_are_read_back(self) -> None:
        reply = ask(halve, THREE_FOUR, None)

        assert reply.gradients[1] is None
        assert reply.norm is None
        assert reply.same_object == (False, True)
        assert reply.inputs is not None
        np.testing.assert_array_equal(read_array(reply.inputs[0]), THREE_FOUR)
        np.testing.assert_array_equal(read_array(reply.gradients[0]), THREE_FOUR / 2)

    @pytest.mark.parametrize(
        ("get_result", "is_same"),
        [
            (lambda grad: grad, True),
            (lambda grad: grad[...], True),
            (memoryview, True),
            (lambda grad: grad.copy(), False),
            (lambda grad: grad.tolist(), False),
        ],
        ids=["itself", "view", "memoryview", "copy", "list"],
    )
    def test_view_of_a_gradient_is_the_same_object(self, get_result: Any, is_same: bool) -> None:
        assert ask(lambda grads, clip_norm: [get_result(grads[0])]).same_object == (is_same,)

    @pytest.mark.parametrize("norm", [5, 5.0, np.float32(5), np.array(5.0)])
    def test_pair_of_list_and_norm_is_read(self, norm: Any) -> None:
        reply = ask(lambda grads, clip_norm: (grads, norm), THREE_FOUR, THREE_FOUR)

        assert len(reply.gradients) == 2
        assert read_array(reply.norm) == 5
        assert reply.norm is not None
        assert reply.norm.dtype == ("float32" if isinstance(norm, np.float32) else "float64")

    def test_pair_of_arrays_is_two_gradients(self) -> None:
        reply = ask(lambda grads, clip_norm: tuple(grads), THREE_FOUR, THREE_FOUR)

        assert len(reply.gradients) == 2
        assert reply.norm is None

    @pytest.mark.parametrize("returned", [None, 5.0, np.float32(5), np.array(5.0)])
    def test_function_works_in_place_if_it_returns_none_or_a_number(self, returned: Any) -> None:
        def clip(grads: Any, clip_norm: float) -> Any:
            grads[0] *= 0
            return returned

        reply = ask(clip)

        assert reply.same_object == (True,)
        np.testing.assert_array_equal(read_array(reply.gradients[0]), [0.0, 0.0])
        assert (reply.norm is None) == (returned is None)

    def test_changed_list_is_the_result(self) -> None:
        def clip(grads: Any, clip_norm: float) -> None:
            grads[0] = grads[0] * 0

        reply = ask(clip)

        assert reply.inputs is not None
        np.testing.assert_array_equal(read_array(reply.gradients[0]), [0.0, 0.0])
        np.testing.assert_array_equal(read_array(reply.inputs[0]), THREE_FOUR)

    def test_wrong_dtype_and_wrong_count_are_reported_as_they_are(self) -> None:
        reply = ask(lambda grads, clip_norm: [np.array([1, 2]), [0.5]])

        assert [array.dtype for array in reply.gradients if array] == ["int64", "float64"]
        assert reply.same_object is None

    def test_bfloat16_is_sent_as_its_bits(self) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        values = np.array([3.0, -4.5], dtype=ml_dtypes.bfloat16)

        reply = PlainFunction(halve, "clip_by_norm", ("bfloat16",)).call(make_call(values, clip_norm=1.0))

        assert reply.gradients == (Array.of(values / 2),)
        assert reply.gradients[0] is not None
        assert reply.gradients[0].dtype == "bfloat16"

    @pytest.mark.parametrize("returned", [THREE_FOUR, {"a": 1}, iter([]), NotImplemented])
    def test_answer_that_is_not_a_list_is_malformed(self, returned: Any) -> None:
        reply = ask(lambda grads, clip_norm: returned)

        assert reply.gradients == ()
        assert reply.malformed is not None
        assert f"of type {type(returned).__name__}" in reply.malformed
        assert "return the list of clipped gradients" in reply.malformed


class EndlessList(list[Any]):
    """A list that yields items without end."""

    def __iter__(self) -> Any:
        return itertools.repeat(1.0)


class Metaclass(type):
    """A class of types whose name cannot be read."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        """Raise."""
        raise ZeroDivisionError


class Nameless(Exception, metaclass=Metaclass):
    """An exception whose type has no readable name."""


class Text(str):
    """A text that lies about its length."""

    __slots__ = ()

    def __len__(self) -> int:
        return 3


class Unreadable(UserWarning):
    """A warning that is also an error, and whose text cannot be read."""

    def __str__(self) -> str:
        raise ZeroDivisionError


class Long(Exception):
    """An exception with a long text that lies about its length."""

    def __str__(self) -> str:
        return Text("x" * 1_000_000)


class Sequence:
    """A sequence of many numbers that takes no memory."""

    def __len__(self) -> int:
        return 10**12

    def __getitem__(self, index: int) -> float:
        return 1.0


def hold_itself() -> list[Any]:
    """Return a list that is its own item."""
    held: list[Any] = []
    held.append(held)
    return held


class TestHostileResults:
    """Check that whatever a function returns or raises becomes its answer, even if methods of the objects misbehave."""

    @pytest.mark.parametrize(
        ("result", "said"),
        [
            (EndlessList([1.0]), "20,001 gradients in a message"),
            ([EndlessList([1.0])], "takes more than the"),
            ([hold_itself()], "65 axes in a shape"),
            ([Sequence()], "takes more than the"),
            (["x" * 10_000_000], "takes more than the"),
            ([Metaclass("Odd", (), {})()], "object"),
            (Metaclass("Odd", (), {})(), "returned a value of type Odd"),
            ((["x"], np.broadcast_to(np.longdouble(1), (1 << 30,))), "takes 17,179,869,184 bytes"),
            # In memory, each of these arrays takes a few bytes. A packed copy of it would take gigabytes.
            ([np.broadcast_to(np.float32(1), (500_000_000,))], "shape (500000000,) takes 2,000,000,000 bytes"),
            ([np.broadcast_to(np.float32(1), (1 << 19,))] * 1000, "takes 2,097,152 bytes, and "),
            ([[(np.broadcast_to(0.0, (2**40,)),) * 2]], "a list of arrays takes more than the"),
            ([0.0] * 1_000_000, "1,000,000 gradients in a message: the limit is 20,000"),
            ([[[1.0], [1.0, 2.0]]], "inhomogeneous"),
            (([THREE_FOUR], [[1.0], [1.0, 2.0]]), "inhomogeneous"),
        ],
        ids=[
            *("endless", "endless-inside", "holds-itself", "sequence", "text", "nameless", "nameless-whole", "norm"),
            *("large", "large-together", "list-of-large", "long-list", "ragged", "ragged-norm"),
        ],
    )
    def test_hostile_value_is_read_within_limits(self, result: Any, said: str) -> None:
        reply = ask(lambda grads, clip_norm: result)

        assert said in (reply.malformed or str(reply.gradients))

    @pytest.mark.parametrize(
        ("raised", "kind", "said"),
        [
            (Nameless("why"), "Nameless", "why"),
            (Long(), "Long", "x [... 990,100 characters left out ...] x"),
            (Unreadable(), "Unreadable", "cannot be shown"),
            (Unsupported("not me"), "RuntimeError", "Unsupported: not me"),
        ],
        ids=["nameless", "long", "unreadable", "unsupported"],
    )
    def test_hostile_exception_becomes_the_answer(self, raised: Exception, kind: str, said: str) -> None:
        def clip(grads: Any, clip_norm: float) -> Any:
            raise raised

        with pytest.raises(FrameworkRaised) as caught:
            ask(clip)

        assert (caught.value.kind, said in caught.value.text, len(caught.value.text) < 11_000) == (kind, True, True)

    @pytest.mark.parametrize("signature", [5, "text", lambda: 1 / 0])
    def test_signature_that_cannot_be_read_is_refused(self, signature: Any) -> None:
        class Callable:
            __signature__ = property(lambda self: signature() if callable(signature) else signature)

            def __call__(self, grads: Any, clip_norm: float) -> Any:
                return grads

        with pytest.raises(TypeError, match="has no signature to read"):
            PlainFunction(Callable(), "clip_by_norm")


@pytest.mark.parametrize("option", ["reused", "followed"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("special", [math.nan, -math.inf])
def test_other_calls_exclude_nonfinite_values(option: str, dtype: str, special: float) -> None:
    def list_flags(value: float) -> list[list[bool]]:
        gradients = (
            make_tensor([value, 1.0], dtype, need_clip=False),
            make_tensor([2.0, 1.0], dtype),
        )
        call = Call("clip", gradients, {"clip_norm": 1.0, option: True})
        others = make_earlier_calls(call) if option == "reused" else [make_following_call(call)]
        return [[gradient.need_clip for gradient in one.gradients] for one in others]

    assert all(flags == [False, True] for flags in list_flags(special))
    assert [True, False] in list_flags(1.0)
