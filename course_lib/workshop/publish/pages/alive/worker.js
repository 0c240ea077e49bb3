// The worker: it keeps one model, reads what the page sends, writes on, and tells what it finds.
alive.worker = (parts) => {
  const SHOWN = 16; // best tokens, of which the page shows probabilities
  const { nextProbs, draw, bestFirst } = parts;
  let [model, tokenizer, writes, ids, start, asked] = [null, null, null, [], 0, 0];

  // The logits behind `text` (N token ids). What is in the cache already is not computed again. A text longer than the
  // model can read is read from `from` on: its last tokens.
  const read = (text, from) => {
    let same = 0;
    if (from === start) while (same < ids.length && same < text.length - 1 && ids[same] === text[same]) same++;
    same = Math.max(same - start, 0);
    [ids, start] = [text, from];
    model.keep(same);
    return model.forward(text.slice(start + same)).at(-1);
  };

  const told = (logits, knobs) => {
    const [own, drawn] = [nextProbs(logits), nextProbs(logits, knobs)];
    const best = bestFirst(own).slice(0, SHOWN);
    return best.map((id) => ({ id, text: tokenizer.decode([id]), own: own[id], drawn: drawn[id] }));
  };
  const spelt = (some) => some.map((id) => ({ id, text: tokenizer.decode([id]) }));

  const answers = {
    load({ stored }) {
      model = new parts[stored.kind](stored);
      if (stored.tokenizer) tokenizer = new parts[stored.tokenizer.kind](stored.tokenizer);
      if (stored.writes) writes = new parts[stored.writes.kind](stored.writes); // what it writes in is another
      postMessage({ kind: "ready" });
    },

    // A text is read, and if `tokens` is more than 0, so many are written behind it, one message each.
    async read({ text, knobs, tokens, run }) {
      const given = tokenizer.encode(text || "\n");
      let from = Math.max(0, given.length - model.maxLen);
      let logits = read(given, from);
      const first = given.length;
      for (let n = 0; n < tokens; n++) {
        const next = draw(nextProbs(logits, knobs), Math.random());
        const all = [...ids, next];
        // Where the window is full, the second half of it is read anew, so that most steps read one token only.
        if (all.length - from > model.maxLen) from = all.length - model.maxLen / 2;
        logits = read(all, from);
        const written = tokenizer.decode(all.slice(first));
        postMessage({ kind: "token", run, written, best: told(logits, knobs) });
        await new Promise((go) => setTimeout(go)); // so that a newer question is heard
        if (run !== asked) return;
      }
      const seen = model.seen();
      const written = tokenizer.decode(ids.slice(first));
      const message = { kind: "read", run, tokens: spelt(ids.slice(start)), first: first - start, start, logits, written };
      postMessage({ ...message, best: told(logits, knobs), seen }, [seen.values.buffer]);
    },

    // A text is opened at one place, its last where `place` is none, with head `head` of block `block`. `drawn` are the
    // ids that were drawn behind it before; with `draw` one more is.
    inside({ text, drawn, draw: goesOn, place, block, head, knobs, run }) {
      if (!model.kept) {
        model.watch();
        ids = [];
      }
      const given = tokenizer.encode(text || "\n");
      let all = [...given, ...drawn];
      const readAll = () => read(all, Math.max(0, all.length - model.maxLen));
      const logits = readAll();
      let chance = null; // how a token was drawn: the probabilities of those before it in the vocabulary sum to `low`
      if (goesOn) {
        const [probs, random] = [nextProbs(logits, knobs), Math.random()];
        const id = draw(probs, random);
        const low = probs.subarray(0, id).reduce((a, b) => a + b, 0);
        chance = { id, text: tokenizer.decode([id]), random, low, high: low + probs[id] };
        all = [...all, id];
        readAll();
      }
      const tokens = spelt(all.slice(start));
      const t = Math.min(place ?? Infinity, tokens.length - 1);
      const found = model.inside(tokens[t].id, t, block, head);
      const best = told(found.logits, knobs).map((one) => ({ ...one, logit: found.logits[one.id] }));
      const seen = model.seen();
      const first = given.length - start;
      postMessage({ kind: "inside", run, ...found, tokens, first, t, best, chance, seen }, [seen.values.buffer]);
    },

    // A word is said.
    say({ word, longest, run }) {
      const { written, logits, weights } = model.translate(tokenizer.encode(word), longest);
      postMessage({ kind: "say", run, word, sounds: writes.decode(written), logits, weights });
    },

    // An image is named.
    look({ image, run }) {
      const { logits, seen } = model.forward(image);
      const own = nextProbs(logits);
      const best = bestFirst(own).slice(0, SHOWN).map((id) => ({ id, text: model.config.names[id], own: own[id] }));
      postMessage({ kind: "look", run, logits, seen, best });
    },
  };
  onmessage = ({ data }) => {
    asked = data.run;
    answers[data.ask](data);
  };
};
