"""What a case is: one call, and what its rule expects of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradclip_adapters.contract import Call, Gradient

__all__ = [
    "Case",
    "CompiledAgrees",
    "Expectation",
    "InputsKept",
    "InputsWritten",
    "Metamorphic",
    "NotSilent",
    "RaisesOnNonfinite",
    "Recorded",
    "Refused",
    "Repeatable",
    "ReturnedNorm",
    "Structure",
    "Untouched",
    "Values",
]


@dataclass(frozen=True)
class Values:
    """The elements are what the formula gives, to within the error bound of the arithmetic.

    `wide`: the bound does not grow with the number of elements, because the rule forbids an accumulation so poor that
    it would. `leaves_range`: a step of the formula is beyond the dtype's range, so that what IEEE arithmetic makes of
    that, zeros, infinities or NaN everywhere, is of poor quality and no failure.
    """

    wide: bool = False
    leaves_range: bool = False


@dataclass(frozen=True)
class ReturnedNorm:
    """The norm that is returned is that of the included gradients before the clip."""

    wide: bool = False


@dataclass(frozen=True)
class Untouched:
    """The gradients at these indices come back bit for bit."""

    indices: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """One thing about the form of the results is kept: "count", "none", "dtype" or "shape"."""

    aspect: str


@dataclass(frozen=True)
class NotSilent:
    """A NaN or an infinity is not passed over: the formula's result, NaN everywhere, or an error.

    Where a subject has an option that asks for the error, it does not raise without it.
    """


@dataclass(frozen=True)
class Refused:
    """The arguments are refused with an error."""


@dataclass(frozen=True)
class RaisesOnNonfinite:
    """An error is raised; `atomic`: and nothing has been changed when it is."""

    atomic: bool = False


@dataclass(frozen=True)
class InputsKept:
    """The gradients that were passed hold afterwards what they held before."""


@dataclass(frozen=True)
class InputsWritten:
    """The gradients that were passed hold the results afterwards."""


@dataclass(frozen=True)
class Repeatable:
    """The same call, repeated on fresh copies, gives the same bits.

    `threads`: from so many threads at once, if any. `reused`: on tensors that other calls were made on before.
    """

    threads: int = 0
    reused: bool = False


@dataclass(frozen=True)
class CompiledAgrees:
    """The same call inside the framework's compiler gives what it gives by itself (see `check_compiled`)."""


@dataclass(frozen=True)
class Metamorphic:
    """The results of one or two calls are related in a way that no oracle is needed for (see `relations`)."""

    relation: str
    #: For scaling: the power of two.
    exponent: int = 0


@dataclass(frozen=True)
class Recorded:
    """Nobody defines it: what happens is recorded, and not judged."""


Expectation = (
    Values
    | ReturnedNorm
    | Untouched
    | Structure
    | NotSilent
    | Refused
    | RaisesOnNonfinite
    | InputsKept
    | InputsWritten
    | Repeatable
    | CompiledAgrees
    | Metamorphic
    | Recorded
)


@dataclass(frozen=True)
class Case:
    """One call under one rule."""

    rule: str
    variant: str
    dtype: str
    operation: str
    gradients: tuple[Gradient, ...]
    options: Mapping[str, Any]
    expectation: Expectation
    #: The features a subject must have for the call to make sense.
    needs: frozenset[str] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        """The stable name: rule, variant, dtype."""
        return f"{self.rule}/{self.variant}/{self.dtype}"

    @property
    def theme(self) -> str:
        """The rule's name without its operation."""
        return self.rule.partition(".")[2]

    @property
    def included(self) -> tuple[int, ...]:
        """The indices of the gradients that exist and are not excluded."""
        return tuple(
            i for i, gradient in enumerate(self.gradients) if gradient.array is not None and gradient.need_clip
        )

    @property
    def norm_type(self) -> float:
        """The order of the norm; 2 unless the case says otherwise."""
        return float(self.options.get("norm_type", 2.0))

    def call(self, subject: str) -> Call:
        """The call of this case to a subject."""
        return Call(subject, self.gradients, self.options)
