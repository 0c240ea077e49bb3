// Attention models: the forward pass of course_lib/attention, language/gpt.py and vision/vit.py, for one input at a time.
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
  const geluTanh = (z) => 0.5 * z * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (z + 0.044715 * z ** 3)));

  // z times the normal distribution's share below z: "gelu". erf after Abramowitz and Stegun (1964), 7.1.26, to 2e-7.
  const erf = (z) => {
    const t = 1 / (1 + 0.3275911 * Math.abs(z));
    const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    return Math.sign(z) * (1 - sum * Math.exp(-z * z));
  };
  const gelu = (z) => 0.5 * z * (1 + erf(z / Math.SQRT2));
  const ACTIVATIONS = { gelu_tanh: geluTanh, gelu };

  // softmax(q k^T / sqrt(d)) v. Query t sees the first `visible(t)` keys: all, or those up to its own place, if causal.
  // q (T, d), k (T_all, d), v (T_all, d) -> out (T, d), weights and scores (T, up to T_all)
  const attend = (q, k, v, visible) => {
    const scores = q.map((query, t) => {
      const row = new Float32Array(visible(t));
      for (let u = 0; u < row.length; u++) row[u] = dot(query, k[u]) / Math.sqrt(query.length);
      return row;
    });
    const weights = scores.map(softmax);
    return { out: weights.map((row) => times(row, v)), weights, scores };
  };

  // What a forward pass finds on its way, a row for each token, is kept where the cache has a list of that name.
  const note = (cache, name, rows) => {
    cache[name]?.push(...rows);
    return rows;
  };
  const KEPT = ["k", "v", "weights"]; // what the next tokens need, and what the page draws
  const INSIDE = ["x", "normed", "q", "scores", "heads", "attended", "between", "hidden", "thought", "after"];
  const emptyCache = (names) => Object.fromEntries(names.map((name) => [name, []]));

  // Head h of each row, without a copy: (T, D) -> (T, d)
  const split = (x, h, d) => x.map((row) => row.subarray(h * d, (h + 1) * d));

  // Concat(head_1 ... head_H) W_o. The cache grows by a key, a value and a row of weights (H, T_all) for each token.
  const multiHead = ({ w_q, w_k, w_v, w_o }, x, nHeads, cache, causal) => {
    const [past, d] = [cache.k.length, x[0].length / nHeads];
    const visible = (t) => past + (causal ? t + 1 : x.length);
    const q = note(cache, "q", linear(x, w_q.weight, w_q.bias));
    note(cache, "k", linear(x, w_k.weight, w_k.bias));
    note(cache, "v", linear(x, w_v.weight, w_v.bias));
    const heads = Array.from({ length: nHeads }, (_, h) =>
      attend(split(q, h, d), split(cache.k, h, d), split(cache.v, h, d), visible),
    );
    for (const name of ["weights", "scores"]) note(cache, name, x.map((_, t) => heads.map((head) => head[name][t])));
    const sideBySide = x.map((row, t) => {
      const joined = new Float32Array(row.length);
      heads.forEach((head, h) => joined.set(head.out[t], h * d));
      return joined;
    });
    return linear(note(cache, "heads", sideBySide), w_o.weight, w_o.bias);
  };

  const feedForward = ({ w_1, w_2 }, x, activation, cache) => {
    const hidden = linear(x, w_1.weight, w_1.bias).map((row) => row.map(ACTIVATIONS[activation]));
    return linear(note(cache, "hidden", hidden), w_2.weight, w_2.bias);
  };

  // One layer, its norms before its parts.
  const block = (layer, x, { n_heads, eps, activation }, cache, causal) => {
    const normed = note(cache, "normed", layerNorm(note(cache, "x", x), layer.norm_1, eps));
    x = add(x, note(cache, "attended", multiHead(layer.attention, normed, n_heads, cache, causal)));
    const again = layerNorm(note(cache, "between", x), layer.norm_2, eps);
    const thought = feedForward(layer.feed_forward, again, activation, cache);
    return note(cache, "after", add(x, note(cache, "thought", thought)));
  };

  class GPT {
    constructor(stored) {
      this.config = stored.config;
      this.maxLen = stored.config.max_len;
      this.weights = weightsOf(stored);
      this.blocks = Object.values(this.weights.blocks);
      this.clear();
    }

    // From now on all that `inside` shows is kept, of each token.
    watch() {
      this.kept = [...KEPT, ...INSIDE];
      this.clear();
    }

    clear() {
      this.cache = this.blocks.map(() => emptyCache(this.kept ?? KEPT));
    }

    // Forget all but the first n tokens.
    keep(n) {
      for (const kept of this.cache) for (const part of Object.values(kept)) part.length = n;
    }

    // Token ids (T), the text that the cache holds before them -> logits (T, V) for the token behind each
    forward(ids) {
      const { tokens, places } = this.weights;
      const past = this.cache[0].k.length;
      let x = ids.map((id, t) => tokens.weight[id].map((value, d) => value + places.weight[past + t][d]));
      this.blocks.forEach((layer, l) => (x = block(layer, x, this.config, this.cache[l], true)));
      return this.readout(x);
    }

    readout(x) {
      return linear(layerNorm(x, this.weights.norm, this.config.eps), this.weights.tokens.weight);
    }

    // What was kept of token `id` at place t: vectors with head h of block l opened, that head's scores and weights for
    // all places up to t, and for each part of each block the vector that it adds and the sum so far; logits (V).
    inside(id, t, l, h) {
      const { tokens, places } = this.weights;
      const d = tokens.weight[id].length / this.config.n_heads;
      const [{ weights, scores, ...rest }, first, last] = [this.cache[l], this.cache[0], this.cache.at(-1)];
      const vectors = Object.fromEntries(Object.entries(rest).map(([name, rows]) => [name, rows[t]]));
      for (const name of ["q", "k", "v", "heads"]) vectors[name] = vectors[name].slice(h * d, (h + 1) * d);
      const [token, place] = [tokens.weight[id].slice(), places.weight[t].slice()]; // without the rest of their tables
      const parts = this.cache.flatMap(({ attended, between, thought, after }) => [
        { adds: attended[t], sum: between[t] },
        { adds: thought[t], sum: after[t] },
      ]);
      return {
        vectors: { ...vectors, token, place, embedded: first.x[t] },
        scores: scores[t][h],
        weights: weights[t][h],
        parts,
        logits: this.readout([last.after[t]])[0],
      };
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

  // Cut an image (side x side, row by row) into patches, row by row, each one long row: (N, P P)
  const patchify = (image, side, P) => {
    const grid = side / P;
    return Array.from({ length: grid * grid }, (_, n) => {
      const [top, left] = [Math.floor(n / grid) * P, (n % grid) * P];
      return Float32Array.from({ length: P * P }, (_, i) => image[(top + Math.floor(i / P)) * side + left + (i % P)]);
    });
  };

  // Rows of (mean over heads of A_l + I), each divided by its sum; R = A_L ... A_2 A_1. maps: L of (T, H, T) -> (T, T)
  const rollout = (maps) =>
    maps.reduce((mixed, weights) => {
      const layer = weights.map((heads, t) =>
        heads[0].map((_, u) => heads.reduce((sum, head) => sum + head[u], 0) / heads.length / 2 + (t === u ? 0.5 : 0)),
      );
      return mixed ? layer.map((row) => times(row, mixed)) : layer;
    }, null);

  class ViT {
    constructor(stored) {
      this.config = stored.config;
      this.weights = weightsOf(stored);
      this.blocks = Object.values(this.weights.encoder.blocks);
    }

    // An image of one channel -> logits (K), and how much of each patch stands in [CLS] behind the last block (N)
    forward(image) {
      const { embed, cls, places, encoder, head } = this.weights;
      const { size, patch, eps } = this.config;
      const patches = linear(patchify(image, size, patch), embed.project.weight, embed.project.bias);
      const cache = this.blocks.map(() => emptyCache(KEPT));
      let x = add([cls, ...patches], places);
      this.blocks.forEach((layer, l) => (x = block(layer, x, this.config, cache[l], false)));
      const logits = linear(layerNorm([x[0]], encoder.norm, eps), head.weight, head.bias)[0];
      return { logits, seen: rollout(cache.map(({ weights }) => weights))[0].slice(1) };
    }
  }
  return { GPT, ViT };
};
