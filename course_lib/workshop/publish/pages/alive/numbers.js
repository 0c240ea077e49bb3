// What all models compute with. A row is a Float32Array; a matrix is an array of rows, x (T, D) one row for each token.
// Each file of this folder puts one function into `alive`; its text is handed to a worker (inside.js's is not), so it
// uses nothing outside.
alive.numbers = () => {
  const dot = (a, b) => {
    const D = a.length;
    let s = 0, t = 0, u = 0, v = 0; // four sums that need not wait for each other
    let i = 0;
    for (; i + 3 < D; i += 4) {
      s += a[i] * b[i];
      t += a[i + 1] * b[i + 1];
      u += a[i + 2] * b[i + 2];
      v += a[i + 3] * b[i + 3];
    }
    for (; i < D; i++) s += a[i] * b[i];
    return s + t + (u + v);
  };

  // x W^T + b, PyTorch's nn.Linear: x (T, D_in), weight (D_out, D_in), bias (D_out) or nothing -> (T, D_out)
  const linear = (x, weight, bias) =>
    x.map((row) => {
      const out = new Float32Array(weight.length);
      for (let o = 0; o < out.length; o++) out[o] = dot(row, weight[o]) + (bias ? bias[o] : 0);
      return out;
    });

  // sum over i of a_i m_i: one row times a matrix, a (N), m (N, D) -> (D)
  const times = (a, m) => {
    const sum = new Float64Array(m[0].length);
    for (let i = 0; i < a.length; i++) {
      const row = m[i];
      for (let j = 0; j < sum.length; j++) sum[j] += a[i] * row[j];
    }
    return Float32Array.from(sum);
  };

  const add = (x, y) => x.map((row, t) => row.map((value, d) => value + y[t][d]));

  // One row of scores -> weights that sum to 1; a score of -Infinity gets 0.
  const softmax = (scores) => {
    const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
    const powers = Float64Array.from(scores, (score) => Math.exp(score - most));
    const sum = powers.reduce((a, b) => a + b, 0);
    return Float32Array.from(powers, (power) => power / sum);
  };

  // Half precision (sign 1 bit, exponent 5, fraction 10) in Base64 -> Float32Array of the same numbers
  const halves = (base64) => {
    const bytes = atob(base64);
    const numbers = new Float32Array(bytes.length / 2);
    for (let n = 0; n < numbers.length; n++) {
      const bits = bytes.charCodeAt(2 * n) | (bytes.charCodeAt(2 * n + 1) << 8);
      const exponent = (bits >> 10) & 31;
      const fraction = (bits & 1023) / 1024;
      const size = exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction; // all are finite
      numbers[n] = bits >> 15 ? -size : size;
    }
    return numbers;
  };

  // The weights of a stored model by their names in PyTorch: "blocks.0.norm_1.gain" is weights.blocks[0].norm_1.gain.
  const weightsOf = ({ shapes, weights }) => {
    const [numbers, tree] = [halves(weights), {}];
    let at = 0;
    for (const [name, shape] of shapes) {
      const [rows, width] = shape.length === 1 ? [1, shape[0]] : shape;
      const matrix = Array.from({ length: rows }, (_, n) => numbers.subarray(at + n * width, at + (n + 1) * width));
      at += rows * width;
      const path = name.split(".");
      const last = path.pop();
      path.reduce((part, key) => (part[key] ??= {}), tree)[last] = shape.length === 1 ? matrix[0] : matrix;
    }
    return tree;
  };

  return { dot, linear, times, add, softmax, weightsOf };
};
