"""Lesson 07: a GPT trained by a plain loop, what it knows untaught, examples in a prompt, and the chat template."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from itertools import islice

import jinja2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data import plays, word_tasks
from course_lib.language.decoder import Decoder
from course_lib.language.generate import generate
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.in_context import draw, prompt, read, wrong_labels
from course_lib.language.next_token import bits_per_token, three_rounds, windows
from course_lib.show.record import capture
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train import published
from course_lib.train.loop import cosine, fit
from course_lib.weights.llama_weights import gguf_chat_template, gguf_tokenizer
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

CPU = torch.device("cpu")
PIECES = recipe.GPT.file  # holds the 1,000 merges, too
LETTERS = {"validation": 20_000, "test": 60_000}  # characters of a split that are asked
STRETCHES = 12  # so many, at equal distances, so that every test play is among them


def excerpt(part: str) -> str:
    """What is read of a split: all of train, of the others stretches from beginning to end."""
    text = plays.text(part)
    if part not in LETTERS:
        return text
    length = LETTERS[part] // STRETCHES
    starts = (len(text) * number // STRETCHES for number in range(STRETCHES))
    return "".join(text[at : at + length] for at in starts)


@cache
def reader(reads: str):
    """The tokenizer of characters, or the stored GPT's: 256 bytes and 1,000 merges."""
    return load(recipe.GPT)[1]["tokenizer"] if reads == "pieces" else CharTokenizer(plays.text("train"))


@cache
def tokens(reads: str, part: str) -> Tensor:
    """A split of the plays as tokens (N,), read as characters or as pieces."""
    return reader(reads).encode(excerpt(part))


@cache
def smollm2():
    """The published model and its tokenizer."""
    path = published.fetch("smollm2")
    return Decoder.from_gguf(path), gguf_tokenizer(path)


def held_out_bits(model, part):
    """Bits per character of held-out plays, for a GPT that reads pieces."""
    ids = tokens("pieces", part)
    return bits_per_token(model, ids) * len(ids) / LETTERS[part]


# --- a GPT trained by a plain loop: the notebook's, of which each line stands on a slide

STEPS, BATCH, RATE = 350, 16, 2e-2
SIZES = {"max_len": 64, "d_model": 96, "n_heads": 4, "n_layers": 2}
COOL = 0.8  # the temperature at which it writes
LOOKS = range(0, STEPS + 1, 70)  # steps at which validation plays are asked
OPENINGS = [f"{name}.\n" for name in ("ROMEO", "HAMLET", "FALSTAFF", "VIOLA", "BRUTUS", "PORTIA", "LEAR", "PUCK")]


def words_in(text):
    """Its words, in small letters."""
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower())


@cache
def known_words():
    """The words of the train plays."""
    return set(words_in(plays.text("train")))


def share_known(texts):
    """The share of the words in texts that stand in the train plays."""
    words = [word for text in texts for word in words_in(text)]
    return sum(word in known_words() for word in words) / len(words)


def words_written(model, seed):
    """The share of words that stand in the plays, of what a GPT writes behind eight speakers' names."""
    pieces, generator = reader("pieces"), torch.Generator().manual_seed(seed)
    prompts = [pieces.encode(opening) for opening in OPENINGS]
    room = model.max_len - max(map(len, prompts))
    return share_known(map(pieces.decode, generate(model, prompts, room, COOL, generator=generator)))


def words_drawn(seed):
    """The same share where each token is drawn by its frequency in the train plays, whatever stands before it."""
    pieces, counts = reader("pieces"), Counter(tokens("pieces", "train").tolist())
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(torch.tensor(list(counts.values())).float(), 512, replacement=True, generator=generator)
    return share_known([pieces.decode([list(counts)[place] for place in drawn.tolist()])])


def learned(model, seed):
    """What a trained GPT is asked: bits per character of test plays, and the share of its words that are words."""
    model.eval()
    return {"test": held_out_bits(model, "test"), "words": words_written(model, seed)}


