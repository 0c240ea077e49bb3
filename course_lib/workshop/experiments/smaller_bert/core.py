"""Lesson 16: shared blocks, replaced words, a teacher, fewer bits; all judged by the marks they put back."""

import time
import warnings
from collections import Counter, defaultdict
from functools import cache

import torch
import torch.ao.quantization
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.bert.fewer_bits import megabytes, with_fewer_bits
from course_lib.bert.lean_bert import LeanWords
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.replaced_words import Discriminator, Replaced, draw_pieces, replace, replaced_loss
from course_lib.bert.soft_targets import distillation_loss, kept_layers
from course_lib.data import punctuation
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes import smaller_bert as recipe
from course_lib.workshop.recipes.smaller_bert import (
    bits,
    lean,
    marker,
    marks_found,
    masked_rows,
    pieces,
    taught,
    words_loss,
    worth,
)
from course_lib.workshop.recipes.stored import load

HERE = ("default",)  # one instruction set: what was recorded says so
THREE = (0, 1, 2)  # the seeds of what takes long
STORED = [recipe.TEACHER.file]
STACK_STEPS, STEPS = 700, 1_200  # of pre-training: where blocks are shared, and elsewhere
TWO = 2  # layers, where it is not layers that are compared: they learn more in a minute than four


# --- fewer weights, the same look: shared blocks

STACKS = [(4, 4), (4, 1), (2, 2), (1, 1)]  # layers, blocks


@experiment([{"n_layers": L, "n_groups": G} for L, G in STACKS], seeds=THREE, cpus=HERE)
def stack(seed, n_layers, n_groups):
    """Marks found and bits of hidden pieces after 700 steps of masked words: several layers, shared or not."""
    return masked_run(seed, n_layers, n_groups, STACK_STEPS)


@experiment(cpus=HERE)
def masked(seed):
    """Marks found and bits of hidden pieces after 1,200 steps of masked words: two layers."""
    return masked_run(seed, TWO, TWO, STEPS)


def masked_run(seed: int, n_layers: int, n_groups: int, steps: int) -> dict:
    """Pre-train a small BERT on masked words, and measure it."""
    model = LeanWords(lean(seed, n_layers, n_groups))
    taught(model, masked_rows(seed), words_loss, steps)
    return worth(model.bert, seed) | {"bits": bits(model), "weights": sum(w.numel() for w in model.parameters())}


@experiment(cpus=HERE, files=STORED)
def untrained(seed):
    """Marks found by a model that was never pre-trained, and by the stored one, each after the same fine-tuning."""
    return {"untrained": worth(lean(seed, TWO), seed), "stored": worth(teacher().bert, seed)}


# --- every place: replaced words

GENERATORS = ("any piece", "by frequency", "after the piece before", "between its neighbours", "learns too", "stored")
TRIED = ("any piece", "by frequency", "between its neighbours", "learns too")  # the others in the laboratory


@cache
def teacher() -> LeanWords:
    """The stored model, four blocks, 128 wide."""
    return load(recipe.TEACHER)[0]


@cache
def frequency() -> Tensor:
    """p(piece) in the training plays, specials never: (V,)."""
    n = torch.bincount(recipe.text("train"), minlength=len(pieces())).float() + 1
    n[list(pieces().specials.values())] = 0
    return n / n.sum()


@cache
def beside() -> tuple[Tensor, Tensor]:
    """p(piece | the one before it) and p(piece | the one after it), (V, V) each, smoothed by `frequency`."""
    ids, V = recipe.text("train"), len(pieces())
    pairs = torch.bincount(ids[:-1] * V + ids[1:], minlength=V * V).view(V, V).float()
    return tuple((n + 5 * frequency()) / (n.sum(dim=1, keepdim=True) + 5) for n in (pairs, pairs.T))


def guesses(ids: Tensor, chosen: Tensor, generator: str, learner: LeanWords | None = None) -> Tensor:
    """log p of every piece at the chosen places by one of `GENERATORS`: ids (B, T), chosen bool (B, T) -> (N, V).

    Counting ones know the pieces beside a place, and at a row's end the other end's, which is of no use to them.
    """
    n, (after, before) = int(chosen.sum()), beside()
    if generator == "any piece":
        return (frequency() > 0).float().log().expand(n, -1)
    if generator == "by frequency":
        return frequency().log().expand(n, -1)
    left, right = (ids.roll(step, dims=1)[chosen] for step in (1, -1))
    if generator == "after the piece before":
        return after[left].log()
    if generator == "between its neighbours":  # p(w | left) p(w | right) / p(w)
        return (after[left].log() + before[right].log() - frequency().log()).nan_to_num(nan=-torch.inf)
    read = ids.masked_fill(chosen, pieces().mask)
    return (learner or teacher())(read, places=chosen.flatten().nonzero()[:, 0])


