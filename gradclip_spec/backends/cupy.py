"""The backend of CuPy arrays."""

from gradclip_spec._arithmetic import FORMATS
from gradclip_spec.backends.base import Backend

__all__ = ["CuPy"]


class CuPy(Backend):
    """CuPy arrays: nobody waits for the device."""

    keeps_at_one = FORMATS
    eager = False
