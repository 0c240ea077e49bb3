// From text to token ids and back: BPE of course_lib/text/bpe.py, the others of course_lib/text/tokenizers.py.
alive.tokenizers = () => {
  const [encoder, decoder] = [new TextEncoder(), new TextDecoder("utf-8", { ignoreBOM: true })];

  // Bytes over 256 symbols, pieces of about a word, and merges, the first learnt first.
  class BPE {
    // letters, numbers, space: what Python's table of Unicode calls so, each the inside of a character class
    constructor({ symbols, merges, letters, numbers, space }) {
      this.symbols = symbols; // the symbol of each byte
      this.vocab = [...symbols].sort((a, b) => a.codePointAt() - b.codePointAt());
      this.ranks = new Map();
      merges.forEach(([a, b], rank) => {
        this.ranks.set(`${a} ${b}`, rank);
        if (!this.vocab.includes(a + b)) this.vocab.push(a + b);
      });
      this.index = new Map(this.vocab.map((token, id) => [token, id]));
      this.byte = new Map(symbols.map((symbol, byte) => [symbol, byte]));
      const words = `'(?:[stmd]|re|ve|ll)| ?[${letters}]+| ?[${numbers}]+| ?[^${letters}${numbers}${space}]+`;
      this.piece = new RegExp(`${words}|[${space}]+(?![^${space}])|[${space}]+`, "gu");
    }

    // As long as there is one to merge, the pair that was learnt first is merged.
    applyMerges(tokens) {
      const rank = (i) => this.ranks.get(`${tokens[i]} ${tokens[i + 1]}`) ?? Infinity;
      while (tokens.length > 1) {
        let first = 0;
        for (let i = 1; i < tokens.length - 1; i++) if (rank(i) < rank(first)) first = i;
        if (rank(first) === Infinity) break;
        const [a, b] = [tokens[first], tokens[first + 1]];
        const merged = [];
        for (let i = 0; i < tokens.length; i++) {
          const found = tokens[i] === a && tokens[i + 1] === b;
          merged.push(found ? a + b : tokens[i]);
          if (found) i++;
        }
        tokens = merged;
      }
      return tokens;
    }

    encode(text) {
      const pieces = text.match(this.piece) ?? [];
      const symbols = (piece) => Array.from(encoder.encode(piece), (byte) => this.symbols[byte]);
      return pieces.flatMap((piece) => this.applyMerges(symbols(piece)).map((token) => this.index.get(token)));
    }

    decode(ids) {
      const bytes = ids.flatMap((id) => Array.from(this.vocab[id], (symbol) => this.byte.get(symbol)));
      return decoder.decode(new Uint8Array(bytes));
    }
  }

  // One token for each character; 0 is the unknown mark.
  class CharTokenizer {
    constructor({ vocab }) {
      this.vocab = vocab;
      this.index = new Map(vocab.map((character, id) => [character, id]));
    }

    encode(text) {
      return Array.from(text, (character) => this.index.get(character) ?? 0);
    }

    decode(ids) {
      return ids.map((id) => this.vocab[id]).join("");
    }
  }

  // One token for each word, of a text that is read for each character; 0 to 3 are padding, start, end and unknown.
  class WordTokenizer extends CharTokenizer {
    encode(text) {
      return Array.from(text, (character) => this.index.get(character) ?? 3);
    }

    decode(ids) {
      return ids.map((id) => this.vocab[id]);
    }
  }
  return { BPE, CharTokenizer, WordTokenizer };
};
