"""Check that the quick looks at a line find what a walk through its values finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradclip_reports.limits import LIMITS, NAMES, OverLimit, check_line, parse_json

NAME, TEXT, AXES, DEPTH = (LIMITS[name].number for name in ("name", "text", "axes", "depth"))

#: The beginnings and ends of texts: quotation marks and backslashes, which JSON escapes, and half of a surrogate pair.
ENDS = st.sampled_from(["", '"', "\\", "\n", "[", "{", "é", "\ud800", "😀"])
TEXTS = st.builds(
    lambda start, length, end: start + "x" * length + end,
    ENDS,
    st.one_of(st.integers(0, 9), st.integers(NAME - 2, NAME + 2), st.sampled_from([TEXT, TEXT + 1])),
    ENDS,
)
KEYS = st.one_of(st.sampled_from(["detail", "subject", "rule", "a"]), TEXTS)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.none()),
    lambda values: st.one_of(st.lists(values, max_size=3), st.dictionaries(KEYS, values, max_size=3)),
    max_leaves=6,
)


def is_within_limits(value: Any, name: str = "") -> bool:
    """Return whether each text in a value is within its limit and can be encoded."""
    if isinstance(value, dict):
        return all(is_within_limits(key, "name") and is_within_limits(one, key) for key, one in value.items())
    if isinstance(value, list):
        return all(is_within_limits(one, name) for one in value)
    if not isinstance(value, str):
        return True
    return len(value) <= (NAME if name in NAMES else TEXT) and not any("\ud800" <= one <= "\udfff" for one in value)


def is_accepted(line: str) -> bool:
    """Return whether a line of JSON is within the limits."""
    try:
        parse_json(line)
    except OverLimit:
        return False
    return True


@given(values=st.dictionaries(KEYS, VALUES, max_size=3), is_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
def test_texts_are_refused_exactly_beyond_their_limits(
    values: dict[str, Any], is_ascii: bool, indent: int | None
) -> None:
    line = json.dumps(values, ensure_ascii=is_ascii, indent=indent)

    assert is_accepted(line) == is_within_limits(values)


@pytest.mark.parametrize(("length", "accepted"), [(NAME, True), (NAME + 1, False)])
def test_long_name_is_refused_wherever_it_stands(length: int, accepted: bool) -> None:
    for before in range(2 * NAME):
        members = {"detail": "x" * min(before, NAME), "a": "y" * max(0, before - NAME), "rule": "z" * length}
        assert is_accepted(json.dumps(members)) == accepted, before


@pytest.mark.parametrize("name", ["shape", "sh\\u0061pe"])
@pytest.mark.parametrize(("length", "accepted"), [(AXES, True), (AXES + 1, False)])
def test_shape_is_refused_exactly_beyond_its_limit(name: str, length: int, accepted: bool) -> None:
    for line in (f'{{"{name}":{[1] * length}}}', f'{{"observed":[{{"a":[{{"{name}":{[1] * length}}}]}}]}}'):
        assert is_accepted(line) == accepted


@given(
    parts=st.lists(
        st.sampled_from(["[", "]", "{", "}", "[" * 20, "]" * 20, '"[["', '"\\"{"', '"\\\\"', ",", ":1", " "]),
        max_size=40,
    )
)
def test_depth_is_that_of_the_brackets_outside_texts(parts: list[str]) -> None:
    depth = deepest = 0
    for one in "".join(part for part in parts if not part.startswith('"')):
        depth += (one in "[{") - (one in "]}")
        deepest = max(deepest, depth)

    if deepest <= DEPTH:
        check_line("".join(parts))
    else:
        with pytest.raises(OverLimit, match=f"^{deepest} levels of nesting"):
            check_line("".join(parts))


def test_line_of_one_text_has_no_depth() -> None:
    check_line('"' + "[" * (DEPTH + 1) + '"')
