"""One sequence written from another: encoder and decoder, greedy and beam search, and how alignments are judged."""
