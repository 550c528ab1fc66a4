"""Make cases from rows. The id of a case names the levels, and the gradients are made when they are needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from gradclip_adapters.arrays import FEATURE_OF_LAYOUT
from gradclip_adapters.contract import EntryPoint, Gradient
from gradclip_adapters.operations import OPERATIONS, PREFIXES

from ..cases.model import Case, Expect, expect
from .arrays import RowCall, choose_layout, make_call
from .axes import CROWDED, NEAR, Axis, list_axes
from .constraints import list_clashes
from .draw import ROWS, draw_levels
from .thresholds import parse_norm_order

#: An entry point that compiles takes long for each new shape, so it gets this part of the rows.
COMPILED = 10

#: The rule for rows of ordinary numbers.
RULE = "combinations"
#: The rule for rows with NaN or infinities, or at the ends of the range.
RULE_OF_EXTREMES = "combinations-extreme"

#: The expectations, by whether the norm is exact. All rows share them, because a run may have a hundred thousand rows.
EXPECTATIONS = {exact: expect("combination", exact=exact) for exact in (False, True)}

#: The axes that every id names.
ALWAYS = ("size", "number")


class RowCase(Case):
    """The case of one row.

    It holds one word for each axis. Everything else is made when it is needed, because a run may have a hundred
    thousand rows.
    """

    def __init__(self, operation: str, levels: Mapping[str, str]) -> None:
        words = tuple(levels[axis.name] for axis in list_axes(operation))
        vars(self).update(prefix=operation, words=words)

    #: The operation as the ids of rules name it.
    prefix: str
    #: The levels, in the order of the axes.
    words: tuple[str, ...]

    @property
    def levels(self) -> dict[str, str]:
        """The words of the levels, by the names of their axes."""
        return {axis.name: word for axis, word in zip(list_axes(self.prefix), self.words, strict=True)}

    @property
    def operation(self) -> str:
        """The function that is called."""
        return PREFIXES[self.prefix].function

    @property
    def rule(self) -> str:
        """The id of the rule."""
        levels = self.levels
        extreme = (
            levels["magnitude"] != "ordinary"
            or levels["data"] == "subnormals"
            or levels["data"].startswith(("nan", "infinity"))
        )
        return f"{self.prefix}.{RULE_OF_EXTREMES if extreme else RULE}"

    @property
    def variant(self) -> str:
        """The levels that are not ordinary ones."""
        return "_".join(
            word
            for axis, word in zip(list_axes(self.prefix), self.words, strict=True)
            if axis.name != "dtype" and (axis.name in ALWAYS or word != axis.levels[0].word)
        )

    @property
    def dtype(self) -> str:
        """The dtypes of the gradients."""
        return self.levels["dtype"]

    @property
    def expectation(self) -> Expect:
        """What the rule expects."""
        return EXPECTATIONS[PREFIXES[self.prefix].is_by_norm and self.levels["relation"] in NEAR]

    @property
    def needs(self) -> frozenset[str]:
        """The features that an entry point must have."""
        return frozenset(_list_needs(self.levels))

    @property
    def takes_long(self) -> bool:
        """Whether the row has a long list, or several threads. One row in six takes 60 % of the time of all rows."""
        levels = self.levels
        return levels["number"] in CROWDED or levels["repeated"] == "threaded"

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """The gradients of the call."""
        return self._make().gradients

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the call."""
        return self._make().options

    def make(self) -> Case:
        """Return a case that holds the gradients."""
        made = self._make()
        fields = (self.rule, self.variant, self.dtype, self.operation, made.gradients, made.options, self.expectation)
        return Case(*fields, self.needs)

    def _make(self) -> RowCall:
        return _make(self.prefix, self.words)


@lru_cache(maxsize=2)
def _make(operation: str, words: tuple[str, ...]) -> RowCall:
    return make_call(operation, {axis.name: word for axis, word in zip(list_axes(operation), words, strict=True)})


def _list_needs(levels: Mapping[str, str]) -> Iterator[str]:
    """Yield the features that a call of these levels needs."""
    layout = choose_layout(levels["layout"])
    if layout in FEATURE_OF_LAYOUT:
        yield FEATURE_OF_LAYOUT[layout]
    for axis, ordinary, feature in (
        ("excluded", "all-in", "excludes"),
        ("none", "all-there", "none_grads"),
        ("norm", "no-norm", "norm_type"),
        ("bounds", "max-only", "min_max"),
        ("flag", "no-flag", "error_if_nonfinite"),
        ("flags", "bool", "flag_kinds"),
        ("layers", "no-layers", "layers"),
    ):
        if levels.get(axis, ordinary) != ordinary:
            yield feature
    # The other tensors of such a row have several memory layouts.
    if levels["company"] in ("various", "mirrored"):
        yield "strided"
    if levels["company"] == "mirrored":
        yield "reversed"
    if levels["threshold"].startswith("scalar-"):
        yield "threshold_kinds"
    if levels["repeated"] != "once":
        yield {"reused": "reuses", "followed": "follows", "threaded": "threads"}[levels["repeated"]]
    if "+" in levels["dtype"]:
        yield "mixed_dtypes"