@experiment(files=[PIECES])
def plain_loop(seed):
    """Bits per character on held-out plays of a GPT in a plain training loop, and how many of its words are words."""
    own = GPT(GPTConfig(len(reader("pieces")), **SIZES))
    batches = windows(tokens("pieces", "train"), BATCH, own.max_len, seed)
    optimiser, curve = three_rounds(own), []
    drawn = {"untrained": words_written(own, seed), "drawn by frequency": words_drawn(seed)}
    for step in range(STEPS):
        if step in LOOKS:
            curve.append(held_out_bits(own, "validation"))
        for group in optimiser.param_groups:
            group["lr"] = RATE * cosine(step, STEPS, warmup=20)
        ids = next(batches)
        logits = own(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return learned(own, seed) | drawn | {"validation": [*curve, held_out_bits(own, "validation")]}


# --- fine-tuning: was it a question?

TOLD, MARKED, SHOWN = 120, 200, 24  # texts of each kind to learn and to be asked, and their tokens


class TunedGPT(nn.Module):
    """A GPT with two more tokens, start and end, and W_y on what stands behind the last block at the end."""

    def __init__(self, old, n_classes=2):
        super().__init__()
        self.gpt = GPT(replace(old.config, vocab_size=old.config.vocab_size + 2, dropout=0.0))
        weights = old.state_dict()
        added = self.gpt.tokens.weight.detach()[-2:]  # drawn at random
        weights["tokens.weight"] = torch.cat([weights["tokens.weight"], added])  # (V + 2, D)
        self.gpt.load_state_dict(weights)
        self.w_y = nn.Linear(old.config.d_model, n_classes)

    def forward(self, ids):  # (B, T), the end is last
        with capture(self.gpt, "norm") as seen:
            token_logits = self.gpt(ids)  # (B, T, V + 2)
        return token_logits, self.w_y(seen["norm"][0][:, -1])  # and (B, C)


def tuning_loss(model, batch, lam):
    """L2 + lam L1 (Radford et al., 2018, equation 5); nothing is padded here."""
    ids, labels = batch
    token_logits, class_logits = model(ids)
    return F.cross_entropy(class_logits, labels) + lam * F.cross_entropy(token_logits[:, :-1].mT, ids[:, 1:])


def before_mark(part, n, seed):
    """Speeches without their last mark, (2 n, SHOWN + 2), half of them questions, and which (2 n,)."""
    pieces, generator, kinds = reader("pieces"), torch.Generator().manual_seed(seed), []
    for mark in ".?":
        ends = [r.text[-101:-1] for r in plays.rows(part)
                if r.speaker and len(r.text) > 70 and r.text.endswith(mark) and "[" not in r.text[-160:]]  # fmt: skip
        order = torch.randperm(len(ends), generator=generator).tolist()
        cut_up = (pieces.encode(ends[at])[-SHOWN:] for at in order)
        kinds += islice((ids for ids in cut_up if len(ids) == SHOWN), n)
    first, last = (torch.full((2 * n, 1), len(pieces) + more) for more in (0, 1))
    return torch.cat([first, torch.stack(kinds), last], dim=1), torch.arange(2).repeat_interleave(n)


def told_batches(ids, labels, seed, size=16):
    generator = torch.Generator().manual_seed(seed)
    while True:
        for some in torch.randperm(len(ids), generator=generator).split(size):
            yield ids[some], labels[some]


@experiment(each(lam=[0.0, 0.5]), files=[PIECES])
def fine_tuned(seed, lam):
    """The share of right marks of the stored GPT, fine-tuned on 240 speeches, and its loss on the language after it."""
    model, (ids, labels) = TunedGPT(load(recipe.GPT)[0]), before_mark("train", TOLD, seed)
    steps = 3 * len(ids) // 16  # three times through, as in the paper
    fit(model, told_batches(ids, labels, seed), partial(tuning_loss, lam=lam), steps=steps, lr=1e-3,
        schedule=partial(cosine, warmup=steps // 10), device=CPU, progress=False)  # fmt: skip
    asked, answers = before_mark("test", MARKED, 0)  # always the same
    with torch.no_grad():
        token_logits, class_logits = model(asked)
    right = (class_logits.argmax(dim=1) == answers).float().mean()
    return {"right": right, "language": F.cross_entropy(token_logits[:, :-2].mT, asked[:, 1:-1])}


def shuffled_weights(model, seed):
    """The same numbers in every matrix, at other places: nothing that was learned is left but their sizes."""
    generator, copy = torch.Generator().manual_seed(seed), GPT(model.config)
    copy.load_state_dict({
        name: value.flatten()[torch.randperm(value.numel(), generator=generator)].view_as(value) if value.ndim > 1
        else value for name, value in model.state_dict().items()})  # fmt: skip
    return copy.eval()


def linear_right(features, labels, asked_features, answers):
    """The share of right answers of a linear classifier on features (N, F), each brought to one scale."""
    middle, spread = features.mean(dim=0), features.std(dim=0) + 1e-6
    x, asked_x = ((some - middle) / spread for some in (features, asked_features))
    w = torch.zeros(x.shape[1], requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = F.binary_cross_entropy_with_logits(x @ w, labels.float()) + 0.1 * w.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return ((asked_x @ w > 0) == answers.bool()).float().mean()


@torch.no_grad()
def at_last_token(model, ids):
    """Behind the last token of the text: the last block's vector (N, D), and the logits (N, V)."""
    with capture(model, "norm") as seen:
        logits = model(ids[:, 1:-1])
    return seen["norm"][0][:, -1], logits[:, -1]


@experiment(files=[PIECES])
def not_tuned(seed):
    """The share of right marks where no weight of the GPT learns: a linear layer on it or on tokens, or nothing."""
    model, pieces = load(recipe.GPT)[0], reader("pieces")
    (ids, labels), (asked, answers) = before_mark("train", TOLD, seed), before_mark("test", MARKED, 0)

    def right(features):
        return linear_right(features(ids), labels, features(asked), answers)

    def which_tokens(some):
        return torch.zeros(len(some), len(pieces)).scatter(1, some[:, 1:-1], 1.0)  # (N, V), 1 where it occurs

    shuffled = shuffled_weights(model, seed)
    question, stop = (int(pieces.encode(mark)[0]) for mark in "?.")
    odds = at_last_token(model, asked)[1]
    odds = odds[:, question] - odds[:, stop]  # log p("?") / p(".")
    return {"frozen, linear layer only": right(lambda some: at_last_token(model, some)[0]),
            "frozen, weights shuffled": right(lambda some: at_last_token(shuffled, some)[0]),
            "bag of tokens, linear": right(which_tokens),
            "no label: p(?) against p(.)": ((odds > odds.median()) == answers.bool()).float().mean()}  # fmt: skip


# --- examples in the prompt of the published model. The seed draws examples; nothing is trained, so one instruction set

DRAWS, ASKED = 3, 6  # random choices of examples; words asked behind each
ASKED_ABOUT = ("capitals", "antonyms", "made-up suffix")


def another_task(task, n, generator):
    """Examples of the next task on the list: the same form, another relation."""
    other = word_tasks.TASKS[(word_tasks.TASKS.index(task) + 1) % len(word_tasks.TASKS)]
    return draw(word_tasks.pairs(other, "train"), n, generator)


def behind_examples(seed, task, n, show="right answers"):
    """Share of exact answers, and bits of the right one, behind each choice of n examples; each asks other words."""
    pool, asked, found = word_tasks.pairs(task, "train"), word_tasks.pairs(task, "test"), []
    for number in range(DRAWS):
        generator = torch.Generator().manual_seed(1000 * seed + number)
        shown = draw(pool, n, generator)
        if show == "wrong answers":
            shown = wrong_labels(shown, pool, generator)  # an answer of another word of the task
        elif show == "another task's":
            shown = another_task(task, n, generator)
        words, answers = zip(*asked[ASKED * number : ASKED * (number + 1)], strict=True)
        found.append(read(*smollm2(), [prompt(shown, word) for word in words], answers))
    return {"exact": np.mean([float(right.float().mean()) for right, _ in found]),
            "bits": np.mean([float(bits.mean()) for _, bits in found])}  # fmt: skip


@experiment(each(task=word_tasks.TASKS), seeds=[0], cpus=["default"])
def without_examples(seed, task):
    """Exact answers of a published model, and bits of the right one, to 18 words of a task without an example."""
    return behind_examples(seed, task, 0)


EXAMPLES = each(task=ASKED_ABOUT, n=[8], show=["another task's", "wrong answers"])


@experiment(each(task=word_tasks.TASKS, n=[2, 8], show=["right answers"]) + EXAMPLES, cpus=["default"])
def with_examples(seed, task, n, show):
    """Exact answers of a published model, and bits of the right one, to 18 words of a task behind examples."""
    return behind_examples(seed, task, n, show)


# Three ways to say what is wanted: task, format, and where the line ends. All three were tried, and all are shown.
WORDINGS = (
    "Behind each arrow write {answer}, then end the line.",
    "Each line holds {word}, an arrow, and {answer}; then the line ends. Nothing else stands in it.",
    "Task: for {word}, write {answer}. Format: the word, an arrow, the answer, the end of the line.",
)
SAID = {  # what a word is, and what its answer is
    "capitals": ("a country", "its capital"),
    "antonyms": ("a word", "its opposite"),
    "plurals": ("a noun", "its plural"),
    "past tense": ("a verb", "its past tense"),
    "English to French": ("an English word", "the same word in French"),
    "kinds": ("a word", "the kind of thing that it is"),
    "made-up suffix": ("a word", "the same word with -zo behind it"),
    "letters reversed": ("a word", "its letters from last to first"),
}


def instruction(task, wording):
    """One of the ways to say what a task wants."""
    word, answer = SAID[task]
    return WORDINGS[wording].format(word=word, answer=answer)


@experiment(each(task=word_tasks.TASKS), seeds=range(len(WORDINGS)), cpus=["default"])
def instructed(seed, task):
    """Exact answers of a published model, and bits of the right one, behind an instruction alone: seed, its wording."""
    words, answers = zip(*word_tasks.pairs(task, "test")[: DRAWS * ASKED], strict=True)
    prompts = [f"{instruction(task, seed)}\n{prompt([], word)}" for word in words]
    right, bits = read(*smollm2(), prompts, answers)
    return {"exact": float(right.float().mean()), "bits": float(bits.mean())}


# --- from base to assistant: the published model with and without the chat template of its file

ROOM = 60  # tokens that an answer may take
QUESTIONS = {
    "capitals": "What is the capital of {word}?",
    "antonyms": "What is the opposite of {word}?",
    "plurals": "What is the plural of {word}?",
    "past tense": "What is the past tense of {word}?",
}


@cache
def chat_template():
    """The template in the published model's file, ready to render."""
    return jinja2.Template(gguf_chat_template(published.fetch("smollm2")))


def in_template(question):
    """A question as the model was tuned to read it: rendered by its own template, the answer's turn begun."""
    return chat_template().render(messages=[{"role": "user", "content": question}], add_generation_prompt=True)


def with_specials(tokenizer, text):
    """Ids of a text (T,) in which the name of a special token stands for that token."""
    names = "|".join(map(re.escape, tokenizer.specials))
    parts = [part for part in re.split(f"({names})", text) if part]
    return torch.cat([torch.tensor([tokenizer.specials[part]]) if part in tokenizer.specials else tokenizer.encode(part)
                      for part in parts])  # fmt: skip


@torch.no_grad()
def answered_to(texts):
    """What the published model writes greedily behind each text, and whether it ends by itself."""
    model, tokenizer = smollm2()
    ends = [tokenizer.specials[name] for name in ("<|im_end|>", "<|endoftext|>")]
    written = generate(model, [with_specials(tokenizer, text) for text in texts], ROOM, temperature=0, stop=ends)
    return [tokenizer.decode(ids) for ids in written], [len(ids) < ROOM for ids in written]


@experiment(each(task=QUESTIONS, template=[False, True]), seeds=[0], cpus=["default"])
def asked_plainly(seed, task, template):
    """How often a published model names the right word and ends by itself, with its chat template and without."""
    pairs = word_tasks.pairs(task, "test")[: DRAWS * ASKED]
    questions = [QUESTIONS[task].format(word=word) for word, _ in pairs]
    said, ended = answered_to([in_template(one) if template else one + "\n" for one in questions])
    holds = [answer.lower() in words_in(text) for text, (_, answer) in zip(said, pairs, strict=True)]
    return {"names it": np.mean(holds), "ends": np.mean(ended)}
