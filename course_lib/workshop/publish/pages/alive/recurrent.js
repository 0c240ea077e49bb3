// Recurrent models: the forward pass of course_lib/recurrent and translation/seq2seq.py, for one text at a time.
// D width of the embedding, H hidden units, V vocab_size, S source time.
alive.recurrent = ({ dot, linear, times, softmax, weightsOf }) => {
  // One step of the Elman network, h' = tanh(x w_x + h w_h + b): x (D), h (H), w_x (D, H), w_h (H, H), b (H) -> (H)
  const rnnStep = (x, h, w_x, w_h, b) => {
    const [fromInput, fromState] = [times(x, w_x), times(h, w_h)];
    return h.map((_, j) => Math.tanh(fromInput[j] + fromState[j] + b[j]));
  };

  class CharRNN {
    constructor(stored) {
      this.maxLen = Infinity; // a state holds what was read, however long it is
      this.weights = weightsOf(stored);
      this.clear();
    }

    clear() {
      this.states = []; // h_1 ... h_T, one for each token read
    }

    keep(n) {
      this.states.length = n;
    }

    // Token ids (T), read from the state behind those before them -> logits (T, V) for the token behind each
    forward(ids) {
      const { embed, rnn, readout } = this.weights;
      const hs = ids.map((id) => {
        const h = this.states.at(-1) ?? new Float32Array(rnn.b[0].length);
        this.states.push(rnnStep(embed.weight[id], h, rnn.w_x[0], rnn.w_h[0], rnn.b[0]));
        return this.states.at(-1);
      });
      return linear(hs, readout.weight, readout.bias);
    }

    // The state behind each token, (T, H) in one row
    seen() {
      const [T, H] = [this.states.length, this.weights.rnn.b[0].length];
      const values = new Float32Array(T * H);
      this.states.forEach((h, t) => values.set(h, t * H));
      return { kind: "states", shape: [T, H], values };
    }
  }

  // One step of the GRU as torch.nn.GRU computes it, h' = z * h + (1 - z) * n: x (D), h (H), w_x (3H, D), w_h (3H, H),
  // b_x, b_h (3H), in the order reset gate r, update gate z, candidate n -> (H)
  const sigmoid = (a) => 1 / (1 + Math.exp(-a));
  const gruStep = (x, h, w_x, w_h, b_x, b_h) => {
    const [[fromInput], [fromState], H] = [linear([x], w_x, b_x), linear([h], w_h, b_h), h.length];
    return h.map((old, j) => {
      const r = sigmoid(fromInput[j] + fromState[j]);
      const z = sigmoid(fromInput[H + j] + fromState[H + j]);
      const n = Math.tanh(fromInput[2 * H + j] + r * fromState[2 * H + j]);
      return z * old + (1 - z) * n;
    });
  };
  const side = (a, b) => Float32Array.of(...a, ...b); // one vector behind the other

  // Reads xs (S, D) from the first to the last -> the state behind each, (S, H)
  const gru = (xs, { fused }, place, h) => {
    const weights = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map((name) => fused[`${name}_${place}`]);
    return xs.map((x) => (h = gruStep(x, h, ...weights)));
  };

  // e_j = v tanh(W s + U h_j), their softmax, and the mean of the h_j so weighted: s (H), memory (S, H) -> (H), (S)
  const additiveAttention = ({ w, u, v }, s, memory) => {
    const [query] = linear([s], w.weight);
    const keys = linear(memory, u.weight);
    const weights = softmax(keys.map((key) => dot(v.weight[0], key.map((value, a) => Math.tanh(query[a] + value)))));
    return [times(weights, memory), weights];
  };

  class Seq2Seq {
    constructor(stored) {
      this.config = stored.config; // start and end: token ids
      this.weights = weightsOf(stored);
    }

    // Token ids (S), each read forwards and backwards -> memory (S, H), and the last state (H)
    encode(ids) {
      const { embed, rnn } = this.weights.encoder;
      const xs = ids.map((id) => embed.weight[id]);
      const zeros = new Float32Array(rnn.fused.weight_hh_l0[0].length); // (H / 2): two directions share the width
      const forward = gru(xs, rnn, "l0", zeros);
      const backward = gru([...xs].reverse(), rnn, "l0_reverse", zeros).reverse();
      return { memory: forward.map((h, t) => side(h, backward[t])), state: side(forward.at(-1), backward[0]) };
    }

    // One token further, from the state behind those before it -> logits (V), the new state (H), weights (S) or null
    step(token, state, memory) {
      const { embed, rnn, attention, combine, readout } = this.weights.decoder;
      const [h] = gru([embed.weight[token]], rnn, "l0", state);
      const [context, weights] = attention ? additiveAttention(attention, h, memory) : [null, null];
      const out = attention ? linear([side(context, h)], combine.weight)[0].map(Math.tanh) : h;
      return { logits: linear([out], readout.weight, readout.bias)[0], state: h, weights };
    }

    // The most probable token, again and again, until it is the end, as `greedy` in translation/decode.py; an empty
    // text has an empty translation. Token ids (S) -> those written, and the logits and weights of each step
    translate(ids, maxLen) {
      const [written, logits, weights] = [[], [], []];
      if (!ids.length) return { written, logits, weights };
      let { memory, state } = this.encode(ids);
      for (let token = this.config.start; logits.length < maxLen; written.push(token)) {
        const found = this.step(token, state, memory);
        state = found.state;
        logits.push(found.logits);
        if (found.weights) weights.push(found.weights);
        token = found.logits.indexOf(Math.max(...found.logits));
        if (token === this.config.end) break;
      }
      return { written, logits, weights };
    }
  }
  return { CharRNN, Seq2Seq };
};
