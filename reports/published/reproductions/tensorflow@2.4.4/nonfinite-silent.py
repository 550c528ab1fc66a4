"""In a graph, a threshold of zero hides infinity. The exact result is [0, NaN], as without a graph.

Prints:
    [0.0, 0.0]
    [0.0, nan]
"""

import tensorflow as tf

gradient = tf.constant([3.0, float("inf")])
print(tf.function(lambda x: tf.clip_by_norm(x, 0.0), autograph=False)(gradient).numpy().tolist())
print(tf.clip_by_norm(gradient, 0.0).numpy().tolist())
