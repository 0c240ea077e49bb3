// Recurrent models: the forward pass of course_lib/recurrent, for one text at a time.
// D width of the embedding, H hidden units, V vocab_size.
alive.recurrent = ({ linear, times, weightsOf }) => {
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
  return { CharRNN };
};
