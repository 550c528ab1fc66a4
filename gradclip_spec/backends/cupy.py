"""Define the backend of CuPy arrays."""

from gradclip_spec._formats import FORMATS
from gradclip_spec.backends.base import Backend

__all__ = ["CuPy"]


class CuPy(Backend):
    """The backend of CuPy arrays, which never waits for the device."""

    keeps_at_one = FORMATS
    eager = False
