"use strict";
// Adapt TensorFlow.js: tf.clipByValue.

const readline = require("node:readline");
const tf = require("@tensorflow/tfjs");

tf.setBackend("cpu");

const ENTRY_POINT = {
  name: "tf.clipByValue",
  operation: "clip_by_value",
  dtypes: ["float32"],
  features: ["differentiable", "functional", "min_max", "repeated", "requires_min"],
  norm_types: ["0x1.0000000000000p+1"],
  formula: null,
};

class Unsupported extends Error {}

// Python writes a float as "-0x1.8000000000000p+1", "inf" or "nan"; JavaScript has no function that reads this.
function readNumber(option) {
  if (option === null || typeof option !== "object") return option;
  const found = /^(-?)0x([01]\.[0-9a-f]+)p([+-][0-9]+)$/.exec(option.hex);
  if (found === null) return { inf: Infinity, "-inf": -Infinity }[option.hex] ?? NaN;
  const digits = found[2].replace(".", "");
  const size = parseInt(digits, 16) * 2 ** (Number(found[3]) - 4 * (digits.length - 1));
  return found[1] === "-" ? -size : size;
}

// Arrays are little-endian; so are all machines that Node runs on today, except for IBM's mainframes.
function makeTensor(array) {
  if (array.dtype !== "float32") throw new Unsupported("TensorFlow.js computes in float32 only");
  const bytes = Buffer.from(array.data, "base64");
  const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return tf.tensor(values, array.shape, "float32");
}

function makeGradient(gradient, tensors) {
  if (gradient.same_as !== undefined) return tensors[gradient.same_as];
  if (gradient.array === null) throw new Unsupported("tf.clipByValue takes no null");
  if (!gradient.need_clip) throw new Unsupported("tf.clipByValue excludes nothing");
  if ((gradient.layout ?? "contiguous") !== "contiguous" || gradient.rows) throw new Unsupported("tensors are dense");
  return makeTensor(gradient.array);
}

function readTensor(tensor) {
  const values = tensor.dataSync();
  const data = Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
  return { dtype: tensor.dtype, shape: tensor.shape, data };
}

function answer(call) {
  const { min, max, ...others } = call.options;
  const unknown = Object.keys(others);
  if (unknown.length) throw new Unsupported(`tf.clipByValue has no option ${unknown.join(", ")}`);
  const tensors = [];
  for (const gradient of call.gradients) tensors.push(makeGradient(gradient, tensors));
  const clip = (tensor) => tf.clipByValue(tensor, readNumber(min), readNumber(max));
  // A gradient with a cotangent asks for the derivative through the clip.
  const respondTo = (tensor, { cotangent }) => (cotangent ? tf.grad(clip)(tensor, makeTensor(cotangent)) : clip(tensor));
  const inputs = () => tensors.map(readTensor);
  try {
    const results = tensors.map((tensor, i) => respondTo(tensor, call.gradients[i]));
    const same_object = results.map((result, i) => result === tensors[i]);
    const gradients = results.map(readTensor);
    return { message: "reply", gradients, norm: null, inputs: inputs(), same_object, warnings: [] };
  } catch (error) {
    return { message: "raised", kind: error.name, text: error.message, inputs: inputs() };
  }
}

function respond(message) {
  if (message.message === "hello") {
    const found = { framework: "TensorFlow.js", version: tf.version.tfjs, python: "", platform: process.platform };
    const environment = { node: process.version, backend: tf.getBackend() };
    return { message: "about", protocol: 1, ...found, environment, subjects: [ENTRY_POINT] };
  }
  const number = message.number;
  try {
    return { ...answer(message), number };
  } catch (error) {
    if (error instanceof Unsupported) return { message: "unsupported", number, text: error.message, kind: "interface" };
    return { message: "mistake", number, text: String(error.stack) };
  }
}

// Nothing but messages may reach standard output.
console.log = console.info = console.warn = console.error;
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.message === "bye") process.exit(0);
  process.stdout.write(JSON.stringify(respond(message)) + "\n");
});
