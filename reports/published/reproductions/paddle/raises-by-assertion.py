"""ClipGradByValue takes no bound of zero, as documented.

Prints:
    AssertionError
"""

import paddle

try:
    paddle.nn.ClipGradByValue(0.0)
except AssertionError as error:
    print(type(error).__name__)
