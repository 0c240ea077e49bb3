"""Attention and what is built of it: scores, masks, positions, heads, blocks, and the Transformer of 2017."""
