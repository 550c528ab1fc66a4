"""The lines of a script that clip, and that fail where the answer is not what the case expects.

What a script tolerates is the error bound of the judge as a tolerance that is relative to each element, the largest of
a gradient: it never blames an answer that the judge lets pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from textwrap import indent
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Subject

from ..cases.literals import NoScript, array_literal
from ..cases.model import (
    Case,
    InputsKept,
    InputsWritten,
    NotSilent,
    RaisesOnNonfinite,
    Recorded,
    Refused,
    Repeatable,
    ReturnedNorm,
    Structure,
    Untouched,
    Values,
)
from ..cases.readable import float64_values
from ..oracle.distances import rounded
from ..oracle.formats import FORMATS, float_quotient, ulp
from ..oracle.model import nonfinite_consequence, nonfinite_norm
from ..oracle.predict import decoded, narrowest, predict

__all__ = ["ScriptCall", "checked", "twice_checked"]

MAY_RAISE = """try:
{clip}
except Exception:
    raise SystemExit(0)  # an error is right, too"""
REFUSED = """try:
{clip}
except Exception:
{unchanged}
else:
{results}
    raise AssertionError(f"expected: an error; observed: {{results}}")"""
TWICE = """def call():
{lines}
    return results


for first, second in zip(call(), call()):
    np.testing.assert_array_equal(second, first)"""
#: Every other thread makes another call. What threads wrongly share shows by chance, so that there are many calls.
IN_THREADS = """def call(factor):
{lines}
    return results


alone = {{factor: call(factor) for factor in (1.0, 0.5)}}


def again(factor):
    for first, second in zip(alone[factor], call(factor)):
        np.testing.assert_array_equal(second, first)


sys.setswitchinterval(1e-6)
with ThreadPoolExecutor({threads}) as pool:
    list(pool.map(again, [1.0, 0.5] * 2000))"""


@dataclass(frozen=True)
class ScriptCall:
    """The lines of a call, from its gradients to the results."""

    gradients: str
    before: str
    clip: str
    after: str
    #: What makes of the results, and of the gradients that were passed, the list `results` that NumPy understands.
    results: str
    inputs: str

    def lines(self, clip: str | None = None) -> str:
        """All of them; `clip` in the place of the ones that clip."""
        return _joined(self.gradients, self.before, self.clip if clip is None else clip, self.after, self.results)


@dataclass(frozen=True)
class Wanted:
    """What is expected of one gradient; no values: that there is none."""

    values: np.ndarray[Any, Any] | None
    #: How far an element may be from its value: in ulp of a dtype, and relative to it at most.
    ulps: float = 0.0
    dtype: str = ""
    tolerance: float = 0.0
    #: The gradient and the factor of which the values are the rounded product.
    product: tuple[np.ndarray[Any, Any], float] | None = None


def checked(call: ScriptCall, case: Case, subject: Subject, *, raised: bool) -> str:
    """The lines that clip and check; `raised`: the framework had raised.

    Raises
    ------
    NoScript
        When the expectation is none that a script can check.
    """
    match case.expectation:
        case Refused() | RaisesOnNonfinite():
            return _refused(call, case, raised)
        case Repeatable(threads) if not raised:
            return _repeated(call, threads)
        case Recorded():
            msg = f"Nobody defines what is right in {case.id}: there is nothing that a script could fail by."
            raise NoScript(msg)
        case NotSilent() if "error_if_nonfinite" not in subject.features:
            clip = MAY_RAISE.format(clip=indent(call.clip, "    "))
            return _joined(call.lines(clip), _one_of(_acceptable(case)))
    # An error ends the script by itself, and shows where it comes from.
    clip = _joined('print("expected: no error")', call.clip) if raised else call.clip
    if isinstance(case.expectation, NotSilent):
        return _joined(call.lines(clip), _one_of(_acceptable(case)))
    return _joined(call.lines(clip), _check(call, case, subject))


