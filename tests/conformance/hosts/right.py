"""Answer every call correctly."""

from one_bad_call import OneBadCall

adapter = OneBadCall
