"""Take a second to import, then answer correctly."""

import time

from one_bad_call import OneBadCall

time.sleep(1)

adapter = OneBadCall
