"""Define the operations: what distinguishes one kind of clip from another stands in one record.

The rules, the cases, the sampler, the oracles, the judge, the contract, the schemas and the pages read these records.
Only the reference knows more: it computes the clips. Code asks a record for the property that it needs
(`OPERATIONS[case.operation].is_by_norm`) and never compares the name of an operation.

The host imports this module, so it uses only the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The members of a group of elements that share a norm, and so a coefficient.
NOTHING = "nothing: each element is clipped alone"
GRADIENT = "one gradient"
ALL = "all included gradients"
EXAMPLE = "all gradients of one example, or one of them with the option `layers`"
#: A unit is a slice along the first axis, or a whole tensor of at most one axis. Only a relative clip has parameters.
UNIT = "one unit of a gradient"


@dataclass(frozen=True)
class Operation:
    """One kind of clip."""

    #: The name in the contract and in records. It is also the name of the reference's function.
    function: str
    #: The name in the ids of rules, as in `global-norm.excluded-not-counted`.
    prefix: str
    #: The label in pages.
    label: str
    #: The description in the rule catalogue, with formulas in LaTeX.
    description: str
    #: The members of a group that shares a norm: one of the constants above.
    group: str
    #: The option that holds the threshold.
    threshold: str = "clip_norm"
    #: The other parameters that the suite may pass to a plain function.
    parameters: tuple[str, ...] = ("need_clip",)
    #: The sum of squares of a group is divided by this power of its number of elements before the root is taken.
    averaging_power: int = 0
    #: The order of the norm, unless a call names another.
    norm_type: float = 2.0
    #: Whether the threshold of a group is multiplied by the norm of its parameter.
    is_relative: bool = False
    #: Whether the function may return the norm.
    returns_norm: bool = False
    #: The page of the matrix for this operation, or an empty text if it has none.
    matrix_page: str = ""

    @property
    def is_by_norm(self) -> bool:
        """Return whether the clip compares norms, not elements, with the threshold."""
        return self.group != NOTHING

    @property
    def is_global(self) -> bool:
        """Return whether all included gradients share one norm."""
        return self.group == ALL

    @property
    def shares_norms(self) -> bool:
        """Return whether several gradients may share a norm."""
        return self.group in (ALL, EXAMPLE)

    @property
    def takes_orders(self) -> bool:
        """Return whether a call may name another order of the norm."""
        return "norm_type" in self.parameters

    @property
    def is_average(self) -> bool:
        """Return whether the norm is an average over the elements."""
        return self.averaging_power > 0

    @property
    def sums_examples(self) -> bool:
        """Return whether a gradient holds several examples, which are clipped and then summed."""
        return self.group == EXAMPLE

    @property
    def divides_gradients(self) -> bool:
        """Return whether a gradient holds several units, which are clipped one by one."""
        return self.group == UNIT

    @property
    def is_stacked(self) -> bool:
        """Return whether a gradient holds several examples or units."""
        return self.sums_examples or self.divides_gradients


_EACH = (
    Operation(
        "clip_by_value",
        "value",
        "by value",
        r"$\mathrm{Out}[i]_j = \min(\max(X[i]_j, l), h)$",
        NOTHING,
        threshold="max",
        parameters=("min", "need_clip"),
        matrix_page="by-value",
    ),
    Operation(
        "clip_by_norm",
        "norm",
        "by norm",
        r"each gradient by its own norm: $X[i]$ if $n \leq c$, else $c \cdot X[i] / n$",
        GRADIENT,
        parameters=("norm_type", "need_clip"),
        matrix_page="by-norm",
    ),
    Operation(
        "clip_by_global_norm",
        "global-norm",
        "by global norm",
        r"all gradients by one norm: $X[i]$ if $n \leq c$, else $c \cdot X[i] / n$",
        ALL,
        parameters=("norm_type", "need_clip", "error_if_nonfinite"),
        returns_norm=True,
        matrix_page="by-global-norm",
    ),
    Operation(
        "clip_by_block_rms",
        "block-rms",
        "by block RMS",
        r"each gradient by its own root mean square $n = \mathrm{norm}(X[i]) / \sqrt{m_i}$",
        GRADIENT,
        averaging_power=1,
    ),
    Operation(
        "clip_by_average_norm",
        "average-norm",
        "by average norm",
        r"each gradient by its own average norm $n = \mathrm{norm}(X[i]) / m_i$",
        GRADIENT,
        averaging_power=2,
    ),
    Operation(
        "clip_per_example",
        "per-example",
        "per example",
        r"the gradients of each example by their norm $n_e$, then the sum",
        EXAMPLE,
        parameters=("layers",),
    ),
    Operation(
        "clip_unitwise",
        "unitwise",
        "unitwise",
        r"each unit to at most $\lambda w$, where $w$ is the norm of the unit's parameter",
        UNIT,
        threshold="clip_factor",
        parameters=("parameters", "eps", "need_clip"),
        is_relative=True,
    ),
)

#: The operations by their names in the contract, in the order of the rule catalogue.
OPERATIONS: dict[str, Operation] = {operation.function: operation for operation in _EACH}
#: The operations by their names in the ids of rules.
PREFIXES: dict[str, Operation] = {operation.prefix: operation for operation in _EACH}


def find_operation(spelling: str) -> Operation | None:
    """Return the operation that a user means: `global-norm`, `Global_Norm` and `clip_by_global_norm` are one."""
    name = spelling.lower().replace("-", "_")
    return next((each for each in _EACH if name in (each.function, each.prefix.replace("-", "_"))), None)