def twice_checked(
    alone: ScriptCall, compiled: ScriptCall, case: Case, subject: Subject, between: str, *, raised: bool
) -> str:
    """The lines that clip by themselves and compiled, and compare; `raised`: the framework had raised."""
    tolerance = 2 * max(
        errors.clip_bound * 2.0 ** (1 - FORMATS[array.dtype].precision)
        for errors, gradient in zip(predict(case).errors, case.gradients, strict=True)
        if (array := gradient.array) is not None
    )
    compare = f"np.testing.assert_allclose(result, value, rtol={_short(tolerance)})"
    if not tolerance:
        compare = "np.testing.assert_array_equal(result, value)"
    clip = _joined('print("expected: no error")', compiled.clip) if raised else compiled.clip
    check = f"for result, value in zip(results, by_itself):\n    {compare}"
    if any(gradient.array is None for gradient in case.gradients):
        exist = 'assert (result is None) == (value is None), f"expected: {value}; observed: {result}"'
        check = check.replace(compare, f"{exist}\n    if value is not None:\n        {compare}")
    if "functional" in subject.features and compiled.gradients == alone.gradients:
        compiled = replace(compiled, gradients="")
    return _joined(alone.lines(), "by_itself = results", between, compiled.lines(clip), check)


def _check(call: ScriptCall, case: Case, subject: Subject) -> str:
    match case.expectation:
        case ReturnedNorm():
            return _assert_norm(case)
        case Structure(aspect):
            return _assert_form(case, aspect, subject)
        case InputsKept():
            return _joined(call.inputs, _asserts(_inputs(case, range(len(case.gradients)))))
        case Untouched(indices):
            return _asserts(_inputs(case, indices))
        case Values(leaves_range=True):
            return _one_of([_predicted(case, subject), *_out_of_range(case)])
        case Values() | InputsWritten():
            return _asserts(_predicted(case, subject))
        case Repeatable():
            return ""
    msg = f"A script cannot show what {case.id} expects: {type(case.expectation).__name__}."
    raise NoScript(msg)


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _refused(call: ScriptCall, case: Case, raised: bool) -> str:
    unchanged = "pass"
    if raised and case.expectation != RaisesOnNonfinite(atomic=False):
        unchanged = _joined(call.inputs, _asserts(_inputs(case, range(len(case.gradients)))))
    parts = {"clip": call.clip, "unchanged": unchanged, "results": _joined(call.after, call.results)}
    refused = REFUSED.format(**{name: indent(lines, "    ") for name, lines in parts.items()})
    return _joined(call.gradients, call.before, refused.replace("\n\n", "\n"))


def _repeated(call: ScriptCall, threads: int) -> str:
    if not threads:
        return TWICE.format(lines=indent(call.lines(), "    "))
    halved = _joined(call.gradients, "gradients = [factor * gradient for gradient in gradients]")
    lines = replace(call, gradients=halved).lines()
    return IN_THREADS.format(lines=indent(lines, "    "), threads=threads)


def _asserts(wanted: Mapping[int, Wanted]) -> str:
    """The lines for each gradient, or once for all where they are alike."""
    if len({_assert("result", one) for one in wanted.values()}) == 1 and len(wanted) > 1:
        chosen = "results" if list(wanted) == list(range(len(wanted))) else f"[results[i] for i in {tuple(wanted)}]"
        return f"for result in {chosen}:\n" + indent(_assert("result", next(iter(wanted.values()))), "    ")
    return "\n".join(_assert(f"results[{i}]", one) for i, one in wanted.items())


def _assert(result: str, wanted: Wanted) -> str:
    if wanted.values is None:
        return f'assert {result} is None, f"expected: no gradient; observed: {{{result}}}"'
    values = _source(wanted)
    if wanted.ulps:
        return _assert_close(result, wanted)
    line = f"np.testing.assert_array_equal({result}, {values})"
    if wanted.values.ndim:
        return line
    # NumPy's functions let an array with one element pass for a number.
    return f'{line}\nassert np.shape({result}) == (), f"expected: {values}; observed: {{{result}}}"'


