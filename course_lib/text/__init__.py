"""From text to numbers and back: tokenizers of characters, words, byte pairs and word pieces; sentences in pairs."""
