"""Check the patterns of names. They match like regular expressions, but in linear time."""

from __future__ import annotations

import itertools
import re

import pytest

from gradclip_conformance.cases.patterns import matches


@pytest.mark.parametrize("length", range(6))
def test_star_stands_for_any_text(length: int) -> None:
    names = ["".join(letters) for count in range(5) for letters in itertools.product("ab", repeat=count)]
    for pattern in itertools.product("ab*", repeat=length):
        expression = re.compile("".join(".*" if letter == "*" else letter for letter in pattern))
        for name in names:
            assert matches("".join(pattern), name) is (expression.fullmatch(name) is not None), (pattern, name)


def test_brackets_and_dots_are_not_special() -> None:
    assert matches("f[x=*].", "f[x=1].")
    assert not matches("f[x]", "fx")
    assert not matches(".", "x")


def test_many_stars_take_linear_time() -> None:
    # A regular expression would exceed the time limit of the test.
    assert not matches("*a" * 100 + "*b", "a" * 300)
    assert matches("*a" * 100 + "*b", "a" * 300 + "b")
