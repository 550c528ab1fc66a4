"""Takes a while to import, and is right then."""

import time

from one_bad_call import OneBadCall

time.sleep(1)

adapter = OneBadCall
