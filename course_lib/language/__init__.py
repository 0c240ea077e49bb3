"""Models that say the next token: GPT and a LLaMA-like decoder; how they train, write, and learn from a prompt."""
