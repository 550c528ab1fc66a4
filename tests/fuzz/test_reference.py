"""Fuzz the reference: arguments of any type are refused with a reason, and a tree gives what its list gives.

Other tests check the values of lists: `tests/spec`, and the rows of the suite, against its oracles.
"""

from __future__ import annotations

import decimal
import fractions
import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from fuzzing.guards import FUZZ
from fuzzing.texts import draw_mostly, draw_texts
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from hypothesis.strategies import SearchStrategy

import gradclip_spec
from gradclip_adapters.contract import OPERATIONS

#: The functions of the reference, with the names of their parameters.
PARAMETERS = {name: inspect.signature(getattr(gradclip_spec, name)).parameters for name in (*OPERATIONS, "global_norm")}
#: Views of an array in other layouts. Not all of them can be written.
LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    lambda array: array,
    lambda array: array.T,
    lambda array: array[..., ::-1] if array.ndim else array,
    lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    lambda array: np.broadcast_to(array, (2, *array.shape)),
)
_arrays = st.builds(
    lambda array, view: view(array),
    npst.arrays(
        npst.floating_dtypes(endianness="?"), npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    ),
    st.sampled_from(LAYOUTS),
)
_strange = st.sampled_from(
    (
        *(None, 3, 1.5, "text", {1.0}, np.array([1, 2]), np.array([1j]), np.array([1.0], np.longdouble)),
        *(
            np.array([None, "x"], object),
            np.ma.masked_array([1.0, 2.0], [True, False]),
            np.ones((1, 1)).view(np.matrix),
        ),
    )
)
_numbers = st.one_of(
    *(st.floats(), st.floats(width=16), st.integers(-2, 10**400), st.booleans(), st.none()),
    st.sampled_from(
        ("text", 10**400, np.array(1.0), np.longdouble(1), fractions.Fraction(1, 3), decimal.Decimal("1.5"), 1 + 0j)
    ),
)
_OPTIONS: dict[str, SearchStrategy[Any]] = {
    "min": st.floats(-100.0, 0.0),
    "norm_type": st.sampled_from((1, 2, 2.0, 3, 0.5, math.inf, 100.0)),
    "eps": st.sampled_from((0.0, 1e-6)),
    "axis": st.sampled_from((0, 1, -1)),
    "layers": st.sampled_from(("equal", "by size")),
    "error_if_nonfinite": st.booleans(),
    "inplace": st.booleans(),
}


def draw_trees(leaves: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(draw_texts(), inner, max_size=3)
        ),
        max_leaves=8,
    )


def draw_options(others: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: draw_mostly(usual, others) for name, usual in _OPTIONS.items()})


class UsersOwn(Exception):
    """An error of the user's own predicate, which must reach the caller unchanged."""


def refuse(path: str, array: Any) -> bool:
    msg = f"at {path!r}"
    raise UsersOwn(msg)


def list_leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list | tuple):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from list_leaves(inner)
    else:
        yield tree


