"""A row that is stored twice is clipped before it is added: 7 remains, not 5.

Prints:
    [[0.0, 0.0], [7.0, 0.0]]
"""

import tensorflow as tf

rows = tf.IndexedSlices(tf.constant([[3.0, 0.0], [4.0, 0.0]]), tf.constant([1, 1]), tf.constant([2, 2]))
clipped = tf.clip_by_norm(rows, 5.0)
print(tf.convert_to_tensor(clipped).numpy().tolist())
