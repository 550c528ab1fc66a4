"""Asks for the end of the process while it is imported."""

import sys

sys.exit("a licence is missing")