def replaced_rows(seed: int, generator: str):
    """Endless `Replaced` batches: 15 pieces of 100 chosen, each exchanged for a draw of the generator."""
    draws = torch.Generator().manual_seed(1 + seed)
    for ids in recipe.rows(seed):
        _, chosen = mask_tokens(ids, pieces(), draws)
        with torch.no_grad():
            drawn = draw_pieces(guesses(ids, chosen, generator), draws)
        yield replace(ids, chosen, drawn)


class Electra(nn.Module):
    """A generator and a discriminator that learn together, with one table of pieces (Clark et al., 2020, section 2)."""

    def __init__(self, discriminator: Discriminator, generator: LeanWords):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        generator.bert.tokens.weight = discriminator.bert.tokens.weight


WEIGHT = 50  # of the discriminator's loss beside the generator's (lambda of Clark et al., 2020, section 2)


def both_losses(draws: torch.Generator):
    """The paper's loss, as `fit` wants it: the generator's on hidden pieces and 50 times the discriminator's."""

    def loss(model: Electra, ids: Tensor) -> Tensor:
        _, chosen = mask_tokens(ids, pieces(), draws)
        scores = guesses(ids, chosen, "learns too", model.generator)  # (N, V)
        batch = replace(ids, chosen, draw_pieces(scores, draws))  # no gradient goes through a draw
        return F.cross_entropy(scores, ids[chosen]) + WEIGHT * replaced_loss(model.discriminator, batch)

    return loss


def at_places(model: nn.Module, batch: tuple[Replaced, Tensor]) -> Tensor:
    """Nats a place that is asked: as `replaced_loss`, of these places alone, bool (B, T)."""
    read, places = batch
    return F.binary_cross_entropy_with_logits(model(read.ids)[places], read.replaced[places].float())


def discriminator(seed: int, generator: str, steps: int = STEPS) -> Discriminator:
    """A small BERT that learned which pieces were replaced; the generator is one of `GENERATORS`."""
    model = Discriminator(lean(seed, TWO))
    if generator != "learns too":
        taught(model, replaced_rows(seed, generator), replaced_loss, steps)
        return model
    pair = Electra(model, LeanWords(lean(seed + 100, n_layers=1)))
    taught(pair, recipe.rows(seed), both_losses(torch.Generator().manual_seed(1 + seed)), steps)
    return model


@torch.no_grad()
def generator_skill(generator: str) -> dict:
    """Of a generator that does not learn: bits of the piece that stood there, and how often it draws just that."""
    ids, draws = recipe.text("test")[: 400 * recipe.ROW].view(-1, recipe.ROW), torch.Generator().manual_seed(1)
    _, chosen = mask_tokens(ids, pieces(), draws)
    scores = guesses(ids, chosen, generator).log_softmax(dim=-1)
    nats = -scores.gather(1, ids[chosen][:, None]).clamp(min=-30).mean()
    return {"bits": nats / torch.tensor(2.0).log(), "same": (draw_pieces(scores, draws) == ids[chosen]).float().mean()}


@experiment(each(generator=TRIED), cpus=HERE)
def replaced(seed, generator):
    """Marks found after 1,200 steps of replaced words, by what the generator knows; how many replaced are found."""
    return replaced_run(seed, generator)


def replaced_run(seed: int, generator: str) -> dict:
    """Pre-train a discriminator, and measure it and its generator."""
    model = discriminator(seed, generator)
    held = next(replaced_rows(10_000, "by frequency" if generator == "learns too" else generator))
    with torch.no_grad():
        said = model(held.ids) > 0
    skill = {} if generator == "learns too" else generator_skill(generator)
    return worth(model.bert, seed) | skill | {
        "replaced": held.replaced.float().mean(),
        "found": (said & held.replaced).sum() / held.replaced.sum(),
        "false alarms": (said & ~held.replaced).sum() / (~held.replaced).sum(),
    }  # fmt: skip


