"""Gradients below the threshold lose their last bits.

Prints:
    False
"""

import tensorflow as tf

gradient = tf.random.stateless_uniform([1000], [0, 0]) / 100
print((tf.clip_by_norm(gradient, 2.3).numpy() == gradient.numpy()).all().item())
