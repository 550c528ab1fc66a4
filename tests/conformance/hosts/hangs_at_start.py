"""Never gets through its import."""

import time

time.sleep(3600)
