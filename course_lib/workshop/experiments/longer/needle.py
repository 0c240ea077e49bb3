"""Lesson 17: one sentence that does not belong into the plays, and a published model that is asked for it."""

import torch

from course_lib.data import plays
from course_lib.language.decoder import Decoder
from course_lib.train import published
from course_lib.weights.llama_weights import gguf_tokenizer
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.gpt.core import in_template, with_specials
from course_lib.workshop.experiments.longer.core import HERE

PERSONS = ("baker", "sailor", "widow", "painter", "miller", "judge", "gardener", "piper")
SECRETS = ("amber", "copper", "orchid", "falcon", "thunder", "velvet", "marble", "ginger")
WORDS, DEPTHS = (150, 600), (0.1, 0.5, 0.9)  # words of the plays, and where among them the sentence stands
NEEDLES = 2  # questions for each length and depth


def with_needle(draws: torch.Generator, words: int, depth: float) -> tuple[str, str, int]:
    """So many words of the test plays, among them a sentence that does not belong there, and a question.

    -> the question, how its answer begins, and the number of the secret that it goes on with.
    """
    lines = plays.text("test").split("\n")
    begin, n = int(torch.randint(len(lines) - 2 * words, (1,), generator=draws)), 0
    kept = []
    while n < words:  # an empty line is there between two speeches, and no two of them in a row
        kept.append(lines[begin + len(kept)])
        n += len(kept[-1].split())
    person, secret = (int(torch.randint(len(some), (1,), generator=draws)) for some in (PERSONS, SECRETS))
    told = f"The secret word of the {PERSONS[person]} is"
    kept.insert(round(depth * len(kept)), f"{told} {SECRETS[secret]}.")
    text = "\n".join(kept)
    return f"{text}\n\nWhat is the secret word of the {PERSONS[person]}?", told, secret


@torch.no_grad()
def chosen(model: Decoder, tokenizer, question: str, told: str) -> int:
    """Which of the eight secrets the model would begin with, behind a question in its template and `told`."""
    ids = with_specials(tokenizer, in_template(question) + told)
    firsts = [int(tokenizer.encode(f" {secret}")[0]) for secret in SECRETS]  # all different
    scores = model.read_out(model.states(ids[None])[:, -1])  # (1, V)
    return int(scores[0, firsts].argmax())


@experiment(each(places=["as taught", "halved"]), seeds=(0, 1, 2), cpus=HERE)
def needle(seed, places):
    """How often a published model finds one of eight words, told once, by how many it reads and where it stood."""
    path = published.fetch("smollm2")
    model, tokenizer, draws = Decoder.from_gguf(path), gguf_tokenizer(path), torch.Generator().manual_seed(seed)
    for block in model.blocks if places == "halved" else ():
        turn = block.attention.turn
        block.attention.turn = lambda x, where, turn=turn: turn(x, where / 2)
    found = {}
    for words in WORDS:
        for depth in DEPTHS:
            asked = [with_needle(draws, words, depth) for _ in range(NEEDLES)]
            right = [chosen(model, tokenizer, question, told) == secret for question, told, secret in asked]
            found.setdefault(str(words), {})[str(depth)] = sum(right) / NEEDLES
    return {"found": found}