@cache
def list_all_rows() -> tuple[RowCase, ...]:
    """Return the rows that an entry point with all abilities gets, for each operation."""
    rows = (RowCase(operation, draw_levels(operation, number)) for operation in PREFIXES for number in range(ROWS))
    return tuple({row.id: row for row in rows}.values())


@lru_cache(maxsize=64)
def _draw_once(operation: str, number: int, seed: int) -> Mapping[str, str]:
    """Return the levels of a row. The entry points of an operation, which are planned side by side, share them."""
    return draw_levels(operation, number, seed)


def list_cases(entry_point: EntryPoint, rows: int = ROWS, seed: int = 0) -> Iterator[tuple[int, RowCase]]:
    """Yield the cases of an entry point's operation, each with the number of its row.

    If a row has a level that the entry point lacks, the ordinary level replaces it, so that the other levels of the row
    are still tested together. Rows that become equal are tested once. An entry point of several processes gets none.
    """
    if "distributed" in entry_point.features:
        return
    operation = OPERATIONS[entry_point.operation].prefix
    axes = list_axes(operation)
    reach = _find_reach(entry_point, axes)
    seen: set[tuple[str, ...]] = set()
    for number in range(rows // COMPILED if "compiled" in entry_point.features else rows):
        levels = _select_within_reach(entry_point, axes, _draw_once(operation, number, seed), reach)
        if levels is None:
            continue
        case = RowCase(operation, levels)
        if case.words not in seen:
            seen.add(case.words)
            yield number, case


def _find_reach(entry_point: EntryPoint, axes: Sequence[Axis]) -> dict[str, set[str]]:
    """Return, for each axis, the levels that an entry point can be asked for."""
    ordinary = _list_ordinary(axes)
    return {
        axis.name: {word for word in axis.list_words() if _can_ask(entry_point, {**ordinary, axis.name: word})}
        for axis in axes
    }


def _select_within_reach(
    entry_point: EntryPoint, axes: Sequence[Axis], row: Mapping[str, str], reach: Mapping[str, Collection[str]]
) -> Mapping[str, str] | None:
    """Return a row's levels: ordinary ones replace those that an entry point lacks. Return None if it has no dtype."""
    is_whole = set(row["dtype"].split("+")) <= set(entry_point.dtypes) and "requires_min" not in entry_point.features
    if is_whole and all(row[axis.name] in reach[axis.name] for axis in axes):
        return row
    levels = {axis.name: row[axis.name] if row[axis.name] in reach[axis.name] else axis.levels[0].word for axis in axes}
    if not set(levels["dtype"].split("+")) <= set(entry_point.dtypes):
        dtypes = entry_point.dtypes
        levels["dtype"] = next((one for one in ("float32", "float64", *dtypes) if one in dtypes), "")
    if levels["dtype"] != row["dtype"]:
        # Some levels of the row may be impossible with this dtype.
        clashes = list_clashes(OPERATIONS[entry_point.operation].prefix).get(levels["dtype"], {})
        levels |= {axis.name: axis.levels[0].word for axis in axes if levels[axis.name] in clashes}
    if "requires_min" in entry_point.features:
        levels["bounds"] = "min-max"
    return levels if levels["dtype"] else None


def _list_ordinary(axes: Sequence[Axis]) -> dict[str, str]:
    return {axis.name: axis.levels[0].word for axis in axes}


def _can_ask(entry_point: EntryPoint, levels: Mapping[str, str]) -> bool:
    reached = set(_list_needs(levels)) <= set(entry_point.features)
    if "norm" in levels and levels["norm"] != "no-norm":
        reached = reached and parse_norm_order(levels["norm"]) in entry_point.norm_types
    dtypes = levels["dtype"].split("+")
    return reached and (dtypes == ["float32"] or set(dtypes) <= set(entry_point.dtypes))


def find_row(name: str) -> RowCase | None:
    """Return the case with an id, or None if no row has this id."""
    rule, _, rest = name.partition("/")
    operation, _, kind = rule.partition(".")
    variant, _, dtype = rest.partition("/")
    if kind not in (RULE, RULE_OF_EXTREMES) or operation not in PREFIXES:
        return None
    levels = _list_ordinary(list_axes(operation))
    known = {word: axis.name for axis in list_axes(operation) for word in axis.list_words()}
    for word in (*variant.split("_"), dtype):
        if word not in known:
            return None
        levels[known[word]] = word
    case = RowCase(operation, levels)
    return case if case.id == name else None
