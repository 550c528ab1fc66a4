"""Two replicas clip their gradients to a norm of 1 each, and the sum that is applied has a norm of 2.

Prints:
    2.0
"""

import keras
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    variable, optimizer = tf.Variable([0.0]), keras.optimizers.SGD(1.0, global_clipnorm=1.0)
    optimizer.build([variable])
strategy.run(tf.function(lambda: optimizer.apply_gradients([(tf.constant([8.0]), variable)])))
print(-float(variable.values[0][0]))
