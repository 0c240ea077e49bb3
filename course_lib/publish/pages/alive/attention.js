// Attention models: the forward pass of course_lib/attention and course_lib/language/gpt.py, for one text at a time.
// T tokens read now, T_all those that the cache holds too, D d_model, H heads, d = D / H, V vocab_size.
alive.attention = ({ dot, linear, times, add, softmax, weightsOf }) => {
  // gain * (x - mean) / sqrt(variance + eps) + shift, for each row of x (T, D)
  const layerNorm = (x, { gain, shift }, eps) =>
    x.map((row) => {
      const mean = row.reduce((a, b) => a + b, 0) / row.length;
      const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
      return row.map((value, d) => (gain[d] * (value - mean)) / Math.sqrt(variance + eps) + shift[d]);
    });

  // What GPT-1, GPT-2 and GPT-3 computed: "gelu_tanh"
  const gelu = (z) => 0.5 * z * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (z + 0.044715 * z ** 3)));

  // softmax(q k^T / sqrt(d)) v. Query t of the T may look at the keys up to its own place, past + t: the causal mask.
  // q (T, d), k (T_all, d), v (T_all, d) -> out (T, d), weights (T, up to T_all)
  const attend = (q, k, v, past) => {
    const weights = q.map((query, t) => {
      const scores = new Float32Array(past + t + 1);
      for (let u = 0; u < scores.length; u++) scores[u] = dot(query, k[u]) / Math.sqrt(query.length);
      return softmax(scores);
    });
    return { out: weights.map((row) => times(row, v)), weights };
  };

  // Head h of each row, without a copy: (T, D) -> (T, d)
  const split = (x, h, d) => x.map((row) => row.subarray(h * d, (h + 1) * d));

  // Concat(head_1 ... head_H) W_o. The cache grows by a key, a value and a row of weights (H, T_all) for each token.
  const multiHead = ({ w_q, w_k, w_v, w_o }, x, nHeads, cache) => {
    const [past, d] = [cache.k.length, x[0].length / nHeads];
    const q = linear(x, w_q.weight, w_q.bias);
    cache.k.push(...linear(x, w_k.weight, w_k.bias));
    cache.v.push(...linear(x, w_v.weight, w_v.bias));
    const heads = Array.from({ length: nHeads }, (_, h) =>
      attend(split(q, h, d), split(cache.k, h, d), split(cache.v, h, d), past),
    );
    cache.weights.push(...x.map((_, t) => heads.map((head) => head.weights[t])));
    const sideBySide = x.map((row, t) => {
      const joined = new Float32Array(row.length);
      heads.forEach((head, h) => joined.set(head.out[t], h * d));
      return joined;
    });
    return linear(sideBySide, w_o.weight, w_o.bias);
  };

  const feedForward = ({ w_1, w_2 }, x) =>
    linear(linear(x, w_1.weight, w_1.bias).map((row) => row.map(gelu)), w_2.weight, w_2.bias);

  // One layer, its norms before its parts.
  const block = (layer, x, { n_heads, eps }, cache) => {
    x = add(x, multiHead(layer.attention, layerNorm(x, layer.norm_1, eps), n_heads, cache));
    return add(x, feedForward(layer.feed_forward, layerNorm(x, layer.norm_2, eps)));
  };

  class GPT {
    constructor(stored) {
      this.config = stored.config;
      this.maxLen = stored.config.max_len;
      this.weights = weightsOf(stored);
      this.blocks = Object.values(this.weights.blocks);
      this.clear();
    }

    clear() {
      this.cache = this.blocks.map(() => ({ k: [], v: [], weights: [] }));
    }

    // Forget all but the first n tokens.
    keep(n) {
      for (const kept of this.cache) for (const part of Object.values(kept)) part.length = n;
    }

    // Token ids (T), the text that the cache holds before them -> logits (T, V) for the token behind each
    forward(ids) {
      const { tokens, places, norm } = this.weights;
      const past = this.cache[0].k.length;
      let x = ids.map((id, t) => tokens.weight[id].map((value, d) => value + places.weight[past + t][d]));
      this.blocks.forEach((layer, l) => (x = block(layer, x, this.config, this.cache[l])));
      return linear(layerNorm(x, norm, this.config.eps), tokens.weight);
    }

    // All weights of attention so far, (layers, H, T_all, T_all) in one row, 0 for what a token may not see.
    seen() {
      const [L, H, T] = [this.blocks.length, this.config.n_heads, this.cache[0].k.length];
      const values = new Float32Array(L * H * T * T);
      this.cache.forEach(({ weights }, l) =>
        weights.forEach((heads, t) => heads.forEach((row, h) => values.set(row, ((l * H + h) * T + t) * T))),
      );
      return { kind: "attention", shape: [L, H, T, T], values };
    }
  }
  return { GPT };
};