@experiment(cpus=HERE)
def few_places(seed):
    """Marks found where the same discriminator is asked at 15 of 100 places, exchanged or not, drawn at random."""
    draws, model = torch.Generator().manual_seed(100 + seed), Discriminator(lean(seed, TWO))
    rows = replaced_rows(seed, "any piece")
    batches = ((read, torch.rand(read.ids.shape, generator=draws) < 0.15) for read in rows)
    taught(model, batches, at_places, STEPS)
    return worth(model.bert, seed)


# --- a teacher

# A step with a teacher takes about 1.8 times as long: as many seconds, then (`pace` says how near).
HALF_STEPS, TEMPERATURE = {"hidden pieces": 400, "the teacher": 220, "a random teacher": 220}, 2.0
STARTS = [(start, lesson) for start in ("its layers", "drawn") for lesson in HALF_STEPS][:-1]


def half(seed: int, start: str, layers: tuple = (0, 2)) -> LeanWords:
    """Half of the teacher's layers, with its weights or with drawn ones."""
    if start == "drawn":
        return LeanWords(lean(seed, len(layers), width=teacher().bert.config.d_model))
    student = LeanWords(kept_layers(teacher().bert, list(layers)))
    student.transform.load_state_dict(teacher().transform.state_dict())
    student.norm.load_state_dict(teacher().norm.state_dict())
    student.bias.data.copy_(teacher().bias)
    return student


def teaching(master: LeanWords, temperature: float = TEMPERATURE):
    """A loss for `fit`: what the master says of the hidden pieces is what the student is to say."""

    def loss(model: LeanWords, batch: tuple) -> Tensor:
        read, places, _ = batch
        with torch.no_grad():
            meant = master(read, places=places)
        return distillation_loss(model(read, places=places), meant, temperature)

    return loss


def random_teacher(seed: int) -> LeanWords:
    """The teacher's build with weights that were never trained; its answers are spread as far as the teacher's are."""
    master = LeanWords(lean(seed + 500, width=teacher().bert.config.d_model))
    read, places, _ = recipe.blanks("validation", 60)
    with torch.no_grad():
        wanted, found = (model(read, places=places).std() for model in (teacher(), master))
        master.norm.gain.mul_(wanted / found)
    return master.eval()


@experiment([{"start": start, "lesson": lesson} for start, lesson in STARTS], seeds=THREE, cpus=HERE, files=STORED)
def taught_half(seed, start, lesson):
    """Marks found and bits of hidden pieces of half a model after as many seconds: what it begins with, who teaches."""
    model = half(seed, start)
    losses = {"hidden pieces": lambda: words_loss, "the teacher": lambda: teaching(teacher()),
              "a random teacher": lambda: teaching(random_teacher(seed))}  # fmt: skip
    taught(model, masked_rows(seed), losses[lesson](), HALF_STEPS[lesson], recipe.RATE / 2)
    return worth(model.bert, seed) | {"bits": bits(model)}


@experiment(cpus=HERE, files=STORED)
def cut_half(seed):
    """Marks found and bits of hidden pieces of the teacher's half as it is cut out, before it is taught anything."""
    model = half(seed, "its layers")
    return worth(model.bert, seed) | {"bits": bits(model)}


# --- fewer bits

BITS, GROUP = (8, 6, 5, 4, 3, 2), 32


@experiment(cpus=HERE, files=STORED)
def few_bits(seed):
    """Marks found and megabytes of the stored model, taught to set marks, with 8 to 2 bits a weight."""
    model = marker(teacher().bert, seed)
    found = {"32": marks_found(model) | {"megabytes": megabytes(model)}}
    for n in BITS:
        for group in (None, GROUP):
            name = f"{n}" if group is None else f"{n}, groups of {group}"
            small = with_fewer_bits(model, n, group)
            found[name] = marks_found(small) | {"megabytes": megabytes(small, n, group)}
    return found


# --- rivals that learn nothing but counts, and what a step costs