def replace_leaves(tree: Any, values: Iterator[Any]) -> Any:
    """Return a tree of the same form with other leaves."""
    if isinstance(tree, dict):
        return {name: replace_leaves(inner, values) for name, inner in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(replace_leaves(inner, values) for inner in tree)
    return next(values)


def attempt(name: str, grads: Any, first: Any, options: dict[str, Any]) -> Any:
    """Return the clipped gradients and the norm of a call, or the error with which it is refused."""
    # The gradients serve as parameters, too.
    needed = {"global_norm": (), "clip_unitwise": (grads, first)}.get(name, (first,))
    known = {option: value for option, value in options.items() if option in PARAMETERS[name]}
    refusals = (TypeError, ValueError, UsersOwn, *[FloatingPointError] * (known.get("error_if_nonfinite") is True))
    try:
        with warnings.catch_warnings(action="error"):
            result = getattr(gradclip_spec, name)(grads, *needed, **known)
    except refusals as error:
        return error
    if name == "global_norm":
        return None, result
    return result if name == "clip_by_global_norm" else (result, None)


def are_same(first: Any, second: Any) -> bool:
    """Return whether two leaves are the same object, or equal arrays bit for bit."""
    return first is second or (
        (type(first), first.dtype, first.shape) == (type(second), second.dtype, second.shape)
        and first.tobytes() == second.tobytes()
    )


@FUZZ
@given(
    st.sampled_from(sorted(PARAMETERS)),
    draw_trees(draw_mostly(_arrays, st.none())),
    st.floats(0.0, 100.0),
    draw_options(st.nothing()),
    st.lists(st.booleans(), min_size=1, max_size=8),
    st.booleans(),
)
@example(
    "clip_by_norm", {"a": [np.ones(2), np.full(2, 3.0)], "b": np.ones(1)}, 0.5, {}, [True, False, False], False
).via("flags of another order")
def test_tree_is_clipped_as_a_list(
    name: str, tree: Any, first: float, options: dict[str, Any], included: Sequence[bool], by_function: bool
) -> None:
    leaves = [*list_leaves(tree)]
    flags = [*itertools.islice(itertools.cycle(included), len(leaves))]
    of_leaf = dict(zip(map(id, leaves), flags, strict=True))
    expected = attempt(name, leaves, first, {**options, "need_clip": flags, "inplace": False})
    need_clip = (lambda path, array: of_leaf[id(array)]) if by_function else replace_leaves(tree, iter(flags))
    result = attempt(name, tree, first, {**options, "need_clip": need_clip})

    if isinstance(expected, Exception) or isinstance(result, Exception):
        # An array that cannot be written is refused only if the clip is in place.
        assert type(expected) is type(result) or options.get("inplace")
        return
    assert are_same(result[1], expected[1])
    if name != "global_norm":
        back = [*list_leaves(result[0])]
        assert replace_leaves(result[0], itertools.repeat(0)) == replace_leaves(tree, itertools.repeat(0))
        assert all(map(are_same, back, expected[0]))
        excluded = itertools.compress(zip(back, leaves, strict=True), (not flag for flag in flags))
        assert name == "clip_per_example" or all(one is other for one, other in excluded)


def draw_hostile_calls() -> SearchStrategy[dict[str, Any]]:
    """Draw the parts of a call. One of them is hostile, because a call is refused for its first fault."""
    usual = {
        "tree": draw_trees(_arrays),
        "first": st.floats(0.0, 100.0),
        "options": draw_options(st.nothing()),
        "need_clip": st.none(),
    }
    hostile = {
        "tree": draw_trees(draw_mostly(_arrays, _strange)),
        "first": _numbers,
        "options": draw_options(_numbers),
        "need_clip": st.just(refuse) | _numbers | draw_trees(_arrays | _strange),
    }
    return st.one_of(*(st.fixed_dictionaries({**usual, part: drawn}) for part, drawn in hostile.items()))


def make_call(tree: Any, first: Any, options: dict[str, Any] | None = None, need_clip: Any = None) -> dict[str, Any]:
    return {"tree": tree, "first": first, "options": options or {}, "need_clip": need_clip}


@FUZZ
@given(st.sampled_from(sorted(PARAMETERS)), draw_hostile_calls())
@example("clip_by_norm", make_call(np.ones(2, "f2"), 0.0, {"norm_type": 2.3e-50})).via("decimal.Overflow")
@example("clip_by_norm", make_call(np.ones(2, "f2"), 10**400)).via("a number that no float holds")
@example("clip_by_value", make_call(np.zeros((), "f2"), 0.0, need_clip=refuse)).via("an error without a text")
def test_arguments_are_accepted_or_refused_with_a_reason(name: str, call: dict[str, Any]) -> None:
    tree, options = call["tree"], call["options"]
    arrays = [leaf for leaf in list_leaves(tree) if isinstance(leaf, np.ndarray)]
    before = [array.tobytes() for array in arrays]
    result = attempt(name, tree, call["first"], {**options, "need_clip": call["need_clip"]})

    if isinstance(result, Exception):
        assert str(result)
    if isinstance(result, Exception) or options.get("inplace") is not True:
        assert [array.tobytes() for array in arrays] == before
