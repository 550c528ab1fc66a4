"""Read and write the cases in `regressions.toml`: finds of `--deep` that somebody kept.

An entry gives the rule, a variant, the dtype, the options and the gradients. Its numbers are hexadecimal. The
expectation follows from the rule.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradclip_adapters.contract import Gradient

from ..oracle.formats import float64_values
from .build import case, tensor
from .model import Case, Expect, expect

__all__ = ["FOUND", "as_toml", "case_of", "cases", "expectation_of", "from_record", "is_find"]

FOUND = Path(__file__).with_name("regressions.toml")

#: The expectations of rules, by their names without the operation; all other rules expect the formula's values.
_EXPECTATIONS: Mapping[str, Expect] = {
    "returned-norm": expect("returned-norm"),
    "twice-is-once": expect("metamorphic", relation="twice"),
    "tensor-order": expect("metamorphic", relation="reordered"),
    "splitting-and-joining": expect("metamorphic", relation="split"),
    "direction-kept": expect("metamorphic", relation="direction"),
    "norm-bounded": expect("metamorphic", relation="bounded"),
}


def expectation_of(rule: str, gradients: Sequence[Gradient]) -> Expect:
    """Return the expectation of a find under a rule."""
    name = rule.partition(".")[2]
    if name == "excluded-untouched":
        return expect("untouched", indices=tuple(i for i, gradient in enumerate(gradients) if not gradient.need_clip))
    return _EXPECTATIONS.get(name, expect("values"))


def case_of(rule: str, variant: str, dtype: str, gradients: Sequence[Gradient], options: dict[str, Any]) -> Case:
    """Return the case of an input under a rule."""
    needs = ["returns_norm"] if rule.endswith(".returned-norm") else []
    return case(rule, variant, dtype, gradients, options, expectation_of(rule, gradients), needs)


def cases(path: Path = FOUND) -> Iterator[Case]:
    """Yield all cases that were kept."""
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("found", []):
        gradients = [
            tensor(
                [float.fromhex(each) for each in one["values"]], entry["dtype"], need_clip=one.get("need_clip", True)
            )
            for one in entry["gradients"]
        ]
        options = {name: float.fromhex(value) for name, value in entry["options"].items()}
        yield case_of(entry["rule"], entry["variant"], entry["dtype"], gradients, options)


def is_find(name: str) -> bool:
    """Return whether `--deep` gives such names to its cases."""
    return name.count("/") == 2 and name.split("/")[1].startswith("deep-")


def from_record(name: str, shown: Mapping[str, Any]) -> Case:
    """Return the case of a find, from its name and the input that a record shows."""
    rule, variant, dtype = name.split("/")
    gradients = [
        tensor([float.fromhex(each) for each in one["array"]["values"]], dtype, need_clip=one.get("need_clip", True))
        for one in shown["gradients"]
    ]
    options = {key: float.fromhex(value) for key, value in shown["options"].items()}
    return case_of(rule, variant, dtype, gradients, options)


def as_toml(found: Case) -> str:
    """Return a find as an entry of `regressions.toml`."""
    lines = ["[[found]]", *(f"{key} = {json.dumps(getattr(found, key))}" for key in ("rule", "variant", "dtype"))]
    options = ", ".join(f'{name} = "{float(value).hex()}"' for name, value in found.options.items())
    lines += [f"options = {{ {options} }}", "gradients = ["]
    for gradient in found.gradients:
        assert gradient.array is not None
        values = json.dumps([value.hex() for value in float64_values(gradient.array).tolist()])
        lines.append(f"  {{ values = {values}{'' if gradient.need_clip else ', need_clip = false'} }},")
    return "\n".join([*lines, "]"]) + "\n"