@experiment(each(speeches=[recipe.LABELLED, 20_352]), cpus=HERE)
def counting(seed, speeches):
    """Marks found by counting them in training speeches: behind this word, before the next, both together."""
    known, behind, before = punctuation.rows("train"), defaultdict(Counter), defaultdict(Counter)
    for i in torch.randperm(len(known), generator=torch.Generator().manual_seed(1000 + seed))[:speeches].tolist():
        row = known[i]
        for word, following, mark in zip(row.words, row.words[1:], row.marks, strict=False):
            behind[word][mark] += 1
            before[following][mark] += 1
    every = sum(behind.values(), Counter())
    by_word, by_both, meant = [], [], []
    for row in recipe.asked("test"):
        for word, following, mark in zip(row.words, row.words[1:], row.marks, strict=False):
            one, other = share(behind[word], every), share(before[following], every)
            both = one * other / share(every, every)  # p(mark | word) p(mark | next) / p(mark)
            by_word.append(one)
            by_both.append(both / both.sum())
            meant.append(punctuation.MARKS.index(mark))
    said = {"the word": by_word, "the word and the next": by_both}
    return {name: both_f1(recipe.marks_said(torch.stack(p)), torch.tensor(meant)) for name, p in said.items()}


def share(counts: Counter, every: Counter) -> Tensor:
    """p(mark) by counts, and as if ten more had been seen that are spread as over all words: (marks,)."""
    spread = torch.tensor([every[mark] / every.total() for mark in punctuation.MARKS])
    return (torch.tensor([counts[mark] for mark in punctuation.MARKS]) + 10 * spread) / (counts.total() + 10)


def both_f1(said: Tensor, meant: Tensor) -> dict:
    """F1 of the places and of the marks, as `marks_found` counts them."""
    return {"places": recipe.f1((said > 0).long(), (meant > 0).long()), "marks": recipe.f1(said, meant)}


@experiment(seeds=[0], cpus=HERE, files=STORED)
def pace(seed):
    """Seconds of one core that a step takes, by what is trained; measured in turns."""
    hidden, ids = next(masked_rows(seed)), next(recipe.rows(seed))
    pair = Electra(Discriminator(lean(seed, TWO)), LeanWords(lean(seed + 100, n_layers=1)))
    draws, cheap = torch.Generator().manual_seed(0), replaced_rows(seed, "by frequency")
    dear, student = replaced_rows(seed, "stored"), half(seed, "drawn")
    whole = LeanWords(lean(seed, width=teacher().bert.config.d_model))
    stacks = {f"masked, {L} layers, {G} blocks": LeanWords(lean(seed, L, G)) for L, G in STACKS}
    steps = {name: (model, lambda model: words_loss(model, hidden)) for name, model in stacks.items()}
    steps |= {
        "replaced, by frequency": (pair.discriminator, lambda model: replaced_loss(model, next(cheap))),
        "replaced, stored": (Discriminator(lean(seed, TWO)), lambda model: replaced_loss(model, next(dear))),
        "replaced, learns too": (pair, lambda model: both_losses(draws)(model, ids)),
        "as large as the teacher": (whole, lambda model: words_loss(model, hidden)),
        "half of it": (student, lambda model: words_loss(model, hidden)),
        "half of it, taught": (half(seed, "drawn"), lambda model: teaching(teacher())(model, hidden)),
    }
    taken = {name: [] for name in steps}
    steppers = {name: torch.optim.AdamW(model.parameters(), lr=1e-5) for name, (model, _) in steps.items()}
    for _ in range(9):
        for name, (model, loss) in steps.items():
            start = time.thread_time()
            model.zero_grad()
            loss(model).backward()
            steppers[name].step()
            taken[name].append(time.thread_time() - start)
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}


@experiment(seeds=[0], cpus=HERE, files=STORED)
def int8(seed):
    """Seconds to set the marks of 64 speeches, and of one: in floats, and in PyTorch's whole numbers."""
    floats = marker(teacher().bert, seed).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says where its next quantisation lives
        whole = torch.ao.quantization.quantize_dynamic(floats, {nn.Linear}, dtype=torch.qint8)
    found = {"floats": marks_found(floats), "int8": marks_found(whole)}
    for n in (64, 1):
        ids, _, mask, _ = recipe.marked_batch(recipe.asked("test")[-n:])
        taken = {"floats": [], "int8": []}
        with torch.no_grad():
            for _ in range(15):
                for name, model in (("floats", floats), ("int8", whole)):
                    start = time.thread_time()
                    model(ids, None, mask)
                    taken[name].append(time.thread_time() - start)
        for name, seconds in taken.items():
            found[name][f"seconds, {n}"] = sorted(seconds)[len(seconds) // 2]
    return found
