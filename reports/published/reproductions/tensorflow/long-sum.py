"""With 65,537 equal elements, the results are more than 4 ulp from the exact ones.

Prints:
    True
"""

import numpy as np
import tensorflow as tf

gradient = np.full(65_537, 0.3, np.float32)
clipped = tf.clip_by_norm(gradient, 1.0).numpy()
right = 1.0 / np.sqrt(65_537)
print(abs(clipped[0] - right) > 4 * np.spacing(np.float32(right)))