def _assert_close(result: str, wanted: Wanted) -> str:
    # NumPy has no bfloat16, whose numbers lie as much farther apart than those of float32 as they have fewer bits.
    known = "float32" if wanted.dtype == "bfloat16" else wanted.dtype
    spacing = 2 ** (FORMATS[known].precision - FORMATS[wanted.dtype].precision)
    limit = repr(math.floor(wanted.ulps) * spacing)
    return (
        f'expected = np.array({_source(wanted)}, "{known}")\n'
        f"assert np.shape({result}) == expected.shape and "
        f"np.all(abs(np.asarray({result}) - expected) <= {limit} * np.spacing(abs(expected))), "
        f'f"expected: {{expected}}; observed: {{{result}}}"'
    )


def _short(tolerance: float) -> str:
    """At least this, in three digits."""
    return repr(float(f"{tolerance * 1.006:.2e}"))


def _out_of_range(case: Case) -> Iterator[dict[int, Wanted]]:
    """What arithmetic makes of a step that leaves the range (see `check_values`)."""
    for what in (0.0, math.inf, math.nan):
        arrays = {i: array for i in case.included if (array := case.gradients[i].array) is not None}
        yield {i: Wanted(_shaped(array) * what) for i, array in arrays.items()}


def _source(wanted: Wanted) -> str:
    """The values as source: where they are too many to be written out, as a product, which is not rounded."""
    assert wanted.values is not None
    try:
        return array_literal(wanted.values)
    except NoScript:
        if wanted.product is None:
            raise
        gradient, factor = wanted.product
        return f"{array_literal(gradient)} * {factor!r}"


def _one_of(ways: Iterable[Mapping[int, Wanted]]) -> str:
    first, *others = ways = list(ways)
    if not others:
        return _asserts(first)
    tolerance = max(one.tolerance for way in ways for one in way.values())
    lists = [[array_literal(one.values) for one in way.values() if one.values is not None] for way in ways]
    written = ", ".join(f"[{', '.join(way)}]" for way in lists)
    close = f"np.allclose(result, value, {_short(tolerance)}, 0.0, equal_nan=True)"
    return (
        f"expected = [{written}]\n"
        f"agrees = [all({close} for result, value in zip(results, way)) for way in expected]\n"
        'assert any(agrees), f"expected: one of {expected}; observed: {results}"'
    )


def _assert_norm(case: Case) -> str:
    prediction = predict(case)
    if (bounds := prediction.norms[0]) is None:
        total = nonfinite_norm([tensor for i in case.included if (tensor := decoded(case)[i]) is not None])
        return f"np.testing.assert_equal(float(norm), {total!r})"
    ulps = max((one.norm_budget if _is_wide(case) else one.norm_bound for one in prediction.errors), default=0.0)
    expected = float(bounds.middle)
    tolerance = ulps * max(_relative_ulps(np.array([expected]), narrowest(case)), default=0.0)
    return f"np.testing.assert_allclose(float(norm), {expected!r}, rtol={_short(tolerance)})"


def _assert_form(case: Case, aspect: str, subject: Subject) -> str:
    arrays = [gradient.array for gradient in case.gradients]
    # An optimizer leaves a parameter without a gradient where it was.
    nothing = [1] if "optimizer" in subject.features else None
    if aspect == "dtype":
        expected: list[Any] = [None if array is None else array.dtype for array in arrays]
        form, agrees = "str(result.dtype)", "all(name in text for name, text in zip(expected, observed))"
    else:
        expected = [nothing if array is None else list(array.shape) for array in arrays]
        form, agrees = "list(result.shape)", "observed == expected"
    if None in expected:
        form = f"None if result is None else {form}"
    # What has another shape is no result whose dtype could be looked at.
    first = _assert_form(case, "shape", subject) + "\n" if aspect == "dtype" else ""
    return first + (
        f"expected = {expected}\nobserved = [{form} for result in results]\n"
        f'assert {agrees}, f"expected: {{expected}}; observed: {{observed}}"'
    )


