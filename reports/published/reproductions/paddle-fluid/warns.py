"""set_gradient_clip warns.

Prints:
    Caution! 'set_gradient_clip' is not recommended and may be d
"""

import warnings

from paddle import fluid

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0))
print(str(caught[0].message)[:60])
