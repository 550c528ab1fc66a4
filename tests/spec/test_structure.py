"""Check trees of gradients, the selection of their arrays by `need_clip`, and policies, which are called on pairs."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradclip_spec import (
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    global_norm,
)

Pair = namedtuple("Pair", "weight bias")


def make_three() -> Any:
    """Return an array of norm 3."""
    return np.array([3.0])


def make_four() -> Any:
    """Return an array of norm 4."""
    return np.array([4.0])


def test_a_generator_is_consumed_once_into_a_list() -> None:
    passed = []

    def yield_gradients() -> Any:
        for array in (make_three(), make_four()):
            passed.append(1)
            yield array

    clipped, total = clip_by_global_norm(yield_gradients(), 2.5)

    assert type(clipped) is list
    assert [array.tolist() for array in clipped] == [[1.5], [2.0]]
    assert (float(total), len(passed)) == (5.0, 2)


def test_nested_trees() -> None:
    tree = {"layer": Pair(make_three(), [None]), "head": OrderedDict(b=(make_four(),), a=None)}
    clipped, _ = clip_by_global_norm(tree, 2.5)

    assert (type(clipped), list(clipped)) == (dict, ["layer", "head"])
    assert type(clipped["layer"]) is Pair
    assert clipped["layer"].weight.tolist() == [1.5]
    assert clipped["layer"].bias == [None]
    assert (type(clipped["head"]), list(clipped["head"])) == (OrderedDict, ["b", "a"])
    assert [type(clipped["head"]["b"]), clipped["head"]["b"][0].tolist()] == [tuple, [2.0]]


def test_nested_trees_take_nested_flags_and_paths() -> None:
    tree = {"layer": Pair(make_three(), make_four()), "head": [None, make_four()]}
    seen = []

    def is_not_bias(path: Any, array: Any) -> bool:
        seen.append((path, array.tolist()))
        return path not in ("layer.bias", "head.1")

    by_flags = global_norm(tree, need_clip={"layer": Pair(True, False), "head": [None, False]})
    by_path = global_norm(tree, need_clip=is_not_bias)

    assert (float(by_flags), float(by_path)) == (3.0, 3.0)
    assert dict(seen) == {"layer.weight": [3.0], "layer.bias": [4.0], "head.1": [4.0]}


def test_flag_of_a_missing_gradient_is_ignored() -> None:
    for flag in (True, None):
        assert float(global_norm([make_three(), None], need_clip=iter([True, flag]))) == 3.0
        assert float(global_norm({"a": make_three(), "b": None}, need_clip={"b": flag, "a": True})) == 3.0
        assert float(global_norm([[make_three()], None], need_clip=[[True], flag])) == 3.0


def nest(value: Any, levels: int) -> Any:
    """Return a value nested in a number of lists."""
    for _ in range(levels):
        value = [value]
    return value


def test_tree_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(ValueError, match="`grads` is nested too deep"):
        global_norm(nest(make_three(), 2_000))


@pytest.mark.parametrize("flags", [{"a": nest(True, 2_000)}, nest(True, 2_000), {"b": nest(True, 2_000)}])
@pytest.mark.parametrize("grads", [{"a": make_three()}, [make_three()], {"a": [make_three()]}])
def test_flags_that_are_nested_too_deep_are_refused(grads: Any, flags: Any) -> None:
    with pytest.raises(ValueError, match="must have the structure of the gradients"):
        global_norm(grads, need_clip=flags)


def test_unknown_container_without_optree_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optree", None)
    for grads, says in (
        ([[make_three()], {5}], "it holds a set"),
        ({"a": 1.0}, "it holds a float"),
        ({"a": 1}, "it holds an int"),
        (1.0, "it is a float"),
    ):
        with pytest.raises(TypeError, match=f"{says}; .* install optree"):
            global_norm(grads)


def test_repeated_array_is_scaled_in_both_places(backend: Any) -> None:
    for dtype in backend.dtypes:
        array, other = backend.array([3.0], dtype), backend.array([3.0], backend.dtypes[0])
        for policy in (ClipByNorm(1.5), ClipByGlobalNorm(3.0)):
            clipped = policy(zip("abcd", [array, array, other, array], strict=True))

            assert [backend.read(gradient).astype(float).tolist() for _, gradient in clipped] == [[1.5]] * 4
        assert backend.read(array).astype(float).tolist() == [3.0]


def test_excluded_arrays_may_be_integers() -> None:
    counts = np.array([7])

    assert clip_by_global_norm([counts, make_three()], 1.0, need_clip=[False, True])[0][0] is counts


@pytest.mark.array_library("jax")
def test_excluded_float0_array_does_not_decide_which_library_is_used() -> None:
    # A derivative with respect to an integer has no values: JAX returns a NumPy array of the dtype float0.
    import jax

    nothing = np.zeros(3, jax.dtypes.float0)
    for clip in (clip_by_norm, clip_by_value):
        for grads, flags in (([nothing, make_three()], [False, True]), ([make_three(), nothing], [True, False])):
            for inplace in (False, True):
                clipped = clip(grads, 1.0, need_clip=flags, inplace=inplace)
                index = flags.index(True)
                assert (clipped[index] is grads[index]) == inplace
                assert type(clipped[index]) is np.ndarray
                assert float(np.max(clipped[index])) <= 1.0
                assert clipped[1 - index] is nothing
    of_jax = clip_by_global_norm([nothing, jax.numpy.asarray(make_three())], 1.0, need_clip=[False, True])[0]
    assert isinstance(of_jax[1], jax.Array)
    assert clip_by_norm([nothing], 1.0, need_clip=[False])[0] is nothing


def test_a_flag_for_a_single_array() -> None:
    array = make_four()

    assert clip_by_value(array, 1.0, need_clip=False) is array
    assert clip_by_value(array, 1.0, need_clip=np.bool_(True)).tolist() == [1.0]
    assert clip_by_value(array, 1.0, need_clip=lambda path, one: path != "") is array


@pytest.mark.parametrize(
    "flags",
    [
        [True],
        [True, True, True],
        [[True], True],
        [{"a": True}, True],
        True,
        "no",
        *(dict.fromkeys(keys, True) for keys in ("a", "b", "abc")),
    ],
)
def test_flags_of_another_structure(flags: Any) -> None:
    for grads in ([make_three(), make_four()], {"a": make_three(), "b": make_four()}):
        with pytest.raises(ValueError, match=r"`need_clip` must have the structure of the gradients, .* keys"):
            global_norm(grads, need_clip=flags)


@pytest.mark.parametrize("flag", [1, None, "yes", 0.0])
def test_flags_that_are_not_bool(flag: Any) -> None:
    with pytest.raises(TypeError, match="True or False"):
        global_norm([make_three(), make_four()], need_clip=[True, flag])
    with pytest.raises(TypeError, match="True or False"):
        global_norm([make_three(), make_four()], need_clip=lambda path, array: flag)


@dataclass(eq=False)
class Parameter:
    """A parameter with the attributes of a parameter of Paddle."""

    need_clip: bool = True


POLICIES = [
    (ClipByValue(2.0), "ClipByValue(max=2.0, min=None)", [[2.0], [2.0]]),
    (ClipByValue(3.5, min=-1.0), "ClipByValue(max=3.5, min=-1.0)", [[3.0], [3.5]]),
    (ClipByNorm(2.0), "ClipByNorm(clip_norm=2.0)", [[2.0], [2.0]]),
    (ClipByGlobalNorm(2.5), "ClipByGlobalNorm(clip_norm=2.5)", [[1.5], [2.0]]),
]


@pytest.mark.parametrize(("policy", "text", "wanted"), POLICIES)
def test_pairs_keep_parameters_and_order(policy: Any, text: str, wanted: Any) -> None:
    plain, excluded = object(), Parameter(need_clip=False)
    kept = np.array([50.0])
    pairs = ((plain, np.array([3.0])), (excluded, kept), (Parameter(), None), (plain, np.array([4.0])))

    clipped = policy(iter(pairs))

    assert [parameter for parameter, _ in clipped] == [parameter for parameter, _ in pairs]
    assert clipped[1][1] is kept
    assert clipped[2][1] is None
    assert [clipped[0][1].tolist(), clipped[3][1].tolist()] == wanted


@pytest.mark.parametrize(("policy", "text", "wanted"), POLICIES)
def test_policies_are_values(policy: Any, text: str, wanted: Any) -> None:
    again = pickle.loads(pickle.dumps(policy))

    assert repr(policy) == text
    assert again == policy
    assert hash(again) == hash(policy)
    assert eval(text) == policy
    assert sum(policy == other for other, _, _ in POLICIES) == 1


def test_bad_arguments_are_refused_at_once() -> None:
    for make in (ClipByNorm, ClipByGlobalNorm):
        with pytest.raises(ValueError, match="clip_norm"):
            make(-1.0)
    with pytest.raises(ValueError, match="min"):
        ClipByValue(1.0, min=2.0)


@pytest.mark.parametrize(
    ("pairs", "error", "got"),
    [
        ([(1, 2, 3)], ValueError, "3 elements"),
        # Two gradients of two elements each: they could be mistaken for pairs.
        ([np.array([3.0, 4.0]), np.array([6.0, 8.0])], TypeError, "ndarray"),
        ({"ab": np.ones(2)}, TypeError, "dict"),
        (["ab"], TypeError, "str"),
        (5, TypeError, "int"),
        ([("weight", [np.ones(2)])], TypeError, "list"),
    ],
)
def test_anything_but_pairs_is_refused(pairs: Any, error: Any, got: str) -> None:
    for policy, _, _ in POLICIES:
        with pytest.raises(error, match=f"(pairs|gradient of a pair).* {got}"):
            policy(pairs)
