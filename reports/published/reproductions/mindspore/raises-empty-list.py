"""An empty list raises an error.

Prints:
    For primitive[Stack], the stack element num must be greater than or equal to 1, but got 0.
    For primitive[AddN], the input num must be greater than or equal to 1, but got 0.
"""

from mindspore import ops

for clip in (ops.clip_by_norm, ops.clip_by_global_norm):
    try:
        clip([], 1.0)
    except ValueError as error:
        print(str(error).partition("\n")[0])
