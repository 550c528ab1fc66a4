"""Mark a function of a test file, so that pytest checks the clip function that it returns."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradclip_adapters.contract import OPERATIONS

__all__ = ["ARGUMENT", "MARK", "OPTIONS", "PARTS", "Conformance", "conforms"]

#: The kinds of results that may each get a separate test.
PARTS = ("finding", "rule")

#: The argument through which pytest hands the check to a test, and the attribute of a decorated function.
ARGUMENT = "gradclip_check"
MARK = "gradclip"

#: The options of `check_clipper`, which is imported only when a test runs.
OPTIONS = ("dtypes", "in_place", "rule", "memory", "isolated", "timeout", "formula", "mesh", "arrays", "partial")


@dataclass(frozen=True)
class Conformance:
    """A clip function to check, and the options of the check."""

    get: Callable[[], Callable[..., Any]]
    operation: str
    per: str
    options: dict[str, Any] = field(default_factory=dict)


def conforms(
    op: str, *, per: str = "finding", **options: Any
) -> Callable[[Callable[[], Callable[..., Any]]], Callable[..., None]]:
    """Make tests of a clip function: decorate a function of a test file that returns the clip function.

    The check runs once, when pytest runs the first of its tests. A test fails if its finding fails the check, and the
    message of the test shows the finding.

    Parameters
    ----------
    op : str
        The operation that the clip function performs, such as "clip_by_norm". `gradclip check --help` lists all.
    per : {"finding", "rule"}
        What gets a test of its own: each way in which a clip function can differ from the rules, or each rule.
    **options
        The options of :func:`check_clipper`, such as `dtypes`.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    ValueError
        If `op` or `per` is none of these names.
    TypeError
        If there is no such option, if `op` is missing, or if the decorated function takes arguments.

    Examples
    --------
    >>> from gradclip_conformance import conforms
    >>> @conforms(op="clip_by_norm", dtypes=["float32"])
    ... def test_my_clip():
    ...     from my_package import clip
    ...     return clip
    """
    if callable(op):
        msg = "`conforms` needs the operation: write @conforms(op=...) above the function."
        raise TypeError(msg)
    if op not in OPERATIONS:
        msg = f"Unknown `op` {op!r}; choose one of {', '.join(OPERATIONS)}."
        raise ValueError(msg)
    if per not in PARTS:
        msg = f"Unknown `per` {per!r}; choose one of {', '.join(PARTS)}."
        raise ValueError(msg)
    if unknown := sorted(set(options) - set(OPTIONS)):
        msg = f"`conforms` has no option {unknown[0]!r}; it takes {', '.join(OPTIONS)}."
        raise TypeError(msg)

    def decorate(function: Callable[[], Callable[..., Any]]) -> Callable[..., None]:
        if inspect.signature(function).parameters:
            msg = f"{function.__qualname__} must take no arguments and return the clip function."
            raise TypeError(msg)

        # pytest shows the place of the wrapped function, and reads its marks. Its annotations do not matter.
        @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def test(gradclip_check: Callable[[], None]) -> None:
            __tracebackhide__ = True
            gradclip_check()

        made: Any = test
        # pytest reads the arguments of the test from the signature.
        made.__signature__ = inspect.Signature([inspect.Parameter(ARGUMENT, inspect.Parameter.POSITIONAL_OR_KEYWORD)])
        setattr(made, MARK, Conformance(function, op, per, options))
        return test

    return decorate
