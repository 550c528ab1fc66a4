"""What the judge knows about a cell beside the answer."""

from __future__ import annotations

from dataclasses import dataclass

from gradclip_adapters.contract import Subject

from ..cases.model import Case
from ..known.claims import Claim

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """A case, the subject that was asked, and what its framework's documentation says."""

    case: Case
    subject: Subject
    claims: tuple[Claim, ...] = ()

    @property
    def through_optimizer(self) -> bool:
        """Whether results are differences of parameters, in which the sign of a zero and a NaN's bits are lost."""
        return "optimizer" in self.subject.features

    @property
    def flushes_subnormals(self) -> bool:
        """Whether the subject declares that subnormal numbers may become zero."""
        return "flushes_subnormals" in self.subject.features
