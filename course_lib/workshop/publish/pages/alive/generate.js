// How the next token is chosen: course_lib/language/generate.py. Logits (V) of one place at a time.
alive.generate = ({ softmax }) => {
  const COLDEST = 1e-8; // below this temperature the best token wins every time
  const bestFirst = (values) => Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
  const only = (logits, kept) => logits.map((logit, id) => (kept.has(id) ? logit : -Infinity));

  // The k best logits stay.
  const keepTopK = (logits, k) => only(logits, new Set(bestFirst(logits).slice(0, k)));

  // The smallest set of tokens whose probability reaches p stays, the best token always.
  const keepTopP = (logits, p) => {
    if (p === 1) return logits;
    const probs = softmax(logits);
    const kept = new Set();
    let reached = 0; // what all better tokens have together
    for (const id of bestFirst(probs)) {
      if (kept.size && reached >= p) break;
      kept.add(id);
      reached += probs[id];
    }
    return only(logits, kept);
  };

  // softmax(logits / temperature), of the tokens that top_k and then top_p keep: (V) -> (V)
  const nextProbs = (logits, { temperature = 1, top_k = 0, top_p = 1 } = {}) => {
    if (temperature < COLDEST) {
      const best = bestFirst(logits)[0];
      return logits.map((_, id) => (id === best ? 1 : 0));
    }
    let left = logits.map((logit) => logit / temperature);
    if (top_k) left = keepTopK(left, top_k);
    return softmax(keepTopP(left, top_p));
  };

  // One token by its probability; random is a number from 0 to below 1.
  const draw = (probs, random) => {
    let rest = random * probs.reduce((a, b) => a + b, 0);
    for (let id = 0; id < probs.length; id++) if (probs[id] && (rest -= probs[id]) < 0) return id;
    return bestFirst(probs)[0];
  };
  return { bestFirst, nextProbs, draw };
};
