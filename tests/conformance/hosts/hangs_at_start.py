"""Never finish the import."""

import time

time.sleep(3600)
