"""GradientClipByValue takes no bound of zero, as documented.

Prints:
    AssertionError
"""

from paddle import fluid

try:
    fluid.clip.GradientClipByValue(0.0)
except AssertionError as error:
    print(type(error).__name__)
