"""Read and write the cases in `regressions.toml`: failing inputs that `--deep` found and that somebody kept.

An entry gives the rule, a variant, the dtype, the options and the gradients. Its numbers are hexadecimal. The
expectation follows from the rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gradclip_adapters.contract import DTYPES, Gradient
from gradclip_spec import rules

from ..oracle.formats import read_float64_values
from .build import make_case, make_tensor
from .model import Case, Expect, expect
from .patterns import suggest_known
from .toml_files import add_place_to_errors, read_toml

__all__ = ["FOUND", "choose_expectation", "is_find", "make_case_of", "make_cases", "make_find", "write_toml"]

FOUND = Path(__file__).with_name("regressions.toml")

T = TypeVar("T")

#: The expectation of each rule, under the rule's name without its operation. All other rules expect the formula's
#: values.
_EXPECTATIONS: Mapping[str, Expect] = {
    "returned-norm": expect("returned-norm"),
    "twice-is-once": expect("metamorphic", relation="twice"),
    "tensor-order": expect("metamorphic", relation="reordered"),
    "splitting-and-joining": expect("metamorphic", relation="split"),
    "direction-kept": expect("metamorphic", relation="direction"),
    "norm-bounded": expect("metamorphic", relation="bounded"),
}


def choose_expectation(rule: str, gradients: Sequence[Gradient]) -> Expect:
    """Return the expectation of a found input under a rule."""
    name = rule.partition(".")[2]
    if name == "excluded-untouched":
        return expect("untouched", indices=tuple(i for i, gradient in enumerate(gradients) if not gradient.need_clip))
    return _EXPECTATIONS.get(name, expect("values"))


def make_case_of(rule: str, variant: str, dtype: str, gradients: Sequence[Gradient], options: dict[str, Any]) -> Case:
    """Return the case of an input under a rule."""
    needs = ["returns_norm"] if rule.endswith(".returned-norm") else []
    return make_case(rule, variant, dtype, gradients, options, choose_expectation(rule, gradients), needs)


def make_cases(path: Path = FOUND) -> Iterator[Case]:
    """Yield all cases that were kept.

    Raises
    ------
    ValueError
        If an entry is not well-formed; the text names the file and the entry.
    """
    # Do not use JSON Schema here: `check_clipper` reads this file, and must work where only NumPy is installed.
    document = read_toml(path)
    with add_place_to_errors(path.name):
        _refuse_other_keys(document, ("found",))
        entries = _check_type(list, document.get("found", []), "found")
    for number, entry in enumerate(entries, start=1):
        with add_place_to_errors(f"{path.name}, [[found]] {number}"):
            found = _read_case(entry)
        yield found


def _read_case(entry: Mapping[str, Any]) -> Case:
    """Return the case of an entry."""
    _refuse_other_keys(entry, ("rule", "variant", "dtype", "options", "gradients"))
    rule, variant, dtype = (_check_type(str, entry[key], key) for key in ("rule", "variant", "dtype"))
    if rule not in {each.id for each in rules.load()}:
        msg = f"there is no rule {rule!r}"
        raise ValueError(msg)
    if dtype not in DTYPES:
        msg = f"there is no dtype {dtype!r}; choose among {', '.join(DTYPES)}"
        raise ValueError(msg)
    if re.fullmatch(r"[a-z0-9-]{1,80}", variant) is None:
        msg = f"the variant {variant!r} must consist of 1 to 80 characters of a-z, 0-9 and -"
        raise ValueError(msg)
    gradients = [_read_gradient(one, dtype) for one in _check_type(list, entry["gradients"], "gradients")]
    options = {name: float.fromhex(value) for name, value in _check_type(dict, entry["options"], "options").items()}
    return make_case_of(rule, variant, dtype, gradients, options)


def _read_gradient(one: Mapping[str, Any], dtype: str) -> Gradient:
    """Return a gradient of an entry."""
    _refuse_other_keys(one, ("values", "need_clip"))
    values = [float.fromhex(each) for each in _check_type(list, one["values"], "values")]
    return make_tensor(values, dtype, need_clip=_check_type(bool, one.get("need_clip", True), "need_clip"))


def _refuse_other_keys(table: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in _check_type(dict, table, "an entry"):
        if name not in known:
            msg = f"the key {name!r} is unknown.{suggest_known(name, known)}"
            raise ValueError(msg)


def _check_type(kind: type[T], value: Any, name: str) -> T:
    """Return a value that must be of a type."""
    if not isinstance(value, kind):
        msg = f"{name} must be of the type {kind.__name__}, got {value!r}"
        raise TypeError(msg)
    return value


def is_find(name: str) -> bool:
    """Return whether a name is one that `--deep` gives to its cases."""
    return name.count("/") == 2 and name.split("/")[1].startswith("deep-")


def make_find(name: str, shown: Mapping[str, Any]) -> Case:
    """Return the case of a found input, from its name and the input that a record shows."""
    rule, variant, dtype = name.split("/")
    gradients = [
        make_tensor(
            [float.fromhex(each) for each in one["array"]["values"]], dtype, need_clip=one.get("need_clip", True)
        )
        for one in shown["gradients"]
    ]
    options = {key: float.fromhex(value) for key, value in shown["options"].items()}
    return make_case_of(rule, variant, dtype, gradients, options)


def write_toml(found: Case) -> str:
    """Return a found case as an entry of `regressions.toml`."""
    lines = ["[[found]]", *(f"{key} = {json.dumps(getattr(found, key))}" for key in ("rule", "variant", "dtype"))]
    options = ", ".join(f'{name} = "{float(value).hex()}"' for name, value in found.options.items())
    lines += [f"options = {{ {options} }}", "gradients = ["]
    for gradient in found.gradients:
        assert gradient.array is not None
        values = json.dumps([value.hex() for value in read_float64_values(gradient.array).tolist()])
        lines.append(f"  {{ values = {values}{'' if gradient.need_clip else ', need_clip = false'} }},")
    return "\n".join([*lines, "]"]) + "\n"
