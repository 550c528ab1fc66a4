"""Search for inputs that a subject fails, for `--deep`, and shrink them.

For each subject, rule and dtype, hypothesis draws gradients, exclusions and thresholds from a seed. Many thresholds lie
near the norm. When an input fails, hypothesis shrinks the input. The shrunk input becomes a case of its rule,
`<rule>/deep-<hash>/<dtype>`, and the following run treats it like any other case. If nothing fails, the input with the
largest distance becomes the case, so that the record shows that distance.

If the norm is below the threshold, the numbers reach the ends of the range, so that their squares leave the range. If
the norm is above, all squares stay in the range, because other rules and cases cover the ends.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any

from gradclip_adapters.contract import Array, Gradient, Subject
from gradclip_reports.progress import show_task
from gradclip_reports.records import Cell
from gradclip_reports.statuses import STATUSES, Status

from ..cases.build import AVERAGES, EVERY_OPERATION
from ..cases.model import Case
from ..cases.readable import show_input
from ..cases.regressions import make_case_of
from ..oracle.arrays import decode
from ..oracle.formats import FORMATS, Format, decode_doubles, next_down, next_up, round_to
from ..oracle.integers import compute_norm
from ..oracle.question import count_divisor
from .plan import PlannedCell, Selection, plan_cells

__all__ = ["EXAMPLES", "Searched", "draw_inputs", "search"]

#: The number of inputs that are tried for each subject, rule and dtype.
EXAMPLES = 100

#: The rules that are searched. `cases.regressions` gives the expectation under each rule.
RULES = {
    "clip_by_value": ("value.bounds", "value.excluded-untouched"),
    "clip_by_norm": (
        "norm.scaled-above",
        "norm.identity-below",
        "norm.excluded-untouched",
        "norm.twice-is-once",
        "norm.direction-kept",
        "norm.norm-bounded",
    ),
    "clip_by_global_norm": (
        "global-norm.scaled-above",
        "global-norm.identity-below",
        "global-norm.excluded-not-counted",
        "global-norm.returned-norm",
        "global-norm.twice-is-once",
        "global-norm.splitting-and-joining",
        "global-norm.direction-kept",
        "global-norm.norm-bounded",
    ),
    **{
        operation: tuple(f"{name}.{rule}" for rule in ("scaled-above", "identity-below", "excluded-untouched"))
        for name, operation in AVERAGES.items()
    },
    # The search draws no examples and no parameters.
    "clip_per_example": (),
    "clip_unitwise": (),
}

#: Elements are small integers, or have all digits of the dtype and lie between 2**-5 and 2**4. All elements of an input
#: are scaled by one power of two, whose exponent is at most the number in `SCALES`.
SPREAD = 4
SCALES = {"float16": 0, "bfloat16": 20, "float32": 20, "float64": 200}
#: The exponents for norms below the threshold: squares leave the range, but the norm does not.
SCALES_BELOW = {"float16": 6, "bfloat16": 110, "float32": 110, "float64": 1000}
#: The rules whose thresholds are above the norm.
BELOW = tuple(f"{name}.identity-below" for name in EVERY_OPERATION if name != "value")


@dataclass
class Searched:
    """The results of a search."""

    #: The cases for the run: the smallest failing input, or the worst input that passes.
    cases: list[Case] = field(default_factory=list)
    #: The cases that failed.
    failing: list[Case] = field(default_factory=list)
    tried: int = 0


def search(
    subjects: Iterable[Subject],
    selection: Selection,
    seed: int,
    ask: Callable[[PlannedCell], Cell],
    examples: int = EXAMPLES,
    title: str = "search",
) -> Searched:
    """Search all subjects of an adapter, for each selected rule and dtype.

    Parameters
    ----------
    subjects, selection
        The subjects, and what to search.
    seed
        The seed of all inputs.
    ask
        A function that runs and judges one cell.
    examples
        The number of inputs for each subject, rule and dtype.
    title
        The beginning of the progress, which a terminal shows.

    Raises
    ------
    ModuleNotFoundError
        If hypothesis is not installed.
    """
    searched = Searched()
    worst: dict[tuple[str, str], tuple[float, Case]] = {}
    places = [
        (subject, rule, dtype)
        for subject in subjects
        for rule in RULES[subject.operation]
        for dtype in subject.dtypes
        if selection.holds(make_case_of(rule, "deep-search", dtype, [Gradient("", None)], {}))
    ]
    tried = itertools.count(1)
    with show_task(f"{title}: searching, {examples} inputs for each subject, rule and dtype", len(places)) as task:
        for subject, rule, dtype in places:
            place = f"{rule.partition('.')[2]} {dtype}"

            def judge_case(case: Case, subject: Subject = subject, place: str = place) -> tuple[str, float]:
                (planned,) = plan_cells([subject], [case], Selection())
                task.note(f"{next(tried)} tried, {len(searched.failing)} failing: {place}")
                cell = ask(planned)
                return cell.status, -1.0 if cell.ulp is None else cell.ulp

            found = _search_one(rule, dtype, judge_case, Random(f"{seed} {subject.name} {rule} {dtype}"), examples)
            task.advance()
            searched.tried += found.tried
            if found.failing is not None:
                searched.failing.append(found.failing)
            elif found.worst is not None and found.worst[0] > worst.get((rule, dtype), (-2.0, None))[0]:
                worst[rule, dtype] = found.worst
    chosen = (*searched.failing, *(case for _, case in worst.values()))
    searched.cases = list({case.id: case for case in chosen}.values())
    return searched


@dataclass
class _SearchResult:
    failing: Case | None = None
    worst: tuple[float, Case] | None = None
    tried: int = 0


def _search_one(
    rule: str, dtype: str, ask: Callable[[Case], tuple[str, float]], random: Random, examples: int
) -> _SearchResult:
    import hypothesis

    one = _SearchResult()

    def fails(case: Case) -> bool:
        one.tried += 1
        status, distance = ask(case)
        if status in ("pass", "quality", "documented", "declared") and (one.worst is None or distance > one.worst[0]):
            one.worst = (distance, case)
        return STATUSES[status].spoils and status != Status.CHANGED

    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        one.failing = hypothesis.find(draw_inputs(rule, dtype), fails, settings=settings, random=random)
    except hypothesis.errors.NoSuchExample:
        return one
    return one


def draw_inputs(rule: str, dtype: str) -> Any:
    """Return a hypothesis strategy for the cases of a rule."""
    from hypothesis import strategies

    form = FORMATS[dtype]
    elements = strategies.builds(
        lambda digits, exponent, sign: sign * Fraction(digits) * Fraction(2) ** (exponent - form.precision),
        strategies.integers(2 ** (form.precision - 1), 2**form.precision - 1),
        strategies.integers(-SPREAD, SPREAD),
        strategies.sampled_from((1, -1)),
    )
    small = strategies.integers(-8, 8).map(Fraction)
    tensors = strategies.lists(
        strategies.tuples(strategies.lists(elements | small, max_size=6), strategies.booleans()), min_size=1, max_size=4
    )

    def build(drawn: list[tuple[list[Fraction], bool]], scale: int, steps: int, share: Fraction | None) -> Case:
        factor = Fraction(2) ** scale
        excluding = "excluded" in rule
        gradients = [
            Gradient("", _make_array([value * factor for value in values], form), need_clip=kept or not excluding)
            for values, kept in drawn
        ]
        threshold = _make_threshold(rule, gradients, form, steps, share)
        options: dict[str, Any] = {"max" if rule.startswith("value.") else "clip_norm": threshold}
        named = make_case_of(rule, "deep", dtype, gradients, options)
        text = json.dumps([rule, show_input(named)], sort_keys=True)
        return replace(named, variant=f"deep-{hashlib.sha256(text.encode()).hexdigest()[:8]}")

    near = strategies.just(None)
    if rule in BELOW:
        above = strategies.integers(17, 64).map(lambda part: Fraction(part, 16) + Fraction(part, 6151))
        scales = strategies.integers(-SCALES_BELOW[dtype], SCALES_BELOW[dtype])
        return strategies.builds(build, tensors, scales, strategies.just(0), above)
    shares = strategies.integers(1, 64).map(lambda part: Fraction(part, 16))
    scales = strategies.integers(-SCALES[dtype], SCALES[dtype])
    return strategies.builds(build, tensors, scales, strategies.integers(-4, 4), near | shares)


def _make_array(values: Iterable[Fraction], form: Format) -> Array:
    """Return the values as an array, each rounded to the format."""
    width = form.width // 8
    data = b"".join(round_to(value, form).to_bytes(width, "little") for value in values)
    return Array(form.name, (len(data) // width,), data)


def _make_threshold(rule: str, gradients: list[Gradient], form: Format, steps: int, share: Fraction | None) -> float:
    """Return a threshold some steps from the norm, or a share of the norm. Return 1 if all elements are zeros.

    The norm is taken over all included gradients, or over the first one if each gradient has its own norm. A clip by
    value takes the largest magnitude instead.
    """
    arrays = [gradient.array for gradient in gradients if gradient.need_clip and gradient.array is not None]
    name = rule.partition(".")[0]
    is_of_each = name not in ("value", "global-norm")
    counted = arrays[:1] if is_of_each and rule not in BELOW else arrays
    order = math.inf if rule.startswith("value.") else 2.0
    tensors = [decode(array.data, array.dtype) for array in counted]
    # No average is above the Euclidean norm of all.
    divisor = count_divisor(EVERY_OPERATION[name], len(tensors[0])) if len(tensors) == 1 else 1
    size = compute_norm(tensors, order, divisor=divisor).middle
    wanted = (size if share is None else size * share) or Fraction(1)
    bits = round_to(wanted, form).to_bytes(form.width // 8, "little")
    threshold = float(decode_doubles(bits, form.name)[0])
    for _ in range(abs(steps) if share is None else 0):
        threshold = next_up(threshold, form.name) if steps > 0 else next_down(threshold, form.name)
    return threshold