def _inputs(case: Case, indices: Iterable[int]) -> dict[int, Wanted]:
    arrays = {i: case.gradients[i].array for i in indices}
    return {i: Wanted(None if array is None else _shaped(array)) for i, array in arrays.items()}


def _predicted(case: Case, subject: Subject) -> dict[int, Wanted]:
    """What the neutral rule gives for each gradient of which it gives something."""
    wanted = {}
    for i, gradient in enumerate(case.gradients):
        if gradient.array is None:
            # An optimizer leaves a parameter without a gradient where it was.
            wanted[i] = Wanted(np.zeros(1) if "optimizer" in subject.features else None)
        elif predict(case).gradients[i] is not None:
            wanted[i] = _finite(case, i)
    return wanted


def _finite(case: Case, index: int) -> Wanted:
    prediction, given = predict(case), case.gradients[index].array
    expected, errors = prediction.gradients[index], prediction.errors[index]
    assert given is not None
    assert expected is not None
    values = _shaped(Array(given.dtype, given.shape, rounded(expected, given.dtype)))
    if expected.is_unchanged and not prediction.near[index]:
        return Wanted(values)
    ulps = errors.clip_budget if _is_wide(case) else errors.clip_bound
    # Among several dtypes the norm may have been rounded to the coarsest.
    coarser = 2.0 ** (FORMATS[given.dtype].precision - FORMATS[narrowest(case)].precision)
    factor = float_quotient(Fraction(expected.numerator, expected.denominator), Fraction(1))
    tolerance = ulps * coarser * max(_relative_ulps(values, given.dtype), default=0.0)
    # A value that is not exact is itself rounded.
    exact = bool(np.isfinite(values).all()) and [*map(Fraction, values.ravel())] == [*expected.fractions()]
    return Wanted(values, ulps * coarser + (0.0 if exact else 0.5), given.dtype, tolerance, (_shaped(given), factor))


def _relative_ulps(values: np.ndarray[Any, Any], dtype: str) -> Iterator[float]:
    """One ulp of each number that is not zero, relative to it."""
    for value in np.unique(np.abs(values)).tolist():
        if value and math.isfinite(value):
            yield float(ulp(Fraction(value), FORMATS[dtype]) / Fraction(value))


def _acceptable(case: Case) -> list[dict[int, Wanted]]:
    """The answers to a norm that is not finite: of each norm the formula's result, or NaN everywhere."""
    tensors = decoded(case)
    groups = [list(case.included)] if case.operation == "clip_by_global_norm" else [[i] for i in case.included]
    ways: list[list[dict[int, Wanted]]] = []
    for group in groups:
        shapes = {i: array.shape for i in group if (array := case.gradients[i].array) is not None}
        found = {i: tensor for i in group if (tensor := tensors[i]) is not None}
        total = nonfinite_norm(found.values())
        if total is None:
            ways.append([{i: _finite(case, i) for i in group}])
            continue
        formula = {i: Wanted(np.array(nonfinite_consequence(t, total)).reshape(shapes[i])) for i, t in found.items()}
        everywhere = {i: Wanted(np.full(shape, math.nan)) for i, shape in shapes.items()}
        ways.append([everywhere] if math.isnan(total) else [formula, everywhere])
    return [{i: wanted for part in parts for i, wanted in part.items()} for parts in product(*ways)]


def _shaped(array: Array) -> np.ndarray[Any, Any]:
    return float64_values(array).reshape(array.shape)


def _is_wide(case: Case) -> bool:
    return isinstance(case.expectation, Values | ReturnedNorm) and case.expectation.wide
