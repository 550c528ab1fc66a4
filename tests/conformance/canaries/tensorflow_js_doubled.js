"use strict";
// Double the results of the clip of TensorFlow.js.

const tf = require("@tensorflow/tfjs");

// The functions of the module cannot be replaced, but the module in Node's cache can.
const clipByValue = (...passed) => tf.mul(tf.clipByValue(...passed), 2);
require.cache[require.resolve("@tensorflow/tfjs")].exports = { ...tf, clipByValue };
