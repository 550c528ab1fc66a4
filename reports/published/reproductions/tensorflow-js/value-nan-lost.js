/* If both bounds are equal, NaN becomes the bound. Otherwise it stays.

Prints:
    [ 0.5, 0.5 ]
    [ NaN, 1 ]
*/

const tf = require("@tensorflow/tfjs");
tf.setBackend("cpu");

const gradient = tf.tensor([NaN, 3]);
console.log(Array.from(tf.clipByValue(gradient, 0.5, 0.5).dataSync()));
console.log(Array.from(tf.clipByValue(gradient, 0.5, 1).dataSync()));
