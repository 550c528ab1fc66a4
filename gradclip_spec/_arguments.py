"""Checks of the arguments that are plain numbers and switches.

Every check returns the value in the one form that the rest of the package works with, or raises an error that names
the argument, says what was given, and says what to give instead. They run before a gradient is looked at.
"""

import math
import numbers
from typing import Any

import numpy as np

__all__ = ["check_bounds", "check_eps", "check_norm_type", "check_switch", "check_threshold"]


def check_threshold(name: str, value: Any) -> float:
    """A norm threshold: a number that is zero or more; infinity means that nothing is ever clipped."""
    number = _number(name, value, "a number that is zero or more")
    # The value itself, here and below, because what is barely below zero becomes zero as a float.
    if not value >= 0:
        message = f"`{name}` must be zero or more, got {_shown(value)}; infinity is the threshold that clips nothing"
        raise ValueError(message)
    return number


def check_bounds(max: Any, min: Any) -> tuple[float, float]:
    """The lower and the upper bound of a clip by value, `min` defaulting to `-max`."""
    upper = _number("max", max, "a number")
    if min is None and not max >= 0:
        message = (
            f"`max` must be zero or more when `min` is left to be its negative, got {_shown(max)}; give `min` as well"
        )
        raise ValueError(message)
    lower = -upper if min is None else _number("min", min, "a number, or None for `-max`")
    if min is not None and not min <= max:
        message = (
            f"`min` must be at most `max` and neither may be NaN, got min={_shown(min)} and max={_shown(max)}; `max` "
            f"comes first"
        )
        raise ValueError(message)
    return lower, upper


def check_norm_type(value: Any) -> float:
    """The p of a p-norm: any number above zero, infinity included."""
    number = _number("norm_type", value, "a number above zero, such as 2 or float('inf')")
    if not number > 0:
        message = f"`norm_type` must be above zero, got {_shown(value)}; use 2, 1 or float('inf')"
        raise ValueError(message)
    # Beyond, the p-th root of the number of elements is 1, however many there are.
    return number if number <= 2.0**60 else math.inf


def check_eps(value: Any) -> float:
    """The constant that is added to the norm: a finite number that is zero or more."""
    number = _number("eps", value, "a finite number that is zero or more")
    if not (value >= 0 and number < math.inf):
        message = f"`eps` must be finite and zero or more, got {_shown(value)}; leave it out for the plain formula"
        raise ValueError(message)
    return number


def check_switch(name: str, value: Any) -> bool:
    """A switch: True or False and nothing that merely counts as such."""
    if not isinstance(value, bool):
        message = f"`{name}` must be True or False, got {value!r}"
        raise TypeError(message)
    return value


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:
        # Python writes out no integer of thousands of digits, of which a fraction may be made.
        return f"a {type(value).__name__} of more digits than Python writes out"


def _number(name: str, value: Any, wanted: str) -> float:
    # A bool is a number to Python; as a threshold it is a mistake, usually one argument too far to the left.
    # A duration is one to NumPy.
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, numbers.Real):
        message = (
            f"`{name}` must be {wanted}, got {value!r} of type {type(value).__name__}; convert it with float(), "
            f"outside of what is traced"
        )
        raise TypeError(message)
    try:
        # Zero without a sign, which would be that of every element.
        number = float(value) + 0.0
    except OverflowError:
        number = -math.inf if value < 0 else math.inf
    # Python raises for a number that no float holds, NumPy returns infinity.
    if abs(number) == math.inf and number != value:
        # Python writes out no integer of thousands of digits.
        beyond = "below -1.8e+308; give a greater one" if value < 0 else "above 1.8e+308; use float('inf')"
        message = f"`{name}` must be {wanted} that a float holds, got one {beyond}"
        raise ValueError(message)
    return number
