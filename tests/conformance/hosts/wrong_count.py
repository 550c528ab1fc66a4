"""Answers with one gradient fewer."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Answers with one gradient fewer."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Answers with one gradient fewer."""
        return replace(right, gradients=right.gradients[:-1])
