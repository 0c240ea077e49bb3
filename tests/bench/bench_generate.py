"""`python tests/bench/bench_generate.py`: our GPT writes beside Hugging Face's `generate`, and what a cache saves.

Equal weights, greedy, both with a cache, no token that ends a text; both must write the same tokens. The ratio is their
time over ours: above 1, ours is faster. `cache`: how many times as fast ours writes with its cache as without.
"""

from functools import partial

import torch
from model_pairs import their_gpt
from side_by_side import begin, in_turns, seconds, store, table

from course_lib.language.gpt import GPT

PROMPT, WRITTEN = 16, 96  # tokens
# d_model, heads, layers, vocabulary: the plain recipe on the plays, a wider one with subwords.
SIZES = [(128, 4, 4, 65), (384, 6, 4, 1024)]


def compare(batch: int, size: tuple[int, int, int, int], device: torch.device) -> dict:
    """A row of the table."""
    d_model, n_heads, n_layers, vocab_size = size
    theirs = their_gpt(vocab_size, PROMPT + WRITTEN, d_model, n_heads, n_layers).to(device).eval()
    ours, prompts = GPT.from_hf(theirs), torch.randint(vocab_size, (batch, PROMPT), device=device)
    settings = {"do_sample": False, "use_cache": True, "max_new_tokens": WRITTEN, "pad_token_id": 0}
    write_theirs = partial(theirs.generate, prompts, attention_mask=torch.ones_like(prompts), **settings)
    write_ours = partial(ours.generate, prompts, WRITTEN, temperature=0)
    assert write_ours() == write_theirs()[:, PROMPT:].tolist(), "Both sides must write the same."
    took = in_turns({"theirs": write_theirs, "ours": write_ours}, device, least=5)
    again = seconds(partial(write_ours, cache=False), device)  # once: it takes long
    return {
        "batch": batch,
        "d_model": d_model,
        "layers": n_layers,
        "vocabulary": vocab_size,
        "their tokens/s": batch * WRITTEN / took["theirs"],
        "ours": took["theirs"] / took["ours"],
        "cache": again / took["ours"],
    }


def main() -> None:
    device = begin()
    rows = [compare(batch, size, device) for size in SIZES for batch in (1, 8)]
    title = f"{WRITTEN} tokens behind {PROMPT} on {device}: times as fast as Hugging Face's; cache: as without"
    table(title, rows)
    store("generation", rows, device)


if __name__ == "__main__":
    main()
