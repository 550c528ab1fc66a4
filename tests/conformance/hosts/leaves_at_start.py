"""Exit with an explanation during the import."""

import sys

sys.exit("a licence is missing")
